"""Plain PyTorch modules as models that travel."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from commonweal.remote.messages.models import Model


def model_of(module: torch.nn.Module) -> dict[str, NDArray[Any]]:
    """A copy of the module's floating-point state; whole-number buffers, such as counters of batches, stay at home."""
    return {
        name: tensor.detach().cpu().numpy().copy()
        for name, tensor in module.state_dict().items()
        if tensor.is_floating_point()
    }


def load_model(module: torch.nn.Module, model: Model) -> None:
    """Put a model into the module."""
    state = {name: torch.from_numpy(np.array(array)) for name, array in model.items()}
    missing = [name for name in model_of(module) if name not in state]
    if missing or module.load_state_dict(state, strict=False).unexpected_keys:
        raise ValueError(f"the model must have the module's own arrays, got {sorted(state)}")
