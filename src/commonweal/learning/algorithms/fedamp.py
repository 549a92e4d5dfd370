"""FedAMP (Huang et al. 2021, Algorithm 1): each client gets a model of its own, closer to clients like it.

    u_i = (1 − Σ_j ξ_ij) w_i + Σ_j ξ_ij w_j,   ξ_ij = α A'(‖w_i − w_j‖²),   A'(x) = exp(−x/σ)/σ,   j ≠ i

Client i then minimises ℓ(w) + λ/(2α) ‖w − u_i‖², starting from u_i. The ξ_ij of a client are scaled down where they
would sum to more than 1. A client outside the coalition whose models are merged contributes no model of its own, so
its ξ are scaled to sum to 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from commonweal.learning.algorithms.fedavg import FedAvg
from commonweal.learning.algorithms.protocol import Descent, LocalResult
from commonweal.learning.models import average
from commonweal.learning.vectors import VectorLayout


class FedAMP(FedAvg):
    """`alpha`, `sigma` and `proximal_weight` (λ) are those of the formula above."""

    is_personal = True

    def __init__(
        self, layout: VectorLayout, learning_rate: float, *, alpha: float, sigma: float, proximal_weight: float
    ) -> None:
        super().__init__(layout, learning_rate)
        self._alpha = alpha
        self._sigma = sigma
        self._pull = proximal_weight / alpha

    def aggregate(self, models: Mapping[str, Tensor], weights: Mapping[str, float], own: Tensor | None) -> Tensor:
        if own is None:
            return super().aggregate(models, weights, own)
        attention = {client: self._attention(own, model) for client, model in models.items() if model is not own}
        total = math.fsum(attention.values())
        self_weight = max(0.0, 1.0 - total) if any(model is own for model in models.values()) else 0.0
        if total + self_weight == 0.0:  # so far from everybody that no client is like it
            return super().aggregate(models, weights, None)
        shares = [self_weight if model is own else attention[client] for client, model in models.items()]
        return average(list(models.values()), shares)

    def local(self, shared: Tensor, served: Tensor, memory: Tensor, descend: Descent) -> LocalResult:
        anchor = shared[self._layout.trainable]
        model, _ = descend(shared, lambda w: self._pull * (w - anchor))
        return LocalResult(model=model, memory=memory)

    def _attention(self, own: Tensor, other: Tensor) -> float:
        distance = float((own - other).double().square().sum())
        return self._alpha * math.exp(-distance / self._sigma) / self._sigma
