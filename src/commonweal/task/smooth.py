"""The smooth score of a sample, from 0 to 1: it says how right a prediction is, where a hit says only whether.

    classification   the probability given to the true class
    regression       exp(−(error / scale)² / 2); the task states the scale, such as the target's standard deviation

A contribution is a difference between models that agree on most samples. Hits count only the few on which they differ;
the smooth score sees the small changes on all others, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.task.evaluation import checked_predictions
from commonweal.task.metrics import Kind
from commonweal.task.records import Predictions


def smooth_scores(evaluation: object, kind: Kind) -> NDArray[np.float64]:
    """One smooth score per sample, of what `evaluate` returned; `kind` is that of the metric."""
    if not isinstance(evaluation, Predictions):
        raise InputError(
            'contribution_score = "smooth" needs predictions, but evaluate returned one score per sample. Return '
            "Predictions(targets=..., values=...)."
        )
    if kind == "regression" and evaluation.scale is None:
        raise InputError(
            'contribution_score = "smooth" needs to know which errors are large. Return Predictions(targets=..., '
            "values=..., scale=...) with the same scale at all clients, such as the target's standard deviation."
        )
    count = len(evaluation.targets)
    if evaluation.scale is not None:
        numbers = checked_predictions(evaluation, "regression", count)
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(-(((numbers.values - numbers.targets) / evaluation.scale) ** 2) / 2))
    classes = checked_predictions(evaluation, "classification", count)
    values = classes.values.reshape(count, -1)
    if values.shape[1] == 1:
        return np.clip(np.where(classes.targets == 1, values[:, 0], 1 - values[:, 0]), 0.0, 1.0)
    return np.asarray(np.clip(values[np.arange(count), classes.targets], 0.0, 1.0))
