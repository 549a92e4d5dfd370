"""The rules that an answer must follow to count. A broken rule becomes the reason in the record."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.decision.validation import SMALLEST
from commonweal.remote.messages.message import Message
from commonweal.remote.messages.models import Model, fault_of

LARGEST_COUNT = 10**12
LEAST_SCORE = 1e-12  # less counts as 0: contributions from smaller scores could be too small for a decision
MOST_VALIDATION_SAMPLES = 50_000  # the bootstrap must fit into the coordinator's memory


class BrokenRuleError(Exception):
    """An answer that does not count; the text completes "<client> missed the round: ..."."""


def count_in(answer: Message, name: str, *, least: int = 0, most: int = LARGEST_COUNT) -> int:
    value = answer.fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BrokenRuleError(f"its {name} must be a whole number from {least} to {most}, got {_shown(value)}")
    return value


def number_in(answer: Message, name: str) -> float:
    value = answer.fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise BrokenRuleError(f"its {name} must be a finite number, got {_shown(value)}")
    return float(value)


def text_in(answer: Message, name: str) -> str:
    value = answer.fields.get(name)
    if not isinstance(value, str) or len(value) > 1000:
        raise BrokenRuleError(f"its {name} must be a text of up to 1000 characters, got {_shown(value)}")
    return value


def profit_in(answer: Message, bounds: tuple[float, float]) -> float:
    """A client whose profit is outside the bounds that were declared when it joined counts as absent."""
    profit = number_in(answer, "profit")
    low, high = bounds
    if not low <= profit <= high:
        raise BrokenRuleError(f"its profit must lie within its declared bounds {low:g} to {high:g}, got {profit!r}")
    if 0 < abs(profit) < SMALLEST:
        raise BrokenRuleError(f"its profit must be 0 or at least {SMALLEST:g} in size, got {profit!r}")
    return profit


def model_in(answer: Message, like: Model) -> Model:
    model = answer.groups.get("local")
    if model is None:
        raise BrokenRuleError("its answer must contain a local model, got none")
    fault = fault_of(model, like)
    if fault is not None:
        raise BrokenRuleError(
            f"its local model must have the same arrays as the model it received, with finite numbers: {fault}"
        )
    return model


def scores_in(answer: Message, rows: int, columns: int) -> NDArray[np.float64]:
    given = answer.groups.get("scores", {}).get("scores")
    if given is None or given.shape != (rows, columns) or given.dtype not in (np.uint8, np.float64):
        got = "none" if given is None else f"{given.dtype} {given.shape}"
        raise BrokenRuleError(f"it must send {columns} scores for each of {rows} models, got {got}")
    scores = given.astype(np.float64)
    if not ((scores >= 0) & (scores <= 1)).all():  # nan compares as False
        worst = scores[~((scores >= 0) & (scores <= 1))][0]
        raise BrokenRuleError(f"its scores must lie between 0 and 1, got {float(worst)!r}")
    scores[scores < LEAST_SCORE] = 0.0
    return scores


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number larger than any float
        return False


def _shown(value: Any) -> str:
    try:
        return repr(value)[:60]
    except ValueError:  # Python refuses to show whole numbers of more than 4,300 digits
        return "a number with thousands of digits"
