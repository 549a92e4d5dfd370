"""FedAvg (McMahan et al. 2017, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from commonweal.learning.algorithms.protocol import Descent, LocalResult
from commonweal.learning.models import Layout
from commonweal.scenario.spec import LearningSpec


class FedAvg:
    """Everything is averaged, including BN statistics."""

    def __init__(self, layout: Layout, learning: LearningSpec) -> None:
        """FedAvg needs neither layout nor settings."""

    def first_memory(self, initial: Tensor) -> Tensor:
        return initial.new_empty(0)

    def personal(self, shared: Tensor, memory: Tensor) -> Tensor:
        return shared

    def serve(self, memories: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        return memories[0].new_empty(0)

    def local(self, shared: Tensor, served: Tensor, memory: Tensor, descend: Descent) -> LocalResult:
        model, _ = descend(shared)  # w ← w − η ∇ℓ(w; b) for each batch b
        return LocalResult(model=model, memory=memory)
