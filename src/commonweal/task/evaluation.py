"""What the function `evaluate` of a task returned, checked.

Messages name the entry that is wrong as Python would: `values[3, 1]` is the second column of the fourth sample.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.task.metrics import Kind
from commonweal.task.records import Predictions

ROUNDING = 1e-6
"""A probability or score may be this far outside 0 to 1."""

SUM_ROUNDING = 0.01
"""The probabilities of a sample may miss a sum of 1 by this much: half precision does."""


def checked_scores(returned: object, sample_count: int) -> NDArray[np.float64]:
    """One score from 0 to 1 per validation sample."""
    scores = _numbers(returned, "scores").astype(np.float64)
    if scores.shape != (sample_count,):
        got = "a single number" if scores.shape == () else f"scores of shape {scores.shape}"
        raise InputError(
            f"evaluate returned {got} for {_samples(sample_count)}. Return one score from 0 to 1 per sample (1.0 where "
            "the model is right), or Predictions."
        )
    _check_from_0_to_1(scores, "scores", "A score must be from 0 to 1.")
    return np.clip(scores, 0.0, 1.0)


def checked_predictions(predictions: Predictions, kind: Kind, sample_count: int) -> Predictions:
    """The predictions with float64 values; for classification with int64 targets, for regression both in one column."""
    targets, values = _numbers(predictions.targets, "targets"), _numbers(predictions.values, "values")
    for name, array in (("targets", targets), ("values", values)):
        if array.shape[:1] != (sample_count,):
            raise InputError(
                f"evaluate returned {name} of shape {array.shape} for {_samples(sample_count)}. "
                "Return one row per sample, in order."
            )
        _check_finite(array, name)
    values = values.astype(np.float64)
    if kind == "classification":
        classes = _checked_classes(_one_per_sample(targets, "targets", "one class"), values)
        return replace(predictions, targets=classes, values=values)
    if kind == "regression":
        return replace(
            predictions,
            targets=_one_per_sample(targets, "targets", "one number").astype(np.float64),
            values=_one_per_sample(values, "values", "one number"),
        )
    return replace(predictions, targets=targets, values=values)


def _checked_classes(targets: NDArray[Any], values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The targets, if there is a column of probabilities for each."""
    if values.ndim > 2 or values.shape[1:] == (0,):
        raise InputError(
            f"evaluate returned values of shape {values.shape}. Return one column of probabilities per class, or for "
            "two classes a single column, the probability of class 1."
        )
    _check_from_0_to_1(
        values, "values", "A probability must be from 0 to 1; return, for example, those of a softmax, not its inputs."
    )
    column_count = values.shape[1] if values.ndim == 2 else 1
    if column_count > 1:
        sums = values.sum(axis=1)
        if (wrong := np.flatnonzero(np.abs(sums - 1) > SUM_ROUNDING)).size:
            raise InputError(
                f"evaluate returned probabilities that sum to {sums[wrong[0]]:.6g} in values[{wrong[0]}]. "
                "The probabilities of all classes must sum to 1."
            )
    class_count = max(column_count, 2)
    is_class = (targets >= 0) & (targets < class_count) & (targets == np.floor(targets))
    if (wrong := np.flatnonzero(~is_class)).size:
        target = targets[wrong[0]].item()
        columns = (
            f"values have {column_count} columns, one for each of the classes 0 to {class_count - 1}"
            if column_count > 1
            else "values have a single column, the probability of class 1, so that targets must be 0 or 1"
        )
        raise InputError(f"evaluate returned targets[{wrong[0]}] = {target!r}, but {columns}.")
    return targets.astype(np.int64)


def _numbers(returned: object, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(returned)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists; tensors that need a gradient
        raise InputError(f"evaluate returned {name} that are not an array of numbers: {error}") from error
    if array.dtype.kind not in "biuf":
        got = type(returned).__name__ if array.shape == () else f"an array of {array.dtype}"
        raise InputError(f"evaluate returned {name} that are not numbers: {got}. Return a NumPy array of floats.")
    return array


def _one_per_sample(array: NDArray[Any], name: str, one: str) -> NDArray[Any]:
    if array.size != len(array):
        raise InputError(f"evaluate returned {name} of shape {array.shape}. Return {one} per sample.")
    return array.reshape(-1)


def _check_finite(array: NDArray[Any], name: str) -> None:
    if (wrong := np.argwhere(~np.isfinite(array))).size:
        cause = " The model may have diverged in training." if name != "targets" else ""
        raise InputError(f"evaluate returned {_entry(array, name, wrong)}; {name} must be finite numbers.{cause}")


def _check_from_0_to_1(array: NDArray[np.float64], name: str, rule: str) -> None:
    _check_finite(array, name)
    if (wrong := np.argwhere((array < -ROUNDING) | (array > 1 + ROUNDING))).size:
        raise InputError(f"evaluate returned {_entry(array, name, wrong)}. {rule}")


def _entry(array: NDArray[Any], name: str, wrong: NDArray[np.intp]) -> str:
    """The first wrong entry, as Python would show it: values[3, 1] = nan."""
    first = tuple(wrong[0].tolist())
    return f"{name}[{', '.join(map(str, first))}] = {array[first].item()!r}"


def _samples(count: int) -> str:
    return f"{count} validation sample{'' if count == 1 else 's'}"
