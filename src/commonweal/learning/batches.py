"""The order in which a client sees its training samples."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def make_epochs(
    sample_count: int, batch_size: int, epoch_count: int, random: np.random.Generator
) -> list[list[Tensor]]:
    """For each epoch a random order of all samples, cut into ⌈samples / batch size⌉ batches of nearly one size.

    Nearly one size, because a last batch of two or three samples wrecks the statistics of batch normalisation and with
    them every client's accuracy.
    """
    batch_count = math.ceil(sample_count / batch_size)
    return [
        list(torch.from_numpy(random.permutation(sample_count)).tensor_split(batch_count)) for _ in range(epoch_count)
    ]
