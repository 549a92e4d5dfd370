"""The rules that an answer must follow to count. A broken rule becomes the reason in the record."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.decision.validation import SMALLEST
from commonweal.remote.messages.answer_limit import AnswerLimit
from commonweal.remote.messages.message import Message, fields_text, printable
from commonweal.task.measured import Measured, measured_scores
from commonweal.task.metrics import METRICS, Metric
from commonweal.task.models import fault_of, largest
from commonweal.task.records import Model
from commonweal.valuation.bootstrap import DRAW_COUNT

LARGEST_COUNT = 10**12
LEAST_SCORE = 1e-12  # less counts as 0: contributions from smaller scores could be too small for a decision
LARGEST_METRIC = 1e30
LARGEST_SLOPE = 1e6  # of a score from 0 to 1; a product of larger ones with updates could overflow
LARGEST_DOCUMENT = 1_000_000  # characters
MOST_VALIDATION_SAMPLES = 50_000  # the bootstrap must fit into the coordinator's memory

SMOOTH_SCORE = replace(METRICS["accuracy"], name="smooth-score", label="mean smooth score")  # from 0 to 1, like it

Weights = Callable[[], NDArray[np.float64]]  # of the bootstrap, made when they are needed


class BrokenRuleError(Exception):
    """An answer that does not count; the text completes "<client> missed the round: ..."."""


def fault_of_sizes(answer: Message, limit: AnswerLimit | None) -> str | None:
    """Why an answer is refused for what it contains beyond what was asked for; None if it is not."""
    if limit is None:
        return None
    try:
        length = len(fields_text(answer.fields))
    except (TypeError, ValueError, RecursionError):
        return "the fields of its answer must be plain values"
    sizes = {name: [array.nbytes for array in group.values()] for name, group in answer.groups.items()}
    return limit.fault_of(length, sizes)


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


def profit_in(answer: Message, bounds: tuple[float, float], name: str = "profit") -> float:
    """A client whose profit is outside the bounds that were declared when it joined counts as absent."""
    profit, low, high = number_in(answer, name), *bounds
    what = name.replace("_", " ")
    if not low <= profit <= high:
        raise BrokenRuleError(f"its {what} must lie within its declared bounds {low:g} to {high:g}, got {profit!r}")
    if 0 < abs(profit) < SMALLEST:
        raise BrokenRuleError(f"its {what} must be 0 or at least {SMALLEST:g} in size, got {profit!r}")
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


def measures_in(
    answer: Message, rows: int, columns: int, metric: Metric, weights: Weights, *, is_smooth: bool = False
) -> list[Measured]:
    """The metric of each of `rows` models: from the scores of `columns` samples, or as the member computed it.

    With `is_smooth` the mean smooth score of each of them is needed, too.
    """
    if is_smooth:
        measured = measured_in(answer, "measured", rows, metric)
        smooth = measured_in(answer, "smooth", rows, SMOOTH_SCORE)
        return [replace(one, smooth=score) for one, score in zip(measured, smooth, strict=True)]
    if "measured" not in answer.groups:
        if metric.name != "accuracy":
            raise BrokenRuleError(f"its answer must contain {metric.label}, got scores of samples")
        scores = scores_in(answer, rows, columns)
        return [measured_scores(row, weights()) for row in scores]
    return measured_in(answer, "measured", rows, metric)


def gradient_in(answer: Message, like: NDArray[Any]) -> NDArray[Any]:
    """The gradient of a member's mean smooth score, one number for each entry that is averaged."""
    gradient = answer.groups.get("gradient", {}).get("gradient")
    if gradient is None or gradient.shape != like.shape or gradient.dtype != like.dtype:
        got = "none" if gradient is None else f"{gradient.dtype} {gradient.shape}"
        raise BrokenRuleError(f"it must send a gradient of {like.size} numbers in {like.dtype}, got {got}")
    if not largest(gradient) <= LARGEST_SLOPE:  # nan compares as False
        raise BrokenRuleError(
            f"its gradient must be finite and at most {LARGEST_SLOPE:g} in size, got {largest(gradient):.3g}"
        )
    return gradient


def measured_in(answer: Message, group: str, rows: int, metric: Metric) -> list[Measured]:
    """Metrics that the member computed, with their bootstrap draws; not a number where they cannot be measured."""
    given = answer.groups.get(group, {})
    values, draws = given.get("values"), given.get("draws")
    if values is None or draws is None or values.dtype != np.float64 or draws.dtype != np.float64:
        raise BrokenRuleError(f"its answer must contain {metric.label} and its draws as doubles")
    if values.shape != (rows,) or draws.shape != (rows, DRAW_COUNT):
        raise BrokenRuleError(
            f"its {metric.label} must be one value and {DRAW_COUNT} draws for each of {rows} models, got "
            f"{values.shape} and {draws.shape}"
        )
    measured = []
    for value, row in zip(values.tolist(), draws, strict=True):
        figures = np.append(row, value)
        if np.isnan(figures).all():
            measured.append(Measured(value=math.nan, draws=row))
            continue
        if not ((figures >= metric.lowest) & (figures <= metric.highest) & (np.abs(figures) <= LARGEST_METRIC)).all():
            wrong = figures[~((figures >= metric.lowest) & (figures <= metric.highest))]
            got = repr(float(wrong[0])) if wrong.size else f"{float(np.abs(figures).max()):.3g}"
            raise BrokenRuleError(f"its {metric.label} must lie within {_range(metric)}, got {got}")
        figures[np.abs(figures) < LEAST_SCORE] = 0.0
        measured.append(Measured(value=float(figures[-1]), draws=figures[:-1]))
    return measured


def _range(metric: Metric) -> str:
    low, high = max(metric.lowest, -LARGEST_METRIC), min(metric.highest, LARGEST_METRIC)
    return f"{low:g} to {high:g}"


def memory_in(answer: Message, like: NDArray[Any]) -> NDArray[Any]:
    """What a member's algorithm remembers, where the coordinator needs it."""
    memory = answer.groups.get("memory", {}).get("memory")
    if memory is None or memory.shape != like.shape or memory.dtype != like.dtype or not np.isfinite(memory).all():
        raise BrokenRuleError(f"its answer must contain {like.size} finite numbers of its algorithm's memory")
    return memory


def document_in(answer: Message, name: str) -> dict[str, Any]:
    """A document in JSON."""
    text = answer.fields.get(name)
    if not isinstance(text, str) or len(text) > LARGEST_DOCUMENT:
        raise BrokenRuleError(f"its {name} must be a text of up to {LARGEST_DOCUMENT} characters")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise BrokenRuleError(f"its {name} must be valid JSON") from None
    if not isinstance(document, dict):
        raise BrokenRuleError(f"its {name} must be a JSON object")
    return document


def notes_in(answer: Message) -> dict[str, str]:
    """Sentences for the record, by kind."""
    notes = document_in(answer, "notes")
    if len(notes) > 20 or not all(isinstance(one, str) for one in notes.values()):
        raise BrokenRuleError("its notes must be up to 20 texts")
    return {printable(kind, 40): printable(text) for kind, text in notes.items()}


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
