"""Plain PyTorch modules as models that can be sent."""

from __future__ import annotations

from collections.abc import Callable
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


def score_gradient(module: torch.nn.Module, scores: Callable[[], torch.Tensor]) -> dict[str, NDArray[Any]]:
    """The gradient of the mean of `scores()`, one score per sample, with respect to every array of the module's model.

    `scores` calls the module, which is in evaluation mode meanwhile. Statistics of batch normalisation have a gradient
    too, since they are averaged like everything else. In evaluation mode y = γ (x − m) / √(v + ε) + β, so that

        ∂/∂m = −γ / √(v + ε) · ∂/∂β,   ∂/∂v = −γ / (2 (v + ε)) · ∂/∂γ.
    """
    was_training = module.training
    module.eval()
    try:
        parameters = dict(module.named_parameters())
        found = torch.autograd.grad(scores().mean(), list(parameters.values()), allow_unused=True)
    finally:
        module.train(was_training)
    gradients = dict(zip(parameters, found, strict=True))
    gradient = {
        name: np.zeros_like(array) if (part := gradients.get(name)) is None else part.detach().cpu().numpy().copy()
        for name, array in model_of(module).items()
    }
    for name, norm in module.named_modules():
        if isinstance(norm, torch.nn.modules.batchnorm._BatchNorm) and norm.track_running_stats:
            if not norm.affine:
                raise InputError(f"The gradient of {name!r} needs batch normalisation with affine=True.")
            prefix = f"{name}." if name else ""
            assert norm.running_var is not None
            scale, variance = (tensor.detach().cpu().numpy() for tensor in (norm.weight, norm.running_var + norm.eps))
            gradient[f"{prefix}running_mean"] = -scale / np.sqrt(variance) * gradient[f"{prefix}bias"]
            gradient[f"{prefix}running_var"] = -scale / (2 * variance) * gradient[f"{prefix}weight"]
    return gradient
