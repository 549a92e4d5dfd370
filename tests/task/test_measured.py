"""Measuring what `evaluate` returned: values, draws, what is refused, and why a client cannot be measured."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from commonweal.errors import InputError
from commonweal.task.measured import measure, undefined_reason
from commonweal.task.metrics import METRICS, own_metric
from commonweal.task.records import Predictions
from commonweal.valuation.bootstrap import DRAW_COUNT, mean_draws, resampling_weights

ACCURACY, ROC_AUC, R2 = METRICS["accuracy"], METRICS["roc-auc"], METRICS["r2"]


def two_classes(count=30, seed=1):
    random = np.random.default_rng(seed)
    return Predictions(targets=random.integers(0, 2, count), values=np.round(random.random(count), 2))


# Scores


@pytest.mark.parametrize("kind", ["hit", "probability"])
def test_scores_are_measured_by_their_mean_to_the_bit(kind):
    scores = np.random.default_rng(1).random(37)
    if kind == "hit":
        scores = (scores > 0.4).astype(float)
    weights = resampling_weights(3, "ann", 37)
    measured = measure(scores, ACCURACY, weights)
    assert measured.value == float(scores.mean())
    assert measured.draws.tobytes() == mean_draws(scores, weights).tobytes()
    assert measured.is_defined


@pytest.mark.parametrize("convert", [list, torch.from_numpy, lambda scores: scores.astype(np.float32)])
def test_scores_may_be_anything_that_becomes_an_array(convert):
    scores = np.array([1.0, 0.0, 0.5])
    assert measure(convert(scores), ACCURACY, np.ones((3, 2))).draws.tolist() == [0.5, 0.5]


def test_hits_and_the_predictions_they_come_from_measure_the_same_to_the_bit():
    predictions = two_classes()
    hits = ((predictions.values > 0.5) == predictions.targets).astype(float)
    weights = resampling_weights(1, "ann", 30)
    from_hits, from_predictions = measure(hits, ACCURACY, weights), measure(predictions, ACCURACY, weights)
    assert from_predictions.value == from_hits.value
    assert from_predictions.draws.tobytes() == from_hits.draws.tobytes()


def test_rounding_beyond_one_is_cut_off():
    assert measure(np.array([1.0 + 5e-7, -5e-7]), ACCURACY, np.ones((2, 1))).value == 0.5


# Predictions


def test_the_value_is_the_metric_of_all_samples_and_draws_are_weighted():
    predictions = two_classes()
    weights = resampling_weights(1, "ann", 30)
    measured = measure(predictions, ROC_AUC, weights)
    assert measured.value == pytest.approx(roc_auc_score(predictions.targets, predictions.values), abs=1e-14)
    assert measured.draws.shape == (DRAW_COUNT,)
    for draw in range(10):
        expected = roc_auc_score(predictions.targets, predictions.values, sample_weight=weights[:, draw])
        assert measured.draws[draw] == pytest.approx(expected, abs=1e-14)


def test_draws_in_which_the_metric_is_undefined_take_the_value():
    """One of three samples is of class 1: a draw has none of it with probability 1/e."""
    predictions = Predictions(targets=np.array([0, 0, 1]), values=np.array([0.1, 0.6, 0.4]))
    weights = resampling_weights(1, "ann", 3)
    measured = measure(predictions, ROC_AUC, weights)
    is_undefined = (weights[2] == 0) | (weights[:2].sum(axis=0) == 0)
    assert is_undefined.mean() > 0.3
    assert measured.value == 0.5
    assert (measured.draws[is_undefined] == 0.5).all()
    assert len(np.unique(measured.draws[~is_undefined])) > 2


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy, lambda array: array[:, None], np.ndarray.tolist])
def test_predictions_may_be_anything_that_becomes_an_array(convert):
    predictions = two_classes()
    converted = Predictions(targets=convert(predictions.targets), values=convert(predictions.values))
    weights = resampling_weights(1, "ann", 30)
    for metric in METRICS.values():
        expected = measure(predictions, metric, weights)
        assert measure(converted, metric, weights).draws.tobytes() == expected.draws.tobytes()


@pytest.mark.parametrize("kind", [bool, np.uint8, np.float32])
def test_classes_may_be_numbers_of_any_kind(kind):
    predictions = two_classes()
    weights = resampling_weights(1, "ann", 30)
    other = Predictions(targets=predictions.targets.astype(kind), values=predictions.values)
    for metric in METRICS.values():
        assert measure(other, metric, weights).draws.tobytes() == measure(predictions, metric, weights).draws.tobytes()


def test_a_metric_of_ones_own_gets_predictions_of_any_shape():
    seen = []

    def shape(targets, predictions, weights):
        seen.append((targets.shape, predictions.shape, weights.shape))
        return predictions.mean()

    measured = measure(
        Predictions(targets=np.zeros((4, 2)), values=np.full((4, 3, 3), 7.0)), own_metric("m", shape), np.ones((4, 2))
    )
    assert measured.value == 7.0
    assert seen == [((4, 2), (4, 3, 3), (4,))] * 3


# Undefined


@pytest.mark.parametrize(
    ("targets", "metric", "reason"),
    [
        ([1, 1, 1, 1, 1], ROC_AUC, "all 5 validation samples have the same target"),
        ([0, 0], METRICS["average-precision"], "all 2 validation samples have the same target"),
        ([0, 0], METRICS["f1"], "all 2 validation samples have the same target"),
        ([0.5, 0.5, 0.5], R2, "all 3 validation samples have the same target"),
        ([0.5], R2, "there is only one validation sample"),
        ([1], ROC_AUC, "there is only one validation sample"),
        ([], ACCURACY, "there are no validation samples"),
        ([], own_metric("net_benefit", lambda t, p, w: 1.0), "there are no validation samples"),
        ([0, 1], own_metric("net_benefit", lambda t, p, w: math.nan), "the function net_benefit returned NaN"),
    ],
)
def test_what_cannot_be_measured_is_nan_with_a_reason(targets, metric, reason):
    predictions = Predictions(targets=np.array(targets), values=np.linspace(0.2, 0.9, len(targets)))
    measured = measure(predictions, metric, np.ones((len(targets), 4)))
    assert not measured.is_defined
    assert math.isnan(measured.value)
    assert np.isnan(measured.draws).tolist() == [True] * 4
    assert undefined_reason(predictions, metric) == reason


def test_predictions_too_far_away_for_a_float_say_so():
    predictions = Predictions(targets=np.array([0.0, 1.0]), values=np.array([1e200, 0.0]))
    assert not measure(predictions, R2, np.ones((2, 1))).is_defined
    assert undefined_reason(predictions, R2) == "R² of these predictions is too large a number"


@pytest.mark.parametrize("name", METRICS)
def test_what_can_be_measured_has_no_reason_against_it(name):
    assert undefined_reason(two_classes(), METRICS[name]) == ""


def test_no_scores_are_no_measurement():
    measured = measure(np.empty(0), ACCURACY, np.ones((0, 3)))
    assert not measured.is_defined
    assert np.isnan(measured.draws).tolist() == [True] * 3


# What is refused


def refusal(evaluation, metric, sample_count=3):
    with pytest.raises(InputError) as raised:
        measure(evaluation, metric, np.ones((sample_count, 2)))
    return str(raised.value)


ONE_SCORE = "Return one score from 0 to 1 per sample (1.0 where the model is right), or Predictions."


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.ones(2), f"evaluate returned scores of shape (2,) for 3 validation samples. {ONE_SCORE}"),
        (np.ones((3, 1)), f"evaluate returned scores of shape (3, 1) for 3 validation samples. {ONE_SCORE}"),
        (0.9, f"evaluate returned a single number for 3 validation samples. {ONE_SCORE}"),
        (None, "evaluate returned scores that are not numbers: NoneType. Return a NumPy array of floats."),
        (["a"] * 3, "evaluate returned scores that are not numbers: an array of <U1. Return a NumPy array of floats."),
        (
            [1.0, math.nan, 0.0],
            "evaluate returned scores[1] = nan; scores must be finite numbers. "
            "The model may have diverged in training.",
        ),
        ([1.0, 0.0, 1.5], "evaluate returned scores[2] = 1.5. A score must be from 0 to 1."),
        (
            [1.0, -2e-6, 1.0],
            "evaluate returned scores[1] = -2e-06. A score must be from 0 to 1.",
        ),
    ],
)
def test_scores_that_are_refused(scores, message):
    assert refusal(scores, ACCURACY) == message


def test_ragged_lists_and_tensors_with_gradients_are_refused_in_their_own_words():
    assert refusal([[1.0], [1.0, 0.0], [0.0]], ACCURACY).startswith("evaluate returned scores that are not an array of")
    message = refusal(torch.ones(3, requires_grad=True), ACCURACY)
    assert message.startswith("evaluate returned scores that are not an array of numbers: ")
    assert "detach()" in message


def test_scores_are_no_ground_for_another_metric():
    assert refusal(np.ones(3), ROC_AUC) == (
        "The metric ROC AUC needs predictions, but evaluate returned ndarray. "
        "Return Predictions(targets=..., values=...)."
    )


THREE = np.full((3, 3), 1 / 3)


@pytest.mark.parametrize(
    ("targets", "values", "message"),
    [
        (
            [0, 1],
            [0.1, 0.2, 0.3],
            "evaluate returned targets of shape (2,) for 3 validation samples. Return one row per sample, in order.",
        ),
        (
            [0, 1, 1],
            np.ones((1, 3)),
            "evaluate returned values of shape (1, 3) for 3 validation samples. Return one row per sample, in order.",
        ),
        (1, [0.1, 0.2, 0.3], "evaluate returned targets of shape () for 3 validation samples."),
        (["a", "b", "a"], THREE, "evaluate returned targets that are not numbers: an array of <U1."),
        ([0, 1, 1], [0.1j, 0.2, 0.3], "evaluate returned values that are not numbers: an array of complex128."),
        ([0.0, math.nan, 1.0], THREE, "evaluate returned targets[1] = nan; targets must be finite numbers."),
        (
            [0, 1, 1],
            [[0.5, 0.5], [0.5, 0.5], [math.inf, 0.0]],
            "evaluate returned values[2, 0] = inf; values must be finite numbers. The model may have diverged",
        ),
        (
            [0, 1, 2],
            [0, 1, 2],
            "evaluate returned values[2] = 2.0. A probability must be from 0 to 1; return, for example, those of a "
            "softmax, not its inputs.",
        ),
        (
            [0, 1, 1],
            [[0.5, 0.5], [1.1, -0.1], [0.5, 0.5]],
            "evaluate returned values[1, 0] = 1.1. A probability must be from 0 to 1;",
        ),
        (
            [0, 1, 1],
            [[0.5, 0.5], [0.5, 0.5], [0.9, 0.8]],
            "evaluate returned probabilities that sum to 1.7 in values[2]. The probabilities of all classes must sum",
        ),
        (
            [0, 3, 1],
            THREE,
            "evaluate returned targets[1] = 3, but values have 3 columns, one for each of the classes 0 to 2.",
        ),
        ([0, 1, -1], THREE, "evaluate returned targets[2] = -1, but values have 3 columns"),
        ([0, 1, 0.5], THREE, "evaluate returned targets[2] = 0.5, but values have 3 columns"),
        (
            [0, 1, 2],
            [0.1, 0.2, 0.3],
            "evaluate returned targets[2] = 2, but values have a single column, the probability of class 1, so that "
            "targets must be 0 or 1.",
        ),
        ([0, 1, 1], np.ones((3, 2, 2)), "evaluate returned values of shape (3, 2, 2). Return one column of"),
        ([0, 1, 1], np.ones((3, 0)), "evaluate returned values of shape (3, 0). Return one column of"),
        (np.eye(3), THREE, "evaluate returned targets of shape (3, 3). Return one class per sample."),
    ],
)
def test_classifications_that_are_refused(targets, values, message):
    predictions = Predictions(targets=np.array(targets), values=np.array(values))
    assert refusal(predictions, ROC_AUC).startswith(message)


@pytest.mark.parametrize(
    ("targets", "values", "message"),
    [
        (np.ones(3), THREE, "evaluate returned values of shape (3, 3). Return one number per sample."),
        (THREE, np.ones(3), "evaluate returned targets of shape (3, 3). Return one number per sample."),
        (
            np.ones(3),
            np.array([1.0, -np.inf, 0.0]),
            "evaluate returned values[1] = -inf; values must be finite numbers.",
        ),
    ],
)
def test_regressions_that_are_refused(targets, values, message):
    assert refusal(Predictions(targets=targets, values=values), R2).startswith(message)


def test_half_precision_probabilities_are_accepted():
    values = np.random.default_rng(1).dirichlet(np.ones(10), 20).astype(np.float16)
    measure(Predictions(targets=np.arange(20) % 10, values=values), ROC_AUC, np.ones((20, 1)))
