"""Plain PyTorch modules as models that can be sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.task.records import Model


def model_of(module: torch.nn.Module) -> dict[str, NDArray[Any]]:
    """A copy of the module's floating-point state, without integer buffers such as counters of batches."""
    return {
        name: tensor.detach().cpu().numpy().copy()
        for name, tensor in module.state_dict().items()
        if tensor.is_floating_point()
    }


def load_model(module: torch.nn.Module, model: Model) -> None:
    """Copy a model into the module."""
    state = {name: torch.from_numpy(np.array(array)) for name, array in model.items()}
    missing = [name for name in model_of(module) if name not in state]
    if missing or module.load_state_dict(state, strict=False).unexpected_keys:
        raise InputError(f"The model must have the module's arrays {sorted(model_of(module))}, got {sorted(state)}.")
