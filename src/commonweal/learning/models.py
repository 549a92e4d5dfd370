"""The networks: their six layers, and where each tensor is in one flat vector.

A model is a vector of floats. Averaging, sending or saving models, or separating BN layers from the rest, is then a
single operation on vectors and slices; only the two learners (`plain`, `fast`) know what the entries mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from commonweal.errors import InputError
from commonweal.scenario.spec import ModelName
from commonweal.seeds import stream_number

NORM_EPSILON = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Three convolutions and three fully connected layers; batch normalisation after all but the last."""

    channels: tuple[int, int, int]
    kernel_sizes: tuple[int, int, int]  # odd, so that the image keeps its size
    pools: tuple[bool, bool, bool]  # whether 2 x 2 max pooling follows
    hidden: tuple[int, int]

    @property
    def smallest_side(self) -> int:
        """The fewest rows and columns of an image of which pooling leaves something."""
        return int(2 ** sum(self.pools))


ARCHITECTURES: dict[ModelName, Architecture] = {
    # Sized for CPUs; docs/decisions/012 explains the widths.
    "compact": Architecture(channels=(16, 32, 64), kernel_sizes=(5, 3, 3), pools=(True, True, True), hidden=(128, 64)),
    # The reference model of the FedBN code, without the biases that batch normalisation cancels.
    "fedbn-digits": Architecture(
        channels=(64, 64, 128), kernel_sizes=(5, 5, 5), pools=(True, True, False), hidden=(2048, 512)
    ),
}


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor of a model: its shape and where it starts in the vector."""

    start: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def of(self, vector: Tensor) -> Tensor:
        """This tensor of the model `vector`, as a view."""
        return vector[self.start : self.start + self.size].view(self.shape)


class Tensors(NamedTuple):
    """The tensors of one model, as views of its vector; lists have one entry per layer."""

    kernels: list[Tensor]  # (out, in, height, width), in the memory layout (out, height, width, in)
    linears: list[Tensor]
    head: Tensor
    head_bias: Tensor
    scales: list[Tensor]
    shifts: list[Tensor]
    means: list[Tensor]
    variances: list[Tensor]


class Layout:
    """Where the tensors of an architecture are in the vector: weights, then BN scales and shifts, then BN statistics.

    Weights of convolutions are (out, height, width, in), of fully connected layers (out, in); the first of these takes
    the image as (height, width, channel), and the last one has an output for each class.
    """

    def __init__(self, architecture: Architecture, image_shape: tuple[int, int, int], class_count: int) -> None:
        height, width, channel_count = image_shape
        if min(height, width) < architecture.smallest_side:
            raise InputError(
                f"The network halves images {sum(architecture.pools)} times, so they must have at least "
                f"{architecture.smallest_side} rows and columns, got {height}×{width}. Enlarge the images."
            )
        self.architecture = architecture
        self.image_shape = image_shape
        self.class_count = class_count
        self._end = 0
        channels = (channel_count, *architecture.channels)
        self.convolutions = [
            self._part(channels[i + 1], size, size, channels[i]) for i, size in enumerate(architecture.kernel_sizes)
        ]
        for is_pooled in architecture.pools:
            height, width = (height // 2, width // 2) if is_pooled else (height, width)
        features = (height * width * channels[-1], *architecture.hidden)
        self.linears = [self._part(features[i + 1], features[i]) for i in range(2)]
        self.head = self._part(class_count, features[-1])
        self.head_bias = self._part(class_count)
        self.weights = slice(0, self._end)
        widths = (*architecture.channels, *architecture.hidden)
        self.scales = [self._part(width) for width in widths]
        self.shifts = [self._part(width) for width in widths]
        self.trainable = slice(0, self._end)
        self.means = [self._part(width) for width in widths]
        self.variances = [self._part(width) for width in widths]
        self.statistics = slice(self.trainable.stop, self._end)
        self.norms = slice(self.weights.stop, self._end)
        self.size = self._end

    def _part(self, *shape: int) -> Part:
        part = Part(self._end, shape)
        self._end += part.size
        return part

    @property
    def parts(self) -> list[Part]:
        """All tensors, in the order of the vector."""
        weights = [*self.convolutions, *self.linears, self.head, self.head_bias]
        return [*weights, *self.scales, *self.shifts, *self.means, *self.variances]

    def tensors(self, vector: Tensor) -> Tensors:
        """The tensors of the model `vector`."""
        return self.named([part.of(vector) for part in self.parts])

    def named(self, tensors: list[Tensor]) -> Tensors:
        """Tensors in the order of `parts`, by what they are."""
        rest = iter(tensors)

        def next_of(parts: list[Part]) -> list[Tensor]:
            return [next(rest) for _ in parts]

        return Tensors(
            kernels=[kernel.permute(0, 3, 1, 2) for kernel in next_of(self.convolutions)],
            linears=next_of(self.linears),
            head=next(rest),
            head_bias=next(rest),
            scales=next_of(self.scales),
            shifts=next_of(self.shifts),
            means=next_of(self.means),
            variances=next_of(self.variances),
        )

    def pack(self, model: Mapping[str, NDArray[Any]]) -> Tensor:
        """A model as it is sent, as a vector. Nothing is copied."""
        return torch.from_numpy(model["vector"])

    def unpack(self, vector: Tensor) -> dict[str, NDArray[Any]]:
        """A vector as a model that can be sent. Nothing is copied."""
        return {"vector": vector.numpy()}

    def initial(self, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """An untrained model: weights uniform within ±1/√(inputs), as in PyTorch's layers; BN layers have no effect."""
        vector = torch.zeros(self.size, dtype=torch.float64)
        for part in (*self.convolutions, *self.linears, self.head, self.head_bias):
            input_count = math.prod((self.head if part is self.head_bias else part).shape[1:])
            bound = 1 / math.sqrt(input_count)
            part.of(vector).uniform_(-bound, bound, generator=generator)
        for part in (*self.scales, *self.variances):
            part.of(vector).fill_(1.0)
        return vector.to(dtype)


def initial_model(layout: Layout, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """The untrained model with which a federation with this seed starts."""
    return layout.initial(torch.Generator().manual_seed(stream_number(seed, "initial model") % 2**63), dtype)


def average(models: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """Σ w_i m_i / Σ w_i, BN statistics included; summed in the given order, so equal inputs give equal bits."""
    total = sum(weights)
    mean = models[0] * (weights[0] / total)
    for model, weight in zip(models[1:], weights[1:], strict=True):
        mean.add_(model, alpha=weight / total)
    return mean


def to_tensor(images: NDArray[np.uint8], dtype: torch.dtype) -> Tensor:
    """Pixels 0..255 as −1..1, as in the FedBN code; (sample, height, width, channel)."""
    return torch.from_numpy(images).to(dtype).div_(127.5).sub_(1.0)
