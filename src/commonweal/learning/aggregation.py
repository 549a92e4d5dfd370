"""The average of models."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def average(models: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """Σ w_i m_i / Σ w_i, BN statistics included; in the order given, so that equal inputs give equal bits."""
    total = sum(weights)
    mean = models[0] * (weights[0] / total)
    for model, weight in zip(models[1:], weights[1:], strict=True):
        mean.add_(model, alpha=weight / total)
    return mean
