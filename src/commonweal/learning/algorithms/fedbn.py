"""FedBN (Li et al. 2021, Algorithm 1): for clients whose data look different."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from commonweal.learning.algorithms.protocol import Descent, LocalResult
from commonweal.learning.models import Layout
from commonweal.scenario.spec import LearningSpec


class FedBN:
    """Scales, shifts and statistics of batch normalisation stay with the client; everything else is averaged."""

    def __init__(self, layout: Layout, learning: LearningSpec) -> None:
        self._norms = layout.norms

    def first_memory(self, initial: Tensor) -> Tensor:
        return initial[self._norms].clone()

    def personal(self, shared: Tensor, memory: Tensor) -> Tensor:
        model = shared.clone()
        model[self._norms] = memory
        return model

    def serve(self, memories: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        return memories[0].new_empty(0)

    def local(self, shared: Tensor, served: Tensor, memory: Tensor, descend: Descent) -> LocalResult:
        model, _ = descend(self.personal(shared, memory))
        return LocalResult(model=model, memory=model[self._norms].clone())
