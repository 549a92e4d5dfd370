"""Pooled gains against an independent library, a root search and a posterior by brute force; and what they promise."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import brentq
from statsmodels.stats.meta_analysis import combine_effects

from commonweal.errors import InputError
from commonweal.records import Figures, PairedGain
from commonweal.valuation.pooled_utilities import with_pooled_utilities
from commonweal.valuation.pooling import between_variance, pool, random_effects

CLIENTS = ("ann", "bob", "cleo", "dan", "eve")


def table(gains, counts, changes, *, is_bounded=True):
    rows = zip(gains, counts, changes, strict=True)
    return {
        f"client {number}": PairedGain(gain=gain, sample_count=count, squared_change=change, is_bounded=is_bounded)
        for number, (gain, count, change) in enumerate(rows)
    }


@st.composite
def tables(draw, fewest=3):
    count = draw(st.integers(fewest, 12))
    samples = draw(st.lists(st.integers(1, 400), min_size=count, max_size=count))
    rows = {}
    for number, of_client in enumerate(samples):
        better, worse = sorted(draw(st.tuples(st.integers(0, of_client), st.integers(0, of_client))))
        rows[f"client {number}"] = PairedGain(
            gain=(worse - better) / of_client * draw(st.sampled_from([-1, 1])),
            sample_count=of_client,
            squared_change=float(draw(st.integers(worse - better, of_client))),
        )
    return rows


@st.composite
def studies(draw):
    count = draw(st.integers(3, 20))
    figures = st.floats(-1, 1, allow_subnormal=False)
    estimates = draw(st.lists(figures, min_size=count, max_size=count))
    variances = draw(st.lists(st.floats(1e-6, 1), min_size=count, max_size=count))
    return estimates, variances


@given(studies())
def test_the_variance_between_clients_is_the_one_that_statsmodels_finds(study):
    estimates, variances = study
    assume(np.ptp(estimates) > 1e-3)  # statsmodels divides by the spread
    theirs = combine_effects(np.array(estimates), np.array(variances), method_re="iterated")
    ours = random_effects(estimates, variances)
    # statsmodels stops when its equation holds to 1e-5; the next test looks at ours more closely.
    assert ours.between_variance == pytest.approx(max(theirs.tau2, 0), rel=1e-3, abs=1e-4)
    assert ours.mean == pytest.approx(theirs.mean_effect_re, rel=1e-3, abs=1e-4)


@given(studies())
def test_the_variance_between_clients_solves_its_equation(study):
    estimates, variances = (np.array(row) for row in study)

    def excess(between):
        weights = 1 / (variances + between)
        mean = weights @ estimates / weights.sum()
        return weights @ (estimates - mean) ** 2 - (len(estimates) - 1)

    found = between_variance(estimates.tolist(), variances.tolist())
    if excess(0.0) <= 0:
        assert found == 0
    else:
        assert found == pytest.approx(brentq(excess, 0.0, 10.0, xtol=1e-15, rtol=1e-12), rel=1e-6, abs=1e-12)


def test_values_are_the_means_of_the_posterior():
    """Given τ² and ḡ, the pooled value is E[gain | measured] for normal gains: found by summing over a fine grid."""
    effects = random_effects([0.3, -0.1, 0.05, 0.2], [0.01, 0.02, 0.005, 0.01])
    assert effects.between_variance > 0
    truth = np.linspace(-3, 3, 200_001)
    prior = np.exp(-((truth - effects.mean) ** 2) / (2 * effects.between_variance))
    for value, measured, variance in zip(
        effects.values, [0.3, -0.1, 0.05, 0.2], [0.01, 0.02, 0.005, 0.01], strict=True
    ):
        posterior = prior * np.exp(-((measured - truth) ** 2) / (2 * variance))
        assert value == pytest.approx(float(truth @ posterior / posterior.sum()), abs=1e-9)


def test_a_hand_computed_round():
    """π̂ = (6 + 1)/(90 + 2); the gains are far apart, so τ² > 0; the third client's samples count up to 2 · 20."""
    gains = table([0.3, -0.1, 0.1], [20, 10, 60], [3, 1, 3])
    pooled = pool(gains)
    variance = Fraction(3 + 1 + 2 + 1) / Fraction(20 + 10 + 40 + 2)  # of 60 samples 40 count, and so of 3 changes 2
    assert pooled.variance_per_sample == pytest.approx(float(variance))
    effects = random_effects([0.3, -0.1, 0.1], [float(variance / m) for m in (20, 10, 40)])
    assert tuple(pooled.values.values()) == pytest.approx(effects.values)
    tau, mean = pooled.between_variance, pooled.mean
    for client, m in zip(gains, (20, 10, 40), strict=True):
        weight = tau / (tau + float(variance) / m)
        assert pooled.weights[client] == pytest.approx(weight)
        assert pooled.values[client] == pytest.approx(mean + weight * (gains[client].gain - mean))


