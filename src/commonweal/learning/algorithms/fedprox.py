"""FedProx (Li et al. 2020, Algorithm 2): FedAvg with a pull towards the shared model."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from commonweal.learning.algorithms.protocol import Descent, LocalResult
from commonweal.learning.models import Layout
from commonweal.scenario.spec import LearningSpec


class FedProx:
    """Each client minimises ℓ(w) + ρ/2 ‖w − w_shared‖²; ρ is the proximal weight (the authors' μ)."""

    def __init__(self, layout: Layout, learning: LearningSpec, *, proximal_weight: float) -> None:
        self._trainable = layout.trainable
        self._proximal_weight = proximal_weight

    def first_memory(self, initial: Tensor) -> Tensor:
        return initial.new_empty(0)

    def personal(self, shared: Tensor, memory: Tensor) -> Tensor:
        return shared

    def serve(self, memories: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        return memories[0].new_empty(0)

    def local(self, shared: Tensor, served: Tensor, memory: Tensor, descend: Descent) -> LocalResult:
        anchor = shared[self._trainable]
        model, _ = descend(shared, lambda w: self._proximal_weight * (w - anchor))
        return LocalResult(model=model, memory=memory)
