"""A round as a path: from the model that opened it to the one that ended it, and each client's part of the way.

    U_n = Σ_l (w_{n,l} − w̄_{l−1})                     client n's updates, over all iterations l of the round
    effect of client n on scorer k = a_n g_k · U_n      g_k = ∇(mean smooth score of k) at ½(w_open + w̄)

a_n is the weight of client n in the average. Only the entries that clients average count (see `Algorithm.averaged`).
The effects of all clients on a scorer sum to the gain in its score along the path, up to the error of the midpoint
rule (Aumann and Shapley 1974).

The model that starts the first round has no statistics of batch normalisation yet, only placeholders (mean 0, variance
1). Half-way between these and the real ones a network computes nothing, and its gradient says nothing. So the path of
the first round starts from the statistics of its first iteration, and what they replaced counts for nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from commonweal.learning.models import average

GRADIENT_BLOCK = 64
"""Gradients that are multiplied with all updates at a time: enough for a fast product, few enough to keep in memory."""


class RoundPath:
    """The updates of one round. They take as much memory as the local models of one iteration."""

    def __init__(
        self, start: Tensor, clients: Sequence[str], averaged: slice, placeholders: slice = slice(0, 0)
    ) -> None:
        """`placeholders` are entries of `start` that the first iteration measures for the first time."""
        self._start = start
        self._averaged = averaged
        self._placeholders = placeholders
        self._rows = {client: row for row, client in enumerate(clients)}
        self._updates = start.new_zeros(len(clients), len(start[averaged]))

    def add(self, base: Tensor, local: Mapping[str, Tensor], sizes: Mapping[str, float]) -> None:
        """Add an iteration: the local models that clients trained from the shared model `base`, and their weights."""
        if self._placeholders.stop:
            base = base.clone()
            measured = [model[self._placeholders] for model in local.values()]
            base[self._placeholders] = average(measured, [sizes[client] for client in local])
            self._start, self._placeholders = base, slice(0, 0)
        for client, model in local.items():
            self._updates[self._rows[client]] += model[self._averaged] - base[self._averaged]

    def midpoint(self, end: Tensor) -> Tensor:
        """The model half-way between the one that opened the round and the one that ended it."""
        return (self._start + end) / 2

    def effects(self, gradients: Sequence[Tensor], sizes: Mapping[str, float]) -> NDArray[np.float64]:
        """One row per gradient and one column per client of `sizes`, whose training samples weigh the average.

        Gradients are those of the entries that clients average.
        """
        rows = [self._rows[client] for client in sizes]
        # All clients are the usual case, in which the updates need not be copied.
        updates = self._updates if rows == list(range(len(self._updates))) else self._updates[rows]
        weights = np.array(list(sizes.values())) / sum(sizes.values())
        product = torch.stack(list(gradients)) @ updates.t()
        return np.asarray(product.double().numpy() * weights)


def norm(gradient: Tensor) -> float:
    """The length of a gradient."""
    return float(torch.linalg.vector_norm(gradient.double()))
