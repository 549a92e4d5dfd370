"""Models as they travel: named arrays of floats, known by a hash of what is in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Model = dict[str, NDArray[Any]]


def fingerprint(model: Model) -> str:
    """SHA-256 over names, kinds, shapes and contents."""
    content = hashlib.sha256()
    for name in sorted(model):
        array = np.ascontiguousarray(model[name])
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
        # The extremes of an array are finite just if all of it is.
        if array.size and not np.isfinite([array.min(), array.max()]).all():
            return f"{name!r} is not finite"
    return None


def average(models: Sequence[Model], weights: Sequence[float]) -> Model:
    """Σ w_i m_i / Σ w_i, computed by the very code that averages in the simulator: equal inputs, equal bits."""
    import torch

    from commonweal.learning.aggregation import average as average_tensors

    torch.set_num_threads(1)
    return {
        name: average_tensors([torch.from_numpy(np.array(model[name])) for model in models], weights).numpy()
        for name in models[0]
    }


def _listed(model: Model) -> str:
    names = [ascii(name)[:40] for name in sorted(model)]  # a stranger's names shall not command a terminal
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") or "none"
