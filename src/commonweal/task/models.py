"""Models as they are sent: named arrays of floats, identified by a hash of their content."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.task.records import Model

GROWTH_LIMIT = 1000.0
"""Refuse models with a weight that grew by more than this factor: if it overflowed, the shared model would be lost."""


def fingerprint(model: Model) -> str:
    """SHA-256 over names, types, shapes and contents."""
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
            return f"{name!r} contains {largest(array):.3g}, more than {GROWTH_LIMIT:g} times the weights it received"
    return None


def largest(array: NDArray[Any]) -> float:
    """The absolute value of the largest entry; infinite if and only if one of them is not finite."""
    if not array.size:
        return 0.0
    size = float(np.abs(array).max())
    return size if math.isfinite(size) else math.inf


def checked_model(model: object, whose: str) -> Model:
    """A model that can be sent, or an `InputError`; `whose` is the function that made it, such as "initial_model"."""
    way_out = "Return a dict of finite NumPy arrays of floats, such as model_of(module)."
    if not isinstance(model, dict) or not model or not all(isinstance(name, str) for name in model):
        raise InputError(f"{whose} must return named arrays, got {_described(model)}. {way_out}")
    for name, array in model.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or not array.dtype.isnative:
            kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise InputError(f"{whose} must return arrays of floats, got {kind} for {name!r}. {way_out}")
        if not largest(array) < math.inf:
            raise InputError(f"{whose} must return finite numbers, got infinity or nan in {name!r}. {way_out}")
    return model


def _listed(model: Model) -> str:
    names = [ascii(name)[:40] for name in sorted(model)]  # strip terminal control characters
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") or "none"


def _described(model: object) -> str:
    return "an empty dict" if model == {} else type(model).__name__
