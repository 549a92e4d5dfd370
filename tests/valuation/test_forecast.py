"""Forecasts against a second implementation with dense covariances, and against federations with a known curve."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from commonweal.records.gains import PairedGain
from commonweal.valuation import forecast
from commonweal.valuation.forecast import forecast_draws, forecast_gains


def table(gains, *, samples=60, changed=6.0, bounded=True):
    return {
        client: PairedGain(gain=gain, sample_count=samples, squared_change=changed, is_bounded=bounded)
        for client, gain in gains.items()
    }


def curve(amplitude, needed, shape, t):
    return amplitude * (1 - math.exp(-((t / needed) ** shape))) if t else 0.0


def dense_forecast(tables):
    """The same model, written with whole covariance matrices and a loop over curves."""
    variances = [
        (sum(row.squared_change for row in one.values()) + 1) / (sum(row.sample_count for row in one.values()) + 2)
        for one in tables
    ]
    grid = list(product(forecast._AMPLITUDES, forecast._ROUNDS_NEEDED, forecast._SHAPES))
    evidence = {}
    for client in tables[-1]:
        rounds = [number for number, one in enumerate(tables, start=1) if client in one]
        gains = [tables[number - 1][client].gain for number in rounds]
        errors = [math.sqrt(variances[number - 1] / tables[number - 1][client].sample_count) for number in rounds]
        covariance = np.zeros((len(rounds), len(rounds)))
        for i, j in product(range(len(rounds)), repeat=2):
            if i == j:
                covariance[i, j] = errors[i] ** 2 + forecast._LUCK_OF_TRAINING**2
            elif abs(rounds[i] - rounds[j]) == 1:
                covariance[i, j] = forecast._CORRELATION * errors[i] * errors[j]
        evidence[client] = np.array(
            [
                multivariate_normal.logpdf(
                    gains, [curve(*one, number) - curve(*one, number - 1) for number in rounds], covariance
                )
                for one in grid
            ]
        )
    expected = {}
    for client, own in evidence.items():
        others = sum(one for name, one in evidence.items() if name != client)
        logs = own + forecast._WEIGHT_OF_OTHERS * others
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        now = len(tables)
        ahead = [
            sum(w * (curve(*one, now + h) - curve(*one, now)) / h for w, one in zip(weights, grid, strict=True))
            for h in range(1, forecast._MOST_ROUNDS_AHEAD + 1)
        ]
        expected[client] = max(ahead)
    return expected


@pytest.mark.parametrize("absent", [(), (("b", 2),), (("a", 1), ("c", 3))])
def test_it_is_the_posterior_mean_of_the_stated_model(absent):
    rng = np.random.default_rng(3)
    tables = []
    for number in (1, 2, 3, 4):
        gains = {c: 0.3 / number + rng.normal(0, 0.03) for c in "abc" if (c, number) not in absent}
        tables.append(table(gains, samples=20 * number, changed=3.0 * number))
    expected = dense_forecast(tables)
    found = forecast_gains(tables)
    assert found.keys() == tables[-1].keys()
    for client, value in found.items():
        assert value == pytest.approx(expected[client], rel=1e-9)


def test_a_known_curve_is_continued():
    """Many samples, gains exactly on a curve of the family: the next gain is close to the curve's."""
    truth = [curve(0.8, 3.0, 0.7, t) - curve(0.8, 3.0, 0.7, t - 1) for t in range(1, 12)]
    for now in (3, 6, 10):
        tables = [table(dict.fromkeys("abcde", gain), samples=4000, changed=40.0) for gain in truth[:now]]
        for value in forecast_gains(tables).values():
            assert value == pytest.approx(truth[now], abs=0.01)


def test_a_federation_that_has_not_gained_yet_is_expected_to():
    assert all(value > 0.02 for value in forecast_gains([table(dict.fromkeys("abcde", 0.0))]).values())


def test_a_federation_that_has_learned_expects_little():
    tables = [table(dict.fromkeys("abcde", gain)) for gain in (0.5, 0.2, 0.05, 0.01, 0.0, 0.0, 0.0)]
    assert all(0 <= value < 0.01 for value in forecast_gains(tables).values())


def test_who_learns_more_slowly_has_more_to_expect():
    slow = dict.fromkeys(("a", "b", "c"), 0.06)
    tables = [table({**slow, "quick": gain}) for gain in (0.6, 0.2, 0.03, 0.0, 0.0)]
    expected = forecast_gains(tables)
    assert expected["a"] > expected["quick"]


def test_other_units_scale():
    """A metric in euros: the forecast in cents is a hundred times as much."""
    euros = [table(dict.fromkeys("abc", gain), changed=gain**2, bounded=False) for gain in (5.0, 2.0, 1.0)]
    cents = [table(dict.fromkeys("abc", 100 * g), changed=(100 * g) ** 2, bounded=False) for g in (5.0, 2.0, 1.0)]
    in_euros, in_cents = forecast_gains(euros), forecast_gains(cents)
    assert in_cents == pytest.approx({client: 100 * value for client, value in in_euros.items()}, rel=1e-9)


def test_nothing_gained_in_an_unbounded_metric_gives_no_hope():
    assert forecast_gains([table({"a": 0.0, "b": 0.0}, changed=0.0, bounded=False)]) == {"a": 0.0, "b": 0.0}


def test_draws_have_the_mean_of_the_posterior():
    """Where gains fall under every likely curve, the mean over curves is the expected gain."""
    rng = np.random.default_rng(5)
    tables = [table({c: g + rng.normal(0, 0.02) for c in "abcd"}) for g in (0.4, 0.15, 0.08, 0.05, 0.03)]
    expected, draws = forecast_gains(tables), forecast_draws(tables)
    for client, value in expected.items():
        assert draws[client].mean() == pytest.approx(value, abs=0.1 * draws[client].std())
        assert draws[client].std() > 0
    again = forecast_draws(tables)
    assert all((again[client] == one).all() for client, one in draws.items())
