"""Metrics in all bootstrap draws at once, against scikit-learn draw by draw, counted pairs and DeLong's formula."""

from __future__ import annotations

import math
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import metrics as sklearn_metrics

from commonweal.errors import InputError
from commonweal.task.metrics import METRICS, own_metric
from commonweal.valuation.bootstrap import resampling_weights, standard_error

CLASSIFICATION = [name for name, metric in METRICS.items() if metric.kind == "classification"]
REGRESSION = [name for name, metric in METRICS.items() if metric.kind == "regression"]


def hard(values):
    """Predicted classes, for scikit-learn's metrics that take these; of two classes as one column, 1 above a half."""
    return (values > 0.5).astype(int) if values.ndim == 1 else values.argmax(axis=1)


def mean_over_classes(binary, targets, values, weights):
    """Of each class that occurs against the rest."""
    of_each = [binary(targets == k, values[:, k], sample_weight=weights) for k in np.unique(targets)]
    return float(np.mean(of_each))


def by_scikit_learn(name, targets, values, weights):
    """The metric of one draw; NaN where commonweal says that it is undefined."""
    present = weights > 0
    targets, values, weights = targets[present], values[present], weights[present]
    if not len(targets):
        return math.nan
    is_binary = values.ndim == 1
    call = partial(_without_warnings, sample_weight=weights)
    if name == "accuracy":
        return call(sklearn_metrics.accuracy_score, targets, hard(values))
    if name == "balanced-accuracy":
        return call(sklearn_metrics.balanced_accuracy_score, targets, hard(values))
    if name == "f1":
        if is_binary and not (targets == 1).any():
            return math.nan
        average = "binary" if is_binary else "macro"
        return call(sklearn_metrics.f1_score, targets, hard(values), average=average, zero_division=0.0)
    if name == "roc-auc":
        if len(np.unique(targets)) == 1:
            return math.nan
        if is_binary:
            return call(sklearn_metrics.roc_auc_score, targets, values)
        return mean_over_classes(sklearn_metrics.roc_auc_score, targets, values, weights)
    if name == "average-precision":
        if is_binary:
            return call(sklearn_metrics.average_precision_score, targets, values) if targets.any() else math.nan
        return mean_over_classes(sklearn_metrics.average_precision_score, targets, values, weights)
    if name == "r2":
        return call(sklearn_metrics.r2_score, targets, values) if len(np.unique(targets)) > 1 else math.nan
    assert name == "mean-absolute-error"
    return call(sklearn_metrics.mean_absolute_error, targets, values)


def _without_warnings(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as: a class is predicted that does not occur
        return function(*arguments, **options)


def assert_equals_scikit_learn(name, targets, values, weights, *, rtol=0.0):
    found = METRICS[name].compute(targets, values, weights)
    expected = [by_scikit_learn(name, targets, values, of_draw) for of_draw in weights.T]
    assert found.shape == (weights.shape[1],)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-12, err_msg=name)


def normalised(rows):
    return rows / rows.sum(axis=1, keepdims=True)


def weights_for(sample_count, draw_count=3):
    """Small counts with many zeros, as in the bootstrap, or any positive numbers."""
    counts = hnp.arrays(
        np.float64, (sample_count, draw_count), elements=st.sampled_from([0.0, 0.0, 1.0, 1.0, 2.0, 3.0])
    )
    numbers = hnp.arrays(np.float64, (sample_count, draw_count), elements=st.floats(0.001, 10.0))
    return counts | numbers


@st.composite
def two_class_cases(draw):
    """Few different probabilities, so that most are tied."""
    count = draw(st.integers(1, 14))
    targets = draw(hnp.arrays(np.int64, count, elements=st.integers(0, 1)))
    values = draw(hnp.arrays(np.float64, count, elements=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0])))
    return targets, values, draw(weights_for(count))


