"""Named arrays as one vector of floats, so that algorithms need not know what the arrays mean.

The vector holds the weights first, then scales and shifts of batch normalisation, then its statistics. A layer of batch
normalisation is recognised by its running mean: `name.running_mean`, as PyTorch calls it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from commonweal.learning.models import average

_STATISTICS = ("running_mean", "running_var")


class VectorLayout(Protocol):
    """Where the parts of a model are in its vector."""

    @property
    def weights(self) -> slice: ...  # without batch normalisation
    @property
    def trainable(self) -> slice: ...  # weights, and scales and shifts of batch normalisation
    @property
    def norms(self) -> slice: ...  # all of batch normalisation
    @property
    def statistics(self) -> slice: ...  # of batch normalisation
    @property
    def size(self) -> int: ...


class Packing(VectorLayout, Protocol):
    """A layout that also converts between the model as it is sent, in named arrays, and its vector."""

    def pack(self, model: Mapping[str, NDArray[Any]]) -> Tensor: ...
    def unpack(self, vector: Tensor) -> dict[str, NDArray[Any]]: ...


class ArrayLayout:
    """The layout of a model that is given as named arrays."""

    def __init__(self, model: Mapping[str, NDArray[Any]]) -> None:
        normed = {name.removesuffix(".running_mean") for name in model if name.endswith(".running_mean")}
        statistics = [name for name in model if name.rpartition(".")[2] in _STATISTICS]
        norms = [name for name in model if name.rpartition(".")[0] in normed and name not in statistics]
        weights = [name for name in model if name not in norms and name not in statistics]
        self._shapes = {name: model[name].shape for name in (*weights, *norms, *statistics)}
        self._dtypes = {name: model[name].dtype for name in model}
        self._names = tuple(model)
        self.dtype = np.result_type(*self._dtypes.values(), np.float32)  # PyTorch adds no half precision on CPUs
        self._starts: dict[str, int] = {}
        end = 0
        for name, shape in self._shapes.items():
            self._starts[name] = end
            end += math.prod(shape)
        self.size = end
        self.weights = slice(0, self._end_of(weights, 0))
        self.trainable = slice(0, self._end_of(norms, self.weights.stop))
        self.norms = slice(self.weights.stop, end)
        self.statistics = slice(self.trainable.stop, end)

    def pack(self, model: Mapping[str, NDArray[Any]]) -> Tensor:
        """A model as a vector."""
        parts = [np.asarray(model[name], dtype=self.dtype).reshape(-1) for name in self._shapes]
        return torch.from_numpy(parts[0].copy() if len(parts) == 1 else np.concatenate(parts))

    def unpack(self, vector: Tensor) -> dict[str, NDArray[Any]]:
        """A vector as a model, whose arrays the caller may change."""
        entries = vector.numpy()
        return {
            name: entries[self._starts[name] : self._starts[name] + math.prod(self._shapes[name])]
            .reshape(self._shapes[name])
            .astype(self._dtypes[name])
            for name in self._names
        }

    def of_trainable(self, name: str, vector: Tensor) -> Tensor:
        """The entries of one array in a vector of the trainable entries, in the array's shape."""
        start = self._starts[name]
        return vector[start : start + math.prod(self._shapes[name])].view(self._shapes[name])

    def _end_of(self, names: list[str], start: int) -> int:
        return start + sum(math.prod(self._shapes[name]) for name in names)


def average_models(models: Sequence[Mapping[str, NDArray[Any]]], weights: Sequence[float]) -> dict[str, NDArray[Any]]:
    """Σ w_i m_i / Σ w_i of models that are given as named arrays."""
    layout = ArrayLayout(models[0])
    with one_thread():
        return layout.unpack(average([layout.pack(model) for model in models], weights))


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch with one thread, so that equal inputs give equal bits; the user's own training may use more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
