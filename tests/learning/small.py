"""Small networks and samples, and a second implementation of the network in numpy, straight from the formulas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from commonweal.learning.models import NORM_EPSILON, Architecture, Layout

TINY = Architecture(channels=(2, 3, 4), kernel_sizes=(5, 3, 3), pools=(True, True, False), hidden=(6, 5))


@dataclass(frozen=True, kw_only=True)
class Task:
    """A model and samples to train it on."""

    layout: Layout
    vector: Tensor
    images: Tensor
    labels: Tensor


def make_task(
    architecture: Architecture = TINY,
    image_shape: tuple[int, int, int] = (8, 8, 1),
    *,
    class_count: int = 10,
    sample_count: int = 24,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Task:
    """Images of noise; a model whose BN layers do something, unlike those of an untrained one."""
    generator = torch.Generator().manual_seed(seed)
    layout = Layout(architecture, image_shape, class_count)
    vector = layout.initial(generator, torch.float64)
    norms = vector[layout.norms]
    vector[layout.norms] = norms + 0.5 * torch.rand(len(norms), generator=generator, dtype=torch.float64)
    images = 2 * torch.rand(sample_count, *image_shape, generator=generator, dtype=torch.float64) - 1
    labels = torch.randint(class_count, (sample_count,), generator=generator)
    return Task(layout=layout, vector=vector.to(dtype), images=images.to(dtype), labels=labels)


def one_batch(sample_count: int) -> list[list[Tensor]]:
    """One epoch of one batch that holds all samples."""
    return [[torch.arange(sample_count)]]


def loss_by_hand(layout: Layout, vector: np.ndarray, images: np.ndarray, labels: np.ndarray) -> float:
    """The mean cross entropy of one batch in training mode."""
    return forward_by_hand(layout, vector, images, labels)[0]


def forward_by_hand(
    layout: Layout, vector: np.ndarray, images: np.ndarray, labels: np.ndarray
) -> tuple[float, list[np.ndarray], list[np.ndarray]]:
    """The loss, and the mean and the unbiased variance of every channel before its normalisation."""

    def entries(part):
        return vector[part.start : part.start + part.size].reshape(part.shape)

    means, variances = [], []

    def normalise(i, x):
        flat = x.reshape(-1, x.shape[-1])
        means.append(flat.mean(axis=0))
        variances.append(flat.var(axis=0, ddof=1))
        standard = (x - flat.mean(axis=0)) / np.sqrt(flat.var(axis=0) + NORM_EPSILON)
        return standard * entries(layout.scales[i]) + entries(layout.shifts[i])

    x = images
    for i, part in enumerate(layout.convolutions):
        kernel = entries(part)
        _, rows, columns, _ = x.shape
        reach = kernel.shape[1] // 2
        padded = np.pad(x, ((0, 0), (reach, reach), (reach, reach), (0, 0)))
        x = sum(
            padded[:, a : a + rows, b : b + columns] @ kernel[:, a, b].T
            for a in range(kernel.shape[1])
            for b in range(kernel.shape[2])
        )
        x = np.maximum(normalise(i, x), 0)
        if layout.architecture.pools[i]:
            rows, columns = rows // 2 * 2, columns // 2 * 2
            corners = [x[:, a:rows:2, b:columns:2] for a in (0, 1) for b in (0, 1)]
            x = np.max(corners, axis=0)
    x = x.reshape(len(x), -1)
    for i, part in enumerate(layout.linears, start=3):
        x = np.maximum(normalise(i, x @ entries(part).T), 0)
    logits = x @ entries(layout.head).T + entries(layout.head_bias)
    log_normaliser = np.log(np.exp(logits).sum(axis=1))
    return float(np.mean(log_normaliser - logits[np.arange(len(labels)), labels])), means, variances
