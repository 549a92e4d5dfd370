"""FedBN (Li et al. 2021, Algorithm 1): for clients whose data look different."""

from __future__ import annotations

from torch import Tensor

from commonweal.learning.algorithms.fedavg import FedAvg
from commonweal.learning.algorithms.protocol import Descent, LocalResult


class FedBN(FedAvg):
    """Scales, shifts and statistics of batch normalisation stay with the client; everything else is averaged."""

    @property
    def averaged(self) -> slice:
        return self._layout.weights

    def first_memory(self, initial: Tensor) -> Tensor:
        return initial[self._layout.norms].clone()

    def personal(self, shared: Tensor, memory: Tensor) -> Tensor:
        model = shared.clone()
        model[self._layout.norms] = memory
        return model

    def local(self, shared: Tensor, served: Tensor, memory: Tensor, descend: Descent) -> LocalResult:
        model, _ = descend(self.personal(shared, memory))
        return LocalResult(model=model, memory=model[self._layout.norms].clone())
