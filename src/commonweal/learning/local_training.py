"""A client's mini-batches, and what a free rider does instead of training."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from commonweal.scenario.spec import Noised, Scaled, Untrained

FreeRide = Untrained | Noised | Scaled


def make_epochs(
    sample_count: int, batch_size: int, epoch_count: int, random: np.random.Generator
) -> list[list[Tensor]]:
    """For each epoch a random order of all samples, cut into ⌈samples / batch size⌉ batches of nearly equal size.

    A last batch of only two or three samples would spoil the statistics of batch normalisation, and with them the
    accuracy of every client.
    """
    batch_count = math.ceil(sample_count / batch_size)
    return [
        list(torch.from_numpy(random.permutation(sample_count)).tensor_split(batch_count)) for _ in range(epoch_count)
    ]


def pretended_model(received: Tensor, weights: slice, defect: FreeRide, random: np.random.Generator) -> Tensor:
    """The received model: unchanged, with light noise on its weights, or with its weights times a factor."""
    model = received.clone()
    match defect:
        case Scaled(factor=factor):
            model[weights] *= factor
        case Noised(deviation=deviation):
            noise = torch.from_numpy(random.standard_normal(len(model[weights]))).to(model.dtype)
            model[weights] += deviation * float(model[weights].std()) * noise
    return model