@given(tables(), st.floats(-1, 1, allow_subnormal=False))
def test_equal_gains_stay_as_they_are(gains, common):
    equal = {
        client: PairedGain(gain=common, sample_count=one.sample_count, squared_change=one.squared_change)
        for client, one in gains.items()
    }
    pooled = pool(equal)
    assert pooled.between_variance == 0
    assert list(pooled.values.values()) == pytest.approx([common] * len(gains), rel=1e-12, abs=0)


@given(tables())
def test_a_pooled_gain_lies_between_the_mean_and_what_was_measured(gains):
    pooled = pool(gains)
    for client, value in pooled.values.items():
        low, high = sorted((pooled.mean, gains[client].gain))
        assert low - 1e-12 <= value <= high + 1e-12
        assert 0 <= pooled.weights[client] < 1


@given(tables(), st.floats(-5, 5))
def test_a_common_shift_of_all_gains_shifts_all_pooled_gains(gains, shift):
    shifted = {
        c: PairedGain(gain=one.gain + shift, sample_count=one.sample_count, squared_change=one.squared_change)
        for c, one in gains.items()
    }
    before, after = pool(gains), pool(shifted)
    assert after.between_variance == pytest.approx(before.between_variance, rel=1e-6, abs=1e-9)
    for client in gains:
        assert after.values[client] == pytest.approx(before.values[client] + shift, abs=1e-6)


def test_gains_far_apart_stay_as_measured():
    pooled = pool(table([50.0, -30.0, 10.0, 0.0], [1000] * 4, [1] * 4, is_bounded=False))
    assert list(pooled.values.values()) == pytest.approx([50.0, -30.0, 10.0, 0.0], rel=1e-5, abs=1e-4)


def test_few_changes_leave_the_variance_above_zero_where_a_metric_is_bounded():
    nothing = table([0.0, 0.0, 0.0], [30, 30, 30], [0, 0, 0])
    assert pool(nothing).variance_per_sample == pytest.approx(1 / 92)
    free = table([0.5, 0.0, 0.0], [30, 30, 30], [0.0, 0.0, 0.0], is_bounded=False)
    assert pool(free).values == {client: one.gain for client, one in free.items()}


@given(tables(fewest=1).filter(lambda rows: len(rows) < 3))
def test_fewer_than_three_clients_are_not_pooled(gains):
    pooled = pool(gains)
    assert pooled.values == {client: one.gain for client, one in gains.items()}
    assert pooled.mean is None


@given(tables(fewest=4))
def test_a_newcomer_keeps_what_it_measured_and_changes_nothing_for_the_others(gains):
    newcomer = next(iter(gains))
    others = {client: one for client, one in gains.items() if client != newcomer}
    pooled = pool(gains, [newcomer])
    assert pooled.values[newcomer] == gains[newcomer].gain
    assert {client: pooled.values[client] for client in others} == pool(others).values


@given(tables())
def test_the_order_of_clients_does_not_matter(gains):
    assert dict(pool(dict(reversed(gains.items()))).values) == dict(pool(gains).values)


