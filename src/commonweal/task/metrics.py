"""Metrics: what a model is measured by on a client's validation samples.

The bootstrap weighs samples, so every metric is computed with sample weights, for all draws at once: `weights` has one
row per sample and one column per draw, and a metric has one value per draw. A sample of weight 0 is not part of a draw.
The values are those of scikit-learn, given the samples of positive weight, with three exceptions:

- A metric that these samples do not determine is undefined, NaN, where scikit-learn puts a conventional number: R² of
  samples with one target only, average precision and F1 of two classes if no sample is of class 1.
- ROC AUC of several classes is the mean over the classes that occur in the targets, each against all others;
  scikit-learn's is undefined as soon as one class does not occur.
- Average precision of several classes is the same kind of mean; scikit-learn refuses columns of classes that do not
  occur.

Whether a metric is defined in a draw depends on targets and weights only, not on the model (unless its error is too
large for a float). So the difference between two models has a value in the same draws as the metric of either.
"""

from __future__ import annotations

import inspect
import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.valuation.bootstrap import Draws, mean_draws

Floats = NDArray[np.float64]
_ROUNDING = 1e-9  # processors round differently
Kind = Literal["classification", "regression", "any"]
Compute = Callable[[NDArray[Any], Floats, Floats], Draws]
OwnFunction = Callable[[NDArray[Any], Floats, Floats], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric, as the registry holds it.

    - `name` is what a scenario writes; `label` is for readers, in running text and on axes.
    - `lowest` and `highest` are the bounds of its values, possibly infinite.
    - `is_share` says that it is shown as a percentage.
    - `kind` says which predictions it takes; a metric of one's own takes any.
    - `compute(targets, values, weights)` gives one value per draw, NaN where the metric is undefined. It expects what
      `commonweal.task.evaluation.checked_predictions` returns, and weights of at least 0.
    """

    name: str
    label: str
    kind: Kind
    compute: Compute
    higher_is_better: bool = True
    lowest: float = 0.0
    highest: float = 1.0
    is_share: bool = False

    @property
    def is_bounded(self) -> bool:
        """Whether its values lie within 0 and 1."""
        return self.lowest == 0 and self.highest == 1

    def can_be(self, value: float) -> bool:
        """Whether a model can have this value, up to rounding."""
        return self.lowest - _ROUNDING <= value <= self.highest + _ROUNDING

    def can_differ_by(self, gain: float) -> bool:
        """Whether the values of two models can be so far apart, up to rounding."""
        return abs(gain) <= self.highest - self.lowest + _ROUNDING


def own_metric(name: str, function: OwnFunction) -> Metric:
    """A metric from a user's function `metric(targets, predictions, weights)`, called once per draw.

    `weights` has one entry per sample. The function returns a number, or NaN where the metric is undefined. Higher
    values are better, unless the function has an attribute `lower_is_better = True`.
    """
    if name in METRICS:
        raise InputError(f"The metric {name!r} is built in; give a metric of your own another name.")
    if not callable(function):
        raise InputError(f"The metric {name} must be a function, got {function!r}.")
    _check_takes_three(name, function)

    def compute(targets: NDArray[Any], values: Floats, weights: Floats) -> Draws:
        arguments = _read_only(targets), _read_only(values)
        return np.array([_returned(name, function, *arguments, of_draw.copy()) for of_draw in weights.T])

    return Metric(
        name=name,
        label=name.replace("_", " "),
        kind="any",
        compute=compute,
        higher_is_better=not getattr(function, "lower_is_better", False),
        lowest=-math.inf,
        highest=math.inf,
    )


# Classification


def _accuracy(targets: NDArray[Any], values: Floats, weights: Floats) -> Draws:
    """The share of samples whose most probable class is the true one."""
    return _weighted_mean((_predicted_classes(values) == targets).astype(np.float64), weights)


def _balanced_accuracy(targets: NDArray[Any], values: Floats, weights: Floats) -> Draws:
    """The mean over classes of the share of their samples that are recognised."""
    class_count = _columns(values).shape[1]
    is_hit = _predicted_classes(values) == targets
    occurring = _weight_by_class(targets, class_count, weights)
    hits = _weight_by_class(targets[is_hit], class_count, weights[is_hit])
    return _mean_of_defined(_ratio(hits, occurring))


def _f1(targets: NDArray[Any], values: Floats, weights: Floats) -> Draws:
    """2·TP / (2·TP + FP + FN) of class 1; of more than two classes the mean over those that occur or are predicted."""
    class_count = _columns(values).shape[1]
    predicted = _predicted_classes(values)
    is_hit = predicted == targets
    hits = _weight_by_class(targets[is_hit], class_count, weights[is_hit])
    occurring = _weight_by_class(targets, class_count, weights)
    f1 = _ratio(2 * hits, occurring + _weight_by_class(predicted, class_count, weights))
    if class_count == 2:
        return np.where(occurring[1] > 0, f1[1], np.nan)
    return _mean_of_defined(f1)


def _roc_auc(targets: NDArray[Any], values: Floats, weights: Floats) -> Draws:
    """The probability that a sample of the class gets a higher value than one of another class; a tie counts half."""
    return _of_classes(_roc_auc_of_one, targets, values, weights)


def _roc_auc_of_one(is_positive: NDArray[np.bool_], scores: Floats, weights: Floats) -> Draws:
    ranked, cumulative = _ranked(scores[is_positive], weights[is_positive])
    others, of_others = -scores[~is_positive], weights[~is_positive]
    higher = cumulative[np.searchsorted(ranked, others, side="left")]
    at_least_as_high = cumulative[np.searchsorted(ranked, others, side="right")]
    pairs = np.einsum("ij,ij->j", of_others, (higher + at_least_as_high) / 2)
    return _ratio(pairs, cumulative[-1] * of_others.sum(axis=0))


def _average_precision(targets: NDArray[Any], values: Floats, weights: Floats) -> Draws:
    """Σ (R_i − R_{i−1}) P_i over the thresholds: the mean over samples of the class of the precision at their value."""
    return _of_classes(_average_precision_of_one, targets, values, weights)


def _average_precision_of_one(is_positive: NDArray[np.bool_], scores: Floats, weights: Floats) -> Draws:
    of_positives = weights[is_positive]
    thresholds = -scores[is_positive]
    ranked, cumulative = _ranked(scores[is_positive], of_positives)
    true_positives = cumulative[np.searchsorted(ranked, thresholds, side="right")]
    ranked, everybody = _ranked(scores, weights)
    positives = everybody[np.searchsorted(ranked, thresholds, side="right")]
    # Where nothing is as high as the threshold, the sample itself has weight 0.
    precision = np.divide(true_positives, positives, out=np.zeros_like(positives), where=positives > 0)
    return _ratio(np.einsum("ij,ij->j", of_positives, precision), cumulative[-1])


# Regression


def _r2(targets: NDArray[Any], values: Floats, weights: Floats) -> Draws:
    """1 − Σ w (y − ŷ)² / Σ w (y − ȳ)², ȳ the weighted mean of the draw."""
    order = np.argsort(targets)
    is_present = weights[order] > 0
    smallest = targets[order][is_present.argmax(axis=0)]
    largest = targets[order][::-1][is_present[::-1].argmax(axis=0)]
    with np.errstate(over="ignore", invalid="ignore"):
        # From the smallest target of the draw: neither a common offset nor samples outside the draw cost digits.
        deviations = np.subtract(targets[:, None], smallest, dtype=np.float64)
        deviations -= _ratio(np.einsum("ij,ij->j", weights, deviations), weights.sum(axis=0))
        deviations **= 2
        # Rounding leaves a little spread when all targets are the same, so their equality is asked for.
        spread = np.where(smallest < largest, np.einsum("ij,ij->j", weights, deviations), 0.0)
        r2 = 1 - _ratio(((targets - values) ** 2) @ weights, spread)
    return np.where(np.isfinite(r2), r2, np.nan)


def _mean_absolute_error(targets: NDArray[Any], values: Floats, weights: Floats) -> Draws:
    """Σ w |y − ŷ| / Σ w, in the unit of the target."""
    with np.errstate(over="ignore", invalid="ignore"):
        errors = _weighted_mean(np.abs(targets - values), weights)
    return np.where(np.isfinite(errors), errors, np.nan)


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric(name="accuracy", label="accuracy", kind="classification", compute=_accuracy, is_share=True),
            Metric(
                name="balanced-accuracy",
                label="balanced accuracy",
                kind="classification",
                compute=_balanced_accuracy,
                is_share=True,
            ),
            Metric(name="roc-auc", label="ROC AUC", kind="classification", compute=_roc_auc),
            Metric(
                name="average-precision", label="average precision", kind="classification", compute=_average_precision
            ),
            Metric(name="f1", label="F1", kind="classification", compute=_f1),
            Metric(name="r2", label="R²", kind="regression", compute=_r2, lowest=-math.inf),
            Metric(
                name="mean-absolute-error",
                label="mean absolute error",
                kind="regression",
                compute=_mean_absolute_error,
                higher_is_better=False,
                highest=math.inf,
            ),
        )
    }
)
"""The built-in metrics, by the name that a scenario gives them. The order is that of messages."""


# What several metrics need


def _columns(values: Floats) -> Floats:
    """One column per class: a single column is the probability of class 1."""
    if values.ndim == 2 and values.shape[1] > 1:
        return values
    of_class_1 = values.reshape(-1)
    return np.column_stack([1 - of_class_1, of_class_1])


def _predicted_classes(values: Floats) -> NDArray[np.intp]:
    """The most probable class; of equally probable ones the first, so class 1 of two needs more than one half."""
    return np.asarray(np.argmax(_columns(values), axis=1))


def _weight_by_class(classes: NDArray[Any], class_count: int, weights: Floats) -> Floats:
    """The sum of the weights of each class (rows) in each draw (columns)."""
    sums = np.zeros((class_count, weights.shape[1]))
    for number in np.unique(classes):
        sums[number] = weights[classes == number].sum(axis=0)
    return sums


def _of_classes(
    metric_of_one: Callable[[NDArray[np.bool_], Floats, Floats], Draws],
    targets: NDArray[Any],
    values: Floats,
    weights: Floats,
) -> Draws:
    """A metric of one class against all others: of class 1 if there are two, else the mean over classes that occur."""
    columns = _columns(values)
    if columns.shape[1] == 2:
        return metric_of_one(targets == 1, columns[:, 1], weights)
    classes = np.unique(targets)
    of_each = [metric_of_one(targets == number, columns[:, number], weights) for number in classes]
    return _mean_of_defined(np.array(of_each).reshape(len(classes), weights.shape[1]))


def _ranked(scores: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Minus the scores, from the highest score down, and in row i the weight of the i highest."""
    order = np.argsort(-scores, kind="stable")
    cumulative = np.zeros((len(scores) + 1, weights.shape[1]))
    np.cumsum(weights[order], axis=0, out=cumulative[1:])
    return -scores[order], cumulative


def _weighted_mean(figures: Floats, weights: Floats) -> Draws:
    """NaN in a draw without samples."""
    with np.errstate(invalid="ignore"):
        return mean_draws(figures, weights)


def _ratio(numerators: Floats, denominators: Floats) -> Floats:
    """NaN where a denominator is 0."""
    ratios = np.full(denominators.shape, np.nan)
    np.divide(numerators, denominators, out=ratios, where=denominators > 0)
    return ratios


def _mean_of_defined(of_each_class: Floats) -> Draws:
    """The mean over classes (rows) without those that are NaN in a draw."""
    is_defined = ~np.isnan(of_each_class)
    return _ratio(np.where(is_defined, of_each_class, 0.0).sum(axis=0), is_defined.sum(axis=0).astype(np.float64))


# Metrics of one's own


def _check_takes_three(name: str, function: OwnFunction) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some compiled functions have none
        return
    try:
        signature.bind(None, None, None)
    except TypeError:
        raise InputError(
            f"The metric {name} must take three arguments (targets, predictions, weights), but it takes {signature}."
        ) from None


def _returned(
    name: str, function: OwnFunction, targets: NDArray[Any], predictions: Floats, weights_of_draw: Floats
) -> float:
    try:
        returned = np.asarray(function(targets, predictions, weights_of_draw))
    except Exception as error:  # whatever a user's function raises
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise InputError(f"The metric {name} failed{_place(error)}: {reason}.") from error
    if returned.shape != () or returned.dtype.kind not in "iuf":
        got = f"an array of shape {returned.shape}" if returned.shape else repr(returned.item())
        raise InputError(f"The metric {name} must return one number, got {got}.")
    figure = float(returned)
    if math.isinf(figure):
        raise InputError(f"The metric {name} must return a finite number, or NaN where it is undefined; got {figure}.")
    return figure


def _place(error: Exception) -> str:
    """The line of the user's function, or of what it called, that raised."""
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first is the call above
    return f" in line {frames[0].lineno} of {Path(frames[0].filename).name}" if frames else ""


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view, so that a function that writes into its arguments fails instead of changing the next draw."""
    view = array.view()
    view.flags.writeable = False
    return view
