"""Contributions from the effects on each scorer: against their formulas, and against scorers that lie."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from commonweal.errors import InputError
from commonweal.seeds import stream
from commonweal.valuation.bootstrap import DRAW_COUNT
from commonweal.valuation.path import path
from commonweal.valuation.scorers import combine, jackknife_errors, scorer_draws, without_each_scorer

RULES = ("all", "guarded")
counts = st.integers(4, 12)
effects_of_any_size = counts.flatmap(lambda n: arrays(float, (n, n), elements=st.floats(-1, 1)))


def guarded_by_hand(effects):
    """The formula, one client at a time."""
    count = len(effects)
    own = [effects[k][k] for k in range(count)]
    trimmed = max(1, math.floor((count - 1) / 5))
    found = []
    for n in range(count):
        others = sorted(effects[k][n] for k in range(count) if k != n)
        kept = others[trimmed : len(others) - trimmed]
        found.append(((count - 1) * sum(kept) / len(kept) + min(own[n], float(np.median(own)))) / count)
    return found


def trimmed_mean(values, share):
    """The mean of the distribution between its quantiles `share` and 1 − `share`: values may count in part."""
    values = sorted(values)
    total = mass = 0.0
    for place, value in enumerate(values):
        low, high = place / len(values), (place + 1) / len(values)
        part = max(0.0, min(high, 1 - share) - max(low, share))
        total, mass = total + part * value, mass + part
    return total / mass


@given(effects_of_any_size)
def test_the_formulas(effects):
    assert combine(effects, "all") == pytest.approx(effects.mean(axis=0), abs=1e-12)
    assert combine(effects, "guarded") == pytest.approx(guarded_by_hand(effects), abs=1e-12)


@given(effects_of_any_size)
def test_leaving_a_scorer_out_is_the_formula_without_it(effects):
    count = len(effects)
    share = max(1, (count - 1) // 5) / (count - 1)
    without = without_each_scorer(effects, "guarded")
    for left_out in range(count):
        rest = [k for k in range(count) if k != left_out]
        usual = float(np.median([effects[k, k] for k in rest]))
        for n in range(count):
            others = trimmed_mean([effects[k, n] for k in rest if k != n], share)
            expected = others if n == left_out else ((count - 2) * others + min(effects[n, n], usual)) / (count - 1)
            assert without[left_out, n] == pytest.approx(expected, abs=1e-12)
    assert without_each_scorer(effects, "all") == pytest.approx(
        np.array([np.delete(effects, k, axis=0).mean(axis=0) for k in range(count)]), abs=1e-12
    )


@given(effects_of_any_size)
def test_the_jackknife_error_of_a_mean_is_the_usual_one(effects):
    expected = effects.std(axis=0, ddof=1) / math.sqrt(len(effects))
    assert jackknife_errors(effects, "all") == pytest.approx(expected, abs=1e-12)


def test_errors_are_as_large_as_the_errors_are():
    """Many federations of scorers from one distribution: the error of the guarded mean, against its spread."""
    random = np.random.default_rng(1)
    trials = [random.normal(0.1, 0.05, (20, 20)) for _ in range(400)]
    for rule in RULES:
        spread = np.std([combine(effects, rule)[0] for effects in trials], ddof=1)
        errors = [jackknife_errors(effects, rule)[0] for effects in trials]
        assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(spread, rel=0.12)


@pytest.mark.parametrize("rule", RULES)
def test_draws_have_the_jackknife_errors_and_the_correlations_of_the_effects(rule):
    random = np.random.default_rng(2)
    shared = random.normal(0, 1, (30, 1))  # clients that the same scorers favour
    effects = np.hstack([shared + random.normal(0, 0.1, (30, 15)), -shared + random.normal(0, 0.1, (30, 15))])
    clients = [f"c{n}" for n in range(30)]
    draws = scorer_draws(clients, effects, rule, lambda client: stream(1, "scorer", client))
    assert {draw.shape for draw in draws.values()} == {(DRAW_COUNT,)}
    found = np.array([draws[client].std(ddof=1) for client in clients])
    assert found == pytest.approx(jackknife_errors(effects, rule), rel=1e-9)
    means = np.array([draws[client].mean() for client in clients])
    assert means == pytest.approx(combine(effects, rule), abs=1e-9)
    assert np.corrcoef(draws["c0"], draws["c1"])[0, 1] > 0.9
    assert np.corrcoef(draws["c0"], draws["c20"])[0, 1] < -0.9


def test_equal_effects_have_no_error_and_one_scorer_has_no_known_one():
    equal = np.full((5, 5), 0.1)
    draws = scorer_draws("abcde", equal, "guarded", lambda client: stream(1, client))
    assert all((draw == draw[0]).all() for draw in draws.values())
    assert np.isinf(jackknife_errors(np.array([[0.3]]), "all")).all()
    (draw,) = scorer_draws(["only"], np.array([[0.3]]), "all", lambda client: stream(1, client)).values()
    assert (draw == 0.3).all()
    assert path(["only"], np.array([[0.3]])).standard_errors == {"only": math.inf}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_scorers_cannot_be_guarded(count):
    effects = np.random.default_rng(3).normal(0, 1, (count, count))
    assert combine(effects, "guarded").tolist() == combine(effects, "all").tolist()


@given(effects_of_any_size, st.floats(-1e6, 1e6))
def test_own_words_pay_at_most_what_is_usual(effects, lie):
    """Whatever a client says of itself, it gets no more than with the median of what all say of themselves."""
    liar = effects.copy()
    liar[0, 0] = lie
    bound = np.median([*np.diag(effects)[1:], np.inf])
    others = (len(effects) * combine(effects, "guarded")[0] - min(effects[0, 0], np.median(np.diag(effects)))) / (
        len(effects) - 1
    )
    best = ((len(effects) - 1) * others + bound) / len(effects)
    assert combine(liar, "guarded")[0] <= best + 1e-9


@given(effects_of_any_size, st.floats(-1e6, 1e6))
def test_a_scorer_moves_others_no_further_than_the_rest_reach(effects, lie):
    """What one scorer says of a rival leaves the mean of the others between the lowest and the highest of the rest."""
    lied = effects.copy()
    lied[0, 1] = lie
    own = min(effects[1, 1], np.median(np.diag(effects)))
    trimmed = (len(effects) * combine(lied, "guarded")[1] - own) / (len(effects) - 1)
    rest = effects[2:, 1]
    assert rest.min() - 1e-9 <= trimmed <= rest.max() + 1e-9


def test_clients_that_cannot_score_do_not_count():
    effects = np.random.default_rng(4).normal(0, 1, (7, 7))
    effects[3] = np.nan
    scorers = [0, 1, 2, 4, 5, 6]
    assert combine(effects, "all") == pytest.approx(effects[scorers].mean(axis=0))
    found = combine(effects, "guarded")
    assert found[scorers] == pytest.approx(guarded_by_hand(effects[np.ix_(scorers, scorers)]))
    assert found[3] == pytest.approx(np.sort(effects[scorers, 3])[1:-1].mean())
    assert np.isfinite(jackknife_errors(effects, "guarded")).all()
    with pytest.raises(InputError, match="at least one client must be able to score"):
        combine(np.full((2, 2), np.nan), "all")


def test_further_axes_are_combined_entry_by_entry():
    effects = np.random.default_rng(5).normal(0, 1, (6, 6, 3))
    for rule in RULES:
        whole = combine(effects, rule)
        assert whole.shape == (6, 3)
        for entry in range(3):
            assert whole[:, entry].tolist() == combine(effects[:, :, entry], rule).tolist()