@given(tables(fewest=4))
def test_a_claim_of_many_samples_counts_as_twice_the_median(gains):
    client, one = next(iter(gains.items()))
    counts = sorted(row.sample_count for row in gains.values())
    many, more = (
        pool(gains | {client: PairedGain(gain=one.gain, sample_count=claimed, squared_change=0.0)})
        for claimed in (10 * counts[-1], 10_000 * counts[-1])
    )
    assert many.values == more.values


@given(tables())
def test_draws_are_pooled_with_the_weights_of_the_round(gains):
    rng = np.random.default_rng(5)
    draws = {client: rng.normal(size=7) for client in gains}
    pooled = pool(gains)
    found = pooled.of_draws(draws)
    for draw in range(7):
        mean = math.fsum(pooled.precisions[c] * draws[c][draw] for c in gains)
        for client in gains:
            expected = mean + pooled.weights[client] * (draws[client][draw] - mean)
            assert found[client][draw] == pytest.approx(expected, abs=1e-12)
    as_measured = pooled.of_draws({client: np.array([one.gain]) for client, one in gains.items()})
    assert {c: float(v[0]) for c, v in as_measured.items()} == pytest.approx(dict(pooled.values), abs=1e-12)


def figures(utilities, costs, errors):
    return Figures(
        profits={client: utilities[client] - costs[client] for client in utilities},
        contributions=dict.fromkeys(utilities, 1.0),
        costs=costs,
        profit_errors=errors,
    )


@given(studies(), st.randoms(use_true_random=False))
def test_utilities_with_known_errors_are_pooled_and_costs_are_not(study, random):
    utilities, variances = study
    names = [f"client {number}" for number in range(len(utilities))]
    costs = {name: random.uniform(0, 0.5) for name in names}
    errors = {name: math.sqrt(variance) for name, variance in zip(names, variances, strict=True)}
    given_figures = figures(dict(zip(names, utilities, strict=True)), costs, errors)
    found = with_pooled_utilities(given_figures)
    effects = random_effects(utilities, variances)
    for name, value in zip(names, effects.values, strict=True):
        assert found.profits[name] == pytest.approx(value - costs[name], abs=1e-9)
    # The errors are those of the linear map from measured to pooled utilities, written as a matrix.
    weights, parts = np.array(effects.weights), np.array(effects.precisions)
    mapping = np.diag(weights) + np.outer(1 - weights, parts)
    expected = np.sqrt(np.diag(mapping @ np.diag(variances) @ mapping.T))
    assert list(found.profit_errors.values()) == pytest.approx(expected.tolist(), rel=1e-6)
    assert (found.contributions, found.costs) == (given_figures.contributions, costs)


def test_two_clients_keep_their_utilities_and_pooling_needs_errors_and_costs():
    two = figures({"a": 0.1, "b": -0.2}, {"a": 0.0, "b": 0.1}, {"a": 0.1, "b": 0.1})
    assert with_pooled_utilities(two) == two
    with pytest.raises(InputError, match="got no costs"):
        with_pooled_utilities(replace(two, costs=None))
    with pytest.raises(InputError, match="got no standard errors"):
        with_pooled_utilities(replace(two, profit_errors=None))


def test_in_simulated_rounds_pooled_gains_are_closer_to_the_truth_than_measured_ones():
    """Hits of two models with known accuracies: what pooling is for."""
    rng = np.random.default_rng(11)
    measured_error, pooled_error = [], []
    for _ in range(400):
        truth = rng.normal(0.03, 0.02, 5)
        rows = {}
        for client, gain in zip(CLIENTS, truth, strict=True):
            better, worse = rng.random(60) < 0.15 + max(gain, 0), rng.random(60) < 0.15 + max(-gain, 0)
            rows[client] = PairedGain(
                gain=(int(better.sum()) - int(worse.sum())) / 60,
                sample_count=60,
                squared_change=float((better != worse).sum()),
            )
        pooled = pool(rows)
        measured_error.append([rows[c].gain - g for c, g in zip(CLIENTS, truth, strict=True)])
        pooled_error.append([pooled.values[c] - g for c, g in zip(CLIENTS, truth, strict=True)])
    assert np.mean(np.square(pooled_error)) < 0.5 * np.mean(np.square(measured_error))