@st.composite
def several_class_cases(draw):
    count, class_count = draw(st.integers(1, 14)), draw(st.integers(3, 5))
    targets = draw(hnp.arrays(np.int64, count, elements=st.integers(0, class_count - 1)))
    parts = draw(hnp.arrays(np.float64, (count, class_count), elements=st.integers(1, 4)))
    return targets, normalised(parts), draw(weights_for(count))


@st.composite
def regression_cases(draw):
    """In eighths, so that no rounding hides whether targets are the same."""
    count = draw(st.integers(1, 14))
    eighths = hnp.arrays(np.float64, count, elements=st.integers(-80, 80).map(lambda number: number / 8))
    return draw(eighths), draw(eighths), draw(weights_for(count))


# Against scikit-learn


@given(case=two_class_cases())
def test_metrics_of_two_classes_are_those_of_scikit_learn(case):
    for name in CLASSIFICATION:
        assert_equals_scikit_learn(name, *case)


@given(case=several_class_cases())
def test_metrics_of_several_classes_are_those_of_scikit_learn(case):
    for name in CLASSIFICATION:
        assert_equals_scikit_learn(name, *case)


@given(case=regression_cases())
def test_metrics_of_numbers_are_those_of_scikit_learn(case):
    for name in REGRESSION:
        assert_equals_scikit_learn(name, *case, rtol=1e-12)  # R² has no lower bound


@pytest.mark.parametrize("sample_count", [7, 60, 700])
@pytest.mark.parametrize("digits", [1, 2, 16])
@pytest.mark.parametrize("name", METRICS)
def test_on_bootstrap_weights_metrics_are_those_of_scikit_learn(name, sample_count, digits):
    random = np.random.default_rng(sample_count)
    weights = resampling_weights(1, "ann", sample_count)[:, :25]
    if name in REGRESSION:
        targets = random.normal(50.0, 10.0, sample_count)
        values = np.round(targets + random.normal(0.0, 5.0, sample_count), digits)
    else:
        targets = random.integers(0, 2, sample_count)
        values = np.clip(np.round(random.beta(2, 2, sample_count) * 0.8 + 0.2 * targets, digits), 0, 1)
    assert_equals_scikit_learn(name, targets, values, weights, rtol=1e-12)


@pytest.mark.parametrize("name", CLASSIFICATION)
def test_ten_classes_of_which_all_occur(name):
    """Here scikit-learn takes the table as it is."""
    random = np.random.default_rng(3)
    targets = random.permutation(np.arange(200) % 10)
    values = normalised(np.round(random.dirichlet(np.ones(10), 200) + np.eye(10)[targets] * 0.2, 2) + 0.01)
    weights = resampling_weights(2, "ann", 200)[:, :5]
    assert all(len(np.unique(targets[of_draw > 0])) == 10 for of_draw in weights.T)
    assert_equals_scikit_learn(name, targets, values, weights)
    whole_table = {
        "roc-auc": partial(sklearn_metrics.roc_auc_score, multi_class="ovr"),
        "average-precision": sklearn_metrics.average_precision_score,
    }
    if name in whole_table:
        expected = [whole_table[name](targets, values, sample_weight=of_draw) for of_draw in weights.T]
        np.testing.assert_allclose(METRICS[name].compute(targets, values, weights), expected, rtol=0, atol=1e-12)


def test_targets_far_from_zero_cost_r2_no_digits():
    """All numbers and their differences are exact, so the metric is that of the differences."""
    targets = np.arange(40) % 7 + 2.0**40
    values = targets + np.where(np.arange(40) % 3 == 0, 1.0, -1.0)
    weights = resampling_weights(1, "ann", 40)[:, :10]
    small = METRICS["r2"].compute(targets - 2.0**40, values - 2.0**40, weights)
    np.testing.assert_allclose(METRICS["r2"].compute(targets, values, weights), small, rtol=1e-13)


