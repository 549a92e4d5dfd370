"""What an algorithm of federated learning decides; everything else is the same for all of them.

Models and memories are flat vectors (see `learning.models`). A memory is what a client keeps from one iteration to the
next; it is empty where an algorithm needs none. The server keeps none: what it sends with the model is computed from
the memories of the active clients, so a client that leaves takes its part with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from commonweal.learning.learner import Correction
from commonweal.learning.vectors import VectorLayout


class Descent(Protocol):
    """A client's local mini-batch gradient descent on its own data."""

    def __call__(self, start: Tensor, correction: Correction | None = None) -> tuple[Tensor, int]:
        """From a model to the trained model and the number of steps."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResult:
    """What a client has after local training."""

    model: Tensor
    memory: Tensor


class Algorithm(Protocol):
    """What differs between algorithms. All methods are pure: they write into no argument.

    `server_reads_memories`: whether `serve` reads memories, so that they must be sent to the server.
    `is_personal`: whether `aggregate` gives each client a model of its own.
    `averaged`: the entries of the shared model that clients use; the others are replaced by their own.
    """

    @property
    def server_reads_memories(self) -> bool: ...
    @property
    def is_personal(self) -> bool: ...
    @property
    def averaged(self) -> slice: ...

    def first_memory(self, initial: Tensor) -> Tensor:
        """A client's memory before the first round."""
        ...

    def personal(self, shared: Tensor, memory: Tensor) -> Tensor:
        """A shared model as a client uses it, for training and for evaluation."""
        ...

    def serve(self, memories: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        """What the server sends with the shared model, from the memories of all active clients."""
        ...

    def aggregate(self, models: Mapping[str, Tensor], weights: Mapping[str, float], own: Tensor | None) -> Tensor:
        """The merged model of these clients, weighted by their training samples.

        `own` is the local model of the client that the merged model is for; only personal algorithms read it.
        """
        ...

    def local(self, shared: Tensor, served: Tensor, memory: Tensor, descend: Descent) -> LocalResult:
        """A client's part of an iteration."""
        ...


class AlgorithmClass(Protocol):
    """How every algorithm is made: from where the parts of the model are, the learning rate and its own parameters."""

    def __call__(self, layout: VectorLayout, learning_rate: float, **parameters: Any) -> Algorithm: ...
