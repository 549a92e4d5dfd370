"""What a free rider sends instead of a trained model."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from commonweal.scenario.spec import Noised, Scaled, Untrained

FreeRide = Untrained | Noised | Scaled


def pretended_model(received: Tensor, weights: slice, defect: FreeRide, random: np.random.Generator) -> Tensor:
    """The received model as it came, or its weights with light noise, or times a factor."""
    model = received.clone()
    match defect:
        case Scaled(factor=factor):
            model[weights] *= factor
        case Noised(deviation=deviation):
            noise = torch.from_numpy(random.standard_normal(len(model[weights]))).to(model.dtype)
            model[weights] += deviation * float(model[weights].std()) * noise
    return model