def test_an_outlier_that_a_draw_leaves_out_costs_r2_no_digits():
    """Sums of squares would: those of the outlier are 10¹⁶ times as large as the spread of the others."""
    targets, values = np.array([1.0, 2.0, 3.0, 4.0, 1e8]), np.array([1.5, 2.0, 3.0, 3.5, 0.0])
    weights = np.array([[1.0, 1.0, 1.0, 1.0, 0.0]]).T
    assert METRICS["r2"].compute(targets, values, weights)[0] == pytest.approx(1 - 0.5 / 5, rel=1e-14)


# Against mathematics


@given(case=two_class_cases())
def test_roc_auc_is_the_share_of_pairs_in_the_right_order(case):
    targets, values, weights = case
    found = METRICS["roc-auc"].compute(targets, values, weights)
    for of_draw, auc in zip(weights.T, found, strict=True):
        right = total = 0.0
        for i in np.flatnonzero(targets == 1):
            for j in np.flatnonzero(targets == 0):
                pair = of_draw[i] * of_draw[j]
                total += pair
                right += pair * (1.0 if values[i] > values[j] else 0.5 if values[i] == values[j] else 0.0)
        assert auc == pytest.approx(right / total if total else math.nan, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", METRICS)
def test_a_weight_of_two_is_the_sample_twice_and_of_zero_is_no_sample(name):
    random = np.random.default_rng(4)
    targets, values = random.integers(0, 2, 30), np.round(random.random(30), 1)
    counts = resampling_weights(5, "ann", 30)[:, :8]
    found = METRICS[name].compute(targets, values, counts)
    for draw in range(8):
        rows = np.repeat(np.arange(30), counts[:, draw].astype(int))
        repeated = METRICS[name].compute(targets[rows], values[rows], np.ones((len(rows), 1)))
        assert found[draw] == pytest.approx(repeated[0], abs=1e-12)


@given(case=two_class_cases(), factor=st.sampled_from([0.25, 2.0, 64.0]))
def test_only_the_proportions_of_weights_and_no_order_of_samples_matter(case, factor):
    targets, values, weights = case
    for name, metric in METRICS.items():
        expected = metric.compute(targets, values, weights)
        scaled = metric.compute(targets, values, factor * weights)
        turned = metric.compute(targets[::-1], values[::-1], weights[::-1])
        for found in (scaled, turned):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12, err_msg=name)


@given(case=two_class_cases(), seed=st.integers(0, 100))
def test_whether_a_metric_is_defined_does_not_depend_on_the_model(case, seed):
    targets, values, weights = case
    other = np.random.default_rng(seed).random(len(targets))
    for name, metric in METRICS.items():
        undefined = np.isnan(metric.compute(targets, values, weights))
        np.testing.assert_array_equal(undefined, np.isnan(metric.compute(targets, other, weights)), err_msg=name)


@given(case=two_class_cases() | several_class_cases())
def test_values_are_within_the_bounds(case):
    for name in CLASSIFICATION:
        found = METRICS[name].compute(*case)
        assert ((found >= -1e-12) & (found <= 1 + 1e-12) | np.isnan(found)).all(), name


@pytest.mark.parametrize("name", METRICS)
def test_the_truth_is_best(name):
    metric = METRICS[name]
    targets = np.arange(12) % 2
    best = metric.compute(targets, targets.astype(float), np.ones((12, 1)))[0]
    assert best == (metric.highest if metric.higher_is_better else metric.lowest)


@given(case=two_class_cases())
def test_two_classes_may_come_as_one_column_or_two(case):
    targets, values, weights = case
    for name in CLASSIFICATION:
        compute = METRICS[name].compute
        expected = compute(targets, values, weights)
        for columns in (values[:, None], np.column_stack([1 - values, values])):
            np.testing.assert_array_equal(compute(targets, columns, weights), expected, err_msg=name)


# Standard errors


