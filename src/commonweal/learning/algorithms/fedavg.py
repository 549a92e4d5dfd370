"""FedAvg (McMahan et al. 2017, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from commonweal.learning.algorithms.protocol import Descent, LocalResult
from commonweal.learning.models import average
from commonweal.learning.vectors import VectorLayout


class FedAvg:
    """Everything is averaged, including BN statistics. Other algorithms override what they do differently."""

    server_reads_memories = False
    is_personal = False

    def __init__(self, layout: VectorLayout, learning_rate: float) -> None:
        self._layout = layout
        self._learning_rate = learning_rate

    @property
    def averaged(self) -> slice:
        return slice(0, self._layout.size)

    def first_memory(self, initial: Tensor) -> Tensor:
        return initial.new_empty(0)

    def personal(self, shared: Tensor, memory: Tensor) -> Tensor:
        return shared

    def serve(self, memories: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        return memories[0].new_empty(0)

    def aggregate(self, models: Mapping[str, Tensor], weights: Mapping[str, float], own: Tensor | None) -> Tensor:
        return average(list(models.values()), [weights[client] for client in models])

    def local(self, shared: Tensor, served: Tensor, memory: Tensor, descend: Descent) -> LocalResult:
        model, _ = descend(shared)  # w ← w − η ∇ℓ(w; b) for each batch b
        return LocalResult(model=model, memory=memory)
