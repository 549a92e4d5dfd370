"""A client's mini-batches, what a free rider does instead of training, and what a poisoner does after it."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from commonweal.scenario.spec import FreeRide, Noised, NoisedUpdate, Poisoning, Scaled, SignFlip


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


def poisoned_model(
    received: Tensor, trained: Tensor, trainable: slice, defect: Poisoning, random: np.random.Generator
) -> Tensor:
    """What a poisoner sends instead of the model w that it trained from the received model w̄.

        sign-flip       w̄ − k (w − w̄)
        noised-update   w + r ‖w − w̄‖ z / √d,   z of d independent standard normal entries

    Only trainable entries change: with its sign flipped, a running variance could become negative, and a model with
    such a variance gives no probabilities at all.
    """
    model = trained.clone()
    update = trained[trainable] - received[trainable]
    match defect:
        case SignFlip(factor=factor):
            model[trainable] = received[trainable] - factor * update
        case NoisedUpdate(ratio=ratio):
            noise = torch.from_numpy(random.standard_normal(len(update))).to(model.dtype)
            model[trainable] += ratio * float(update.norm()) / math.sqrt(len(update)) * noise
    return model
