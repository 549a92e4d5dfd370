"""How a model is measured on a client's validation samples, with the uncertainty of the figure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.records import PairedGain
from commonweal.task.evaluation import checked_predictions, checked_scores
from commonweal.task.metrics import Metric
from commonweal.task.records import Predictions
from commonweal.valuation.bootstrap import Draws, mean_draws
from commonweal.valuation.profit import is_rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A metric and its bootstrap draws. All are NaN if the samples do not determine the metric."""

    value: float
    draws: Draws
    scores: NDArray[np.float64] | None = field(default=None, compare=False)  # by sample; None: only predictions
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
    return measured_scores(scores, weights)


def measured_scores(scores: NDArray[np.float64], weights: NDArray[np.float64]) -> Measured:
    """The mean of one score per sample."""
    return Measured(value=float(scores.mean()), draws=mean_draws(scores, weights), scores=scores)


def paired_gain(now: Measured, opening: Measured, metric: Metric, sample_count: int) -> PairedGain | None:
    """What the round's model gained over the one that opened the round; None if the metric cannot be measured.

    Both are measured on the same samples, so that the arrival of new samples is no gain or loss. If only predictions
    are known, the squared change is the one that gives a mean over m samples the variance of the bootstrap: m² · Var.
    """
    if not (now.is_defined and opening.is_defined):
        return None
    difference = (now.value - opening.value) * direction(metric)
    if now.scores is not None and opening.scores is not None:
        squared = math.fsum(((now.scores - opening.scores) ** 2).tolist())
    else:
        squared = sample_count**2 * float(np.var(now.draws - opening.draws, ddof=1))
    return PairedGain(
        gain=0.0 if is_unchanged(metric, now.value, opening.value) else difference,
        sample_count=sample_count,
        squared_change=squared,
        is_bounded=metric.is_bounded,
    )


def gain_draws(now: Measured, opening: Measured, metric: Metric) -> Draws:
    """The gain in each bootstrap draw."""
    return (now.draws - opening.draws) * direction(metric)


def gain_over(reference: Measured, now: Measured, metric: Metric) -> tuple[float, Draws]:
    """The gain over any other model, and in each draw; 0 where the metric cannot be measured: nothing is known."""
    if not (now.is_defined and reference.is_defined):
        return 0.0, np.zeros_like(now.draws)
    gain = 0.0 if is_unchanged(metric, now.value, reference.value) else now.value - reference.value
    return gain * direction(metric) + 0.0, gain_draws(now, reference, metric)  # + 0.0: never −0.0


def is_unchanged(metric: Metric, now: float, reference: float) -> bool:
    """Whether two values of the metric differ by no more than rounding.

    A bounded metric is rounded relative to its bounds: R² near 0 is a difference of numbers near 1.
    """
    bounds = [bound for bound in (metric.lowest, metric.highest) if math.isfinite(bound)]
    return bool(is_rounding(now - reference, now, reference, *bounds))


def direction(metric: Metric) -> float:
    """+1 if more is better, −1 if less is."""
    return 1.0 if metric.higher_is_better else -1.0


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
