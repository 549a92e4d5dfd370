"""Models as they travel: named arrays of floats, known by a hash of what is in them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import FederationError

Model = dict[str, NDArray[Any]]

GROWTH_LIMIT = 1000.0
"""No training makes a weight so many times larger; one that overflows would spoil the common model for good."""


def fingerprint(model: Model) -> str:
    """SHA-256 over names, kinds, shapes and contents."""
    content = hashlib.sha256()
    for name in sorted(model):
        array = np.asarray(model[name])
        content.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        content.update(array.tobytes())
    return content.hexdigest()


def fault_of(model: Model, like: Model) -> str | None:
    """Why a model cannot be averaged with others, or None."""
    if set(model) != set(like):
        return f"its arrays are {_listed(model)}, not {_listed(like)}"
    for name, array in model.items():
        wanted = like[name]
        if array.shape != wanted.shape or array.dtype != wanted.dtype:
            return f"{name!r} is {array.dtype} {array.shape}, not {wanted.dtype} {wanted.shape}"
        if array.size and not largest(array) < math.inf:
            return f"{name!r} is not finite"
        limit = GROWTH_LIMIT * max(1.0, largest(wanted))
        if largest(array) > limit:
            return f"{name!r} holds {largest(array):.3g}, more than {GROWTH_LIMIT:g} times what it received"
    return None


def largest(array: NDArray[Any]) -> float:
    """The size of the largest entry; infinite just if one of them is no finite number."""
    if not array.size:
        return 0.0
    size = float(np.abs(array).max())
    return size if math.isfinite(size) else math.inf


def checked_model(model: object, whose: str) -> Model:
    """A model that can travel, or an `FederationError`; `whose` begins the sentence: "initial_model"."""
    way_out = "return a dict of finite NumPy arrays of floats, such as model_of(module)"
    if not isinstance(model, dict) or not model or not all(isinstance(name, str) for name in model):
        raise FederationError(f"{whose} must give named arrays, got {type(model).__name__}; {way_out}")
    for name, array in model.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or not array.dtype.isnative:
            kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise FederationError(f"{whose} must give arrays of floats, got {kind} for {name!r}; {way_out}")
        if not largest(array) < math.inf:
            raise FederationError(f"{whose} must give finite numbers, got others in {name!r}; {way_out}")
    return model


def average(models: Sequence[Model], weights: Sequence[float]) -> Model:
    """Σ w_i m_i / Σ w_i, computed by the very code that averages in the simulator: equal inputs, equal bits."""
    import torch

    from commonweal.learning.models import average as average_tensors

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return {
            name: average_tensors([torch.from_numpy(np.array(model[name])) for model in models], weights).numpy()
            for name in models[0]
        }
    finally:
        torch.set_num_threads(threads)  # the user's own training may have more


def _listed(model: Model) -> str:
    names = [ascii(name)[:40] for name in sorted(model)]  # a stranger's names shall not command a terminal
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") or "none"
