"""What a round was worth to a client and what it cost: utility, cost, profit.

Each function takes single figures or arrays of equal shape (one entry per client) and works element by element.
All amounts are in the client's unit of account; accuracy may be any measure of precision, in its own unit.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError

Floats = NDArray[np.float64]

ROUNDING = 1e-12
"""A difference smaller in size than this times the larger of its two terms is only rounding error, and counts as 0."""


@overload
def utility(unit_value: float, accuracy: float, previous_accuracy: float) -> float: ...
@overload
def utility(unit_value: float | Floats, accuracy: Floats, previous_accuracy: float | Floats) -> Floats: ...
def utility(unit_value: float | Floats, accuracy: float | Floats, previous_accuracy: float | Floats) -> float | Floats:
    """u (ε_t − ε_{t−1}): what the gain in accuracy is worth, if a gain of 1 is worth `unit_value`.

    A gain that is only rounding error is exactly 0: two models that are right equally often must not differ by 2e-16.
    """
    value = _figures("unit value", unit_value, minimum=0.0)
    now, before = _figures("accuracy", accuracy), _figures("previous accuracy", previous_accuracy)
    with np.errstate(over="ignore"):
        gain = now - before
        gain = np.where(is_rounding(gain, now, before), 0.0, gain)
        return _result("utility", value * gain)


@overload
def cost(
    *,
    cost_per_sample: float,
    cost_per_step: float,
    cost_per_round: float,
    sample_count: int,
    step_count: int,
) -> float: ...
@overload
def cost(
    *,
    cost_per_sample: float | Floats,
    cost_per_step: float | Floats,
    cost_per_round: float | Floats,
    sample_count: NDArray[Any],
    step_count: int | NDArray[Any],
) -> Floats: ...
def cost(
    *,
    cost_per_sample: float | Floats,
    cost_per_step: float | Floats,
    cost_per_round: float | Floats,
    sample_count: int | NDArray[Any],
    step_count: int | NDArray[Any],
) -> float | Floats:
    """c_data · samples + c_train · steps + c_comm: the cost of one round; a step is one mini-batch."""
    per_sample = _figures("cost per sample", cost_per_sample, minimum=0.0)
    per_step = _figures("cost per step", cost_per_step, minimum=0.0)
    per_round = _figures("cost per round", cost_per_round, minimum=0.0)
    samples = _figures("sample count", sample_count, minimum=0.0)
    steps = _figures("step count", step_count, minimum=0.0)
    with np.errstate(over="ignore"):
        return _result("cost", per_sample * samples + per_step * steps + per_round)


@overload
def profit(utility: float, cost: float, *, size: float = 0.0) -> float: ...
@overload
def profit(utility: Floats, cost: Floats, *, size: float = 0.0) -> Floats: ...
def profit(utility: float | Floats, cost: float | Floats, *, size: float = 0.0) -> float | Floats:
    """utility − cost, before transfers; exactly 0.0 where the difference is only rounding error.

    The difference counts as 0 when |utility − cost| < 1e-12 · max(|utility|, |cost|, size): a client whose utility
    equals its cost must not be eliminated over −1e-17. `size` is the largest amount that the utility was computed from,
    if known: a small difference of large amounts has their rounding error.
    """
    gained = _figures("utility", utility)
    spent = _figures("cost", cost, minimum=0.0)
    with np.errstate(over="ignore"):
        difference = gained - spent
    return _result("profit", np.where(is_rounding(difference, gained, spent, size), 0.0, difference))


def is_rounding(difference: float | Floats, *terms: float | Floats) -> NDArray[np.bool_]:
    """Whether a difference is below the rounding error of the terms that it was computed from."""
    sizes = np.abs(terms[0])
    for term in terms[1:]:
        sizes = np.maximum(sizes, np.abs(term))
    return np.asarray(np.abs(difference) < ROUNDING * sizes)


def _figures(name: str, given: float | NDArray[Any], minimum: float = -np.inf) -> Floats:
    figures = np.asarray(given, dtype=np.float64)
    is_bad = ~np.isfinite(figures) | (figures < minimum)
    if is_bad.any():
        rule = "finite" if minimum == -np.inf else f"finite and >= {minimum:g}"
        raise InputError(f"{name} must be {rule}, got {_first(figures, is_bad)}; correct the figure")
    return figures


def _result(name: str, figures: Floats) -> float | Floats:
    is_bad = ~np.isfinite(figures)
    if is_bad.any():
        raise InputError(f"{name} must be finite, got {_first(figures, is_bad)}; use a larger unit of account")
    return float(figures) if figures.ndim == 0 else figures


def _first(figures: Floats, is_bad: NDArray[np.bool_]) -> str:
    if figures.ndim == 0:
        return repr(float(figures))
    index = int(np.flatnonzero(is_bad)[0])
    return f"{float(figures.flat[index])!r} at index {index}"
