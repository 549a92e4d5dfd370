"""SCAFFOLD (Karimireddy et al. 2020, Algorithm 1, option II, server step 1): drift corrected by control variates."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from commonweal.learning.algorithms.protocol import Descent, LocalResult
from commonweal.learning.models import Layout


class Scaffold:
    """Memory of a client: its control variate c_i; of the server: c. Both are about the trainable entries."""

    def __init__(self, layout: Layout, learning_rate: float) -> None:
        self._trainable = layout.trainable
        self._learning_rate = learning_rate

    def first_memory(self, initial: Tensor) -> Tensor:
        return initial[self._trainable].new_zeros(self._trainable.stop)

    def first_server_memory(self, initial: Tensor) -> Tensor:
        return self.first_memory(initial)

    def personal(self, shared: Tensor, memory: Tensor) -> Tensor:
        return shared

    def local(self, shared: Tensor, server_memory: Tensor, memory: Tensor, descend: Descent) -> LocalResult:
        drift = server_memory - memory  # c − c_i
        model, step_count = descend(shared, lambda w: drift)  # y ← y − η (g(y) − c_i + c)
        if step_count == 0:
            return LocalResult(model=model, memory=memory, signal=memory - memory)
        moved = shared[self._trainable] - model[self._trainable]
        control = memory - server_memory + moved / (step_count * self._learning_rate)  # c_i⁺
        return LocalResult(model=model, memory=control, signal=control - memory)

    def serve(self, server_memory: Tensor, signals: Sequence[Tensor], client_count: int) -> Tensor:
        for signal in signals:
            server_memory = server_memory + signal / client_count  # c ← c + 1/N Σ Δc_i
        return server_memory