def delong_error(targets, values):
    """DeLong, DeLong and Clarke-Pearson (1988), by counting: √(S₁₀/m + S₀₁/n)."""
    order = np.sign(values[targets == 1][:, None] - values[targets == 0])
    wins = (order + 1) / 2
    of_positives, of_negatives = wins.mean(axis=1), wins.mean(axis=0)
    return math.sqrt(of_positives.var(ddof=1) / len(of_positives) + of_negatives.var(ddof=1) / len(of_negatives))


def resampled_error(targets, values, seed, draw_count=1000):
    """Draw as many samples with replacement and count the pairs."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(draw_count):
        rows = random.integers(0, len(targets), len(targets))
        positives, negatives = values[rows][targets[rows] == 1], values[rows][targets[rows] == 0]
        found.append((np.sign(positives[:, None] - negatives).mean() + 1) / 2)
    return float(np.std(found, ddof=1))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("sample_count", "positive_share", "shift", "digits"),
    [(120, 0.5, 1.0, 12), (200, 0.3, 0.5, 1), (300, 0.2, 2.0, 12), (400, 0.5, 0.0, 1)],
)
def test_the_bootstrap_error_of_roc_auc_is_that_of_delong_and_of_resampling(
    sample_count, positive_share, shift, digits, seed
):
    random = np.random.default_rng([sample_count, seed])
    targets = (np.arange(sample_count) < positive_share * sample_count).astype(int)
    values = 1 / (1 + np.exp(-np.round(random.normal(shift * targets, 1.0), digits)))
    draws = METRICS["roc-auc"].compute(targets, values, resampling_weights(seed, "ann", sample_count))
    error = standard_error(draws)
    assert error == pytest.approx(delong_error(targets, values), rel=0.15)
    assert error == pytest.approx(resampled_error(targets, values, seed), rel=0.15)


# Undefined


def undefined_draws(name, targets, values, weights):
    return np.isnan(METRICS[name].compute(np.array(targets), np.array(values), np.array(weights, float))).tolist()


def test_a_draw_without_samples_defines_nothing():
    for name in METRICS:
        assert undefined_draws(name, [0, 1], [0.2, 0.7], [[0, 1], [0, 1]]) == [True, False]


def test_samples_of_one_class_define_no_roc_auc():
    weights = [[1, 1, 0], [1, 0, 1], [2, 2, 0]]
    assert undefined_draws("roc-auc", [0, 1, 0], [0.2, 0.7, 0.3], weights) == [False, True, True]
    three = [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]]
    assert undefined_draws("roc-auc", [0, 1, 0], three, weights) == [False, True, True]


@pytest.mark.parametrize("name", ["average-precision", "f1"])
def test_without_class_1_there_is_nothing_to_find(name):
    weights = [[1, 1, 0], [1, 0, 1]]
    assert undefined_draws(name, [0, 1], [0.9, 0.7], weights) == [False, True, False]


@pytest.mark.parametrize("target", [0.1, 1e9 + 0.1, -3.0])
def test_a_constant_target_defines_no_r2_whatever_the_rounding(target):
    weights = resampling_weights(1, "ann", 20)
    assert np.isnan(METRICS["r2"].compute(np.full(20, target), np.arange(20.0), weights)).all()


def test_errors_too_large_for_a_float_are_undefined():
    targets, values, weights = np.array([0.0, 1.0]), np.array([1e200, -1e200]), np.ones((2, 1))
    assert np.isnan(METRICS["r2"].compute(targets, values, weights)).all()
    assert np.isnan(METRICS["mean-absolute-error"].compute(targets, 1e108 * values, weights)[0])


# The registry


def test_metrics_are_held_by_the_name_that_scenarios_write():
    assert [(name, metric.label) for name, metric in METRICS.items()] == [
        ("accuracy", "accuracy"),
        ("balanced-accuracy", "balanced accuracy"),
        ("roc-auc", "ROC AUC"),
        ("average-precision", "average precision"),
        ("f1", "F1"),
        ("r2", "R²"),
        ("mean-absolute-error", "mean absolute error"),
    ]
    assert all(metric.name == name for name, metric in METRICS.items())
    assert [name for name, metric in METRICS.items() if not metric.higher_is_better] == ["mean-absolute-error"]
    assert [name for name, metric in METRICS.items() if metric.is_share] == ["accuracy", "balanced-accuracy"]


# Metrics of one's own


def brier(targets, predictions, weights):
    return np.average((predictions - targets) ** 2, weights=weights)


brier.lower_is_better = True


def test_a_function_of_ones_own_is_called_for_each_draw():
    metric = own_metric("brier_score", brier)
    assert (metric.name, metric.label, metric.higher_is_better) == ("brier_score", "brier score", False)
    assert (metric.lowest, metric.highest, metric.is_share) == (-math.inf, math.inf, False)
    targets, values = np.array([0, 1, 1]), np.array([0.2, 0.7, 0.4])
    weights = np.array([[1.0, 0.0], [1.0, 3.0], [1.0, 1.0]])
    expected = [(0.04 + 0.09 + 0.36) / 3, (3 * 0.09 + 0.36) / 4]
    assert metric.compute(targets, values, weights) == pytest.approx(expected, abs=1e-15)


def test_more_is_better_if_a_function_does_not_say():
    metric = own_metric("positives", lambda targets, predictions, weights: float(weights @ (predictions > 0.5)))
    assert metric.higher_is_better
    assert metric.compute(np.array([0, 1]), np.array([0.2, 0.7]), np.array([[1.0], [3.0]])).tolist() == [3.0]


def compute_with(function):
    return own_metric("net_benefit", function).compute(np.array([0, 1]), np.array([0.2, 0.7]), np.ones((2, 3)))


def test_a_function_may_say_that_it_is_undefined():
    assert np.isnan(compute_with(lambda targets, predictions, weights: math.nan)).all()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "The metric net_benefit must return one number, got None."),
        ("0.5", "The metric net_benefit must return one number, got '0.5'."),
        (True, "The metric net_benefit must return one number, got True."),
        (np.ones(2), "The metric net_benefit must return one number, got an array of shape (2,)."),
        (math.inf, "The metric net_benefit must return a finite number, or NaN where it is undefined; got inf."),
    ],
)
def test_what_a_function_returns_is_checked(returned, message):
    with pytest.raises(InputError) as raised:
        compute_with(lambda targets, predictions, weights: returned)
    assert str(raised.value) == message


def test_an_error_in_a_function_names_it_and_the_line():
    def fails(targets, predictions, weights):
        return weights[99]

    line = fails.__code__.co_firstlineno + 1
    expected = f"The metric net_benefit failed in line {line} of test_metrics.py: IndexError: index 99 is out of bounds"
    with pytest.raises(InputError) as raised:
        compute_with(fails)
    assert str(raised.value).startswith(expected)


def test_a_function_cannot_change_targets_and_predictions():
    def writes(targets, predictions, weights):
        weights[:] = 0.0  # its own copy
        predictions[0] = 1.0

    with pytest.raises(InputError, match=r"net_benefit failed in line \d+ of .* read-only"):
        compute_with(writes)


def test_a_function_must_take_three_arguments():
    with pytest.raises(InputError) as raised:
        own_metric("net_benefit", lambda targets, predictions: 0.0)
    assert str(raised.value) == (
        "The metric net_benefit must take three arguments (targets, predictions, weights), "
        "but it takes (targets, predictions)."
    )


def test_functions_without_a_signature_are_tried():
    metric = own_metric("largest", max)
    with pytest.raises(InputError, match="The metric largest failed: ValueError"):
        metric.compute(np.array([0, 1]), np.array([0.2, 0.7]), np.ones((2, 1)))


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        ("f1", brier, "The metric 'f1' is built in; give a metric of your own another name."),
        ("net_benefit", 3, "The metric net_benefit must be a function, got 3."),
    ],
)
def test_what_is_no_metric_of_ones_own(name, function, message):
    with pytest.raises(InputError) as raised:
        own_metric(name, function)
    assert str(raised.value) == message
