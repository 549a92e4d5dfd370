"""FedProx (Li et al. 2020, Algorithm 2): FedAvg with a pull towards the shared model."""

from __future__ import annotations

from torch import Tensor

from commonweal.learning.algorithms.fedavg import FedAvg
from commonweal.learning.algorithms.protocol import Descent, LocalResult
from commonweal.learning.vectors import VectorLayout


class FedProx(FedAvg):
    """Each client minimises ℓ(w) + ρ/2 ‖w − w_shared‖²; ρ is the proximal weight (the authors' μ)."""

    def __init__(self, layout: VectorLayout, learning_rate: float, *, proximal_weight: float) -> None:
        super().__init__(layout, learning_rate)
        self._proximal_weight = proximal_weight

    def local(self, shared: Tensor, served: Tensor, memory: Tensor, descend: Descent) -> LocalResult:
        anchor = shared[self._layout.trainable]
        model, _ = descend(shared, lambda w: self._proximal_weight * (w - anchor))
        return LocalResult(model=model, memory=memory)
