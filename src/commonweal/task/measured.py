"""How a model is measured on a client's validation samples, with the uncertainty of the figure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.task.evaluation import checked_predictions, checked_scores
from commonweal.task.metrics import Metric
from commonweal.task.records import Predictions
from commonweal.valuation.bootstrap import Draws, mean_draws


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A metric and its bootstrap draws. All are NaN if the samples do not determine the metric."""

    value: float
    draws: Draws
    smooth: Measured | None = None  # the mean smooth score of the same samples, where contributions are measured on it

    @property
    def smooth_score(self) -> Measured:
        assert self.smooth is not None, "a client that measures contributions on the smooth score sends it"
        return self.smooth

    @property
    def is_defined(self) -> bool:
        return not math.isnan(self.value)


def measure(evaluation: object, metric: Metric, weights: NDArray[np.float64]) -> Measured:
    """The metric of what `evaluate` returned: Predictions, or one score per sample, whose mean is the accuracy.

    `weights` are the bootstrap weights, one row per validation sample and one column per draw. A draw in which the
    metric is undefined, such as one without any sample of a class, takes the value of all samples.
    """
    sample_count, draw_count = weights.shape
    if isinstance(evaluation, Predictions):
        predictions = checked_predictions(evaluation, metric.kind, sample_count)
        value = _value(predictions, metric)
        if math.isnan(value):
            return _undefined(draw_count)
        draws = metric.compute(predictions.targets, predictions.values, weights)
        return Measured(value=value, draws=np.where(np.isnan(draws), value, draws))
    if metric.name != "accuracy":
        raise InputError(
            f"The metric {metric.label} needs predictions, but evaluate returned {type(evaluation).__name__}. "
            "Return Predictions(targets=..., values=...)."
        )
    scores = checked_scores(evaluation, sample_count)
    if not sample_count:
        return _undefined(draw_count)
    return Measured(value=float(scores.mean()), draws=mean_draws(scores, weights))


def undefined_reason(predictions: Predictions, metric: Metric) -> str:
    """Why the metric of these predictions is undefined, to follow a colon; empty if it is defined."""
    count = len(predictions.targets)
    predictions = checked_predictions(predictions, metric.kind, count)
    if not math.isnan(_value(predictions, metric)):
        return ""
    if not count:
        return "there are no validation samples"
    if metric.kind == "any":
        return f"the function {metric.name} returned NaN"
    if count == 1:
        return "there is only one validation sample"
    if (predictions.targets == predictions.targets[0]).all():
        return f"all {count} validation samples have the same target"
    return f"{metric.label} of these predictions is too large a number"


def _value(predictions: Predictions, metric: Metric) -> float:
    """The metric of all samples, each with weight 1."""
    if not len(predictions.targets):
        return math.nan
    ones = np.ones((len(predictions.targets), 1))
    return float(metric.compute(predictions.targets, predictions.values, ones)[0])


def _undefined(draw_count: int) -> Measured:
    return Measured(value=math.nan, draws=np.full(draw_count, np.nan))
