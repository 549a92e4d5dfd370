"""SCAFFOLD (Karimireddy et al. 2020, Algorithm 1, option II, server step 1): drift corrected by control variates.

The published algorithm averages models and control variates with equal weights; here both are weighted by samples, as
in all algorithms. The server's c is recomputed from the c_i of the active clients, because adding up
changes, as published, would keep the part of a client that has left.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from commonweal.learning.algorithms.fedavg import FedAvg
from commonweal.learning.algorithms.protocol import Descent, LocalResult
from commonweal.learning.models import average


class Scaffold(FedAvg):
    """A client's memory is its control variate c_i, one entry for each trainable weight."""

    server_reads_memories = True

    def first_memory(self, initial: Tensor) -> Tensor:
        return initial.new_zeros(self._layout.trainable.stop)

    def serve(self, memories: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        return average(memories, weights)  # c = Σ p_i c_i

    def local(self, shared: Tensor, served: Tensor, memory: Tensor, descend: Descent) -> LocalResult:
        drift = served - memory  # c − c_i
        model, step_count = descend(shared, lambda w: drift)  # y ← y − η (g(y) − c_i + c)
        if step_count == 0:
            return LocalResult(model=model, memory=memory)
        moved = shared[self._layout.trainable] - model[self._layout.trainable]
        control = memory - served + moved / (step_count * self._learning_rate)  # c_i⁺
        return LocalResult(model=model, memory=control)
