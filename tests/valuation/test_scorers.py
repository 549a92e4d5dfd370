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
effects_of_any_size = counts.flatmap(
    lambda n: arrays(float, (n, n), elements=st.floats(-1, 1).map(lambda effect: round(effect, 6)))
)


def trimmed(values):
    """The mean without the lowest and the highest fifth, at least one at each end."""
    cut = max(1, len(values) // 5)
    return float(np.mean(sorted(values)[cut : len(values) - cut]))


def level_by_hand(effects, usual):
    """The multiple of the usual effects that is nearest to these in absolute deviations, the middle one if several are.

    The sum of deviations is piecewise linear in the level, so a ratio minimises it.
    """
    ratios = [effect / w if w > 0 else 0.0 for effect, w in zip(effects, usual, strict=True)]
    sums = [math.fsum(abs(e - level * w) for e, w in zip(effects, usual, strict=True)) for level in ratios]
    best = [level for level, total in zip(ratios, sums, strict=True) if total <= min(sums) * (1 + 1e-12)]
    return (min(best) + max(best)) / 2


def at_one_level(effects, scorers=None):
    """The formula, one entry at a time: levelled effects, levels of scorers, usual effects of clients."""
    clients = range(len(effects))
    scorers = clients if scorers is None else scorers
    usual = [float(np.median([abs(effects[k][n]) for k in scorers if k != n])) for n in clients]
    levels = [
        level_by_hand([effects[k][n] for n in clients if n != k], [usual[n] for n in clients if n != k])
        for k in scorers
    ]
    common = trimmed(levels)
    found = np.full((len(effects),) * 2, np.nan)
    for level, k in zip(levels, scorers, strict=True):
        for n in clients:
            if level > common > 0:
                found[k, n] = effects[k][n] * common / level
            else:
                found[k, n] = effects[k][n] + usual[n] * (common - level)
    return found, levels, usual


def guarded_by_hand(effects, scorers=None):
    """The formula, one client at a time."""
    scorers = range(len(effects)) if scorers is None else scorers
    effects, _, _ = at_one_level(effects, scorers)
    own = {k: effects[k][k] for k in scorers}
    found = []
    for n in range(len(effects)):
        others = [effects[k][n] for k in scorers if k != n]
        mean = trimmed(others)
        if n in own:
            mean = (len(others) * mean + min(own[n], float(np.quantile(list(own.values()), 0.25)))) / (len(others) + 1)
        found.append(mean)
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
    assert combine(effects, "guarded") == pytest.approx(guarded_by_hand(effects), abs=1e-9)


@given(effects_of_any_size)
def test_leaving_a_scorer_out_is_the_formula_without_it(effects):
    """The scorers are brought to one level first; contributions then follow the level without the one."""
    count = len(effects)
    share = max(1, (count - 1) // 5) / (count - 1)
    without = without_each_scorer(effects, "guarded")
    stated = effects
    effects, levels, usual = at_one_level(effects)
    share_of_levels = max(1, count // 5) / count
    for left_out in range(count):
        rest = [k for k in range(count) if k != left_out]
        own = float(np.quantile([effects[k, k] for k in rest], 0.25))
        moved = trimmed_mean([levels[k] for k in rest], share_of_levels) - trimmed(levels)
        for n in range(count):
            others = trimmed_mean([effects[k, n] for k in rest if k != n], share)
            expected = others if n == left_out else ((count - 2) * others + min(effects[n, n], own)) / (count - 1)
            assert without[left_out, n] == pytest.approx(expected + usual[n] * moved, abs=1e-9)
    assert without_each_scorer(stated, "all") == pytest.approx(
        np.array([np.delete(stated, k, axis=0).mean(axis=0) for k in range(count)]), abs=1e-12
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
    favoured = random.normal(0, 0.3, (30, 1)) * np.repeat([1, 0, -1], 10)  # the same scorers favour the same clients
    effects = 1 + favoured + random.normal(0, 0.03, (30, 30))
    clients = [f"c{n}" for n in range(30)]
    draws = scorer_draws(clients, effects, rule, lambda client: stream(1, "scorer", client))
    assert {draw.shape for draw in draws.values()} == {(DRAW_COUNT,)}
    found = np.array([draws[client].std(ddof=1) for client in clients])
    assert found == pytest.approx(jackknife_errors(effects, rule), rel=1e-9)
    means = np.array([draws[client].mean() for client in clients])
    assert means == pytest.approx(combine(effects, rule), abs=1e-9)
    assert np.corrcoef(draws["c0"], draws["c1"])[0, 1] > 0.9
    assert np.corrcoef(draws["c0"], draws["c29"])[0, 1] < -0.9


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


@given(effects_of_any_size, st.floats(-1e6, 1e6).map(lambda lie: round(lie, 6)))
def test_own_words_pay_at_most_what_is_usual(effects, lie):
    """Whatever a client says of itself, it gets no more than the lower quartile of what all say of themselves."""
    count = len(effects)
    liar = effects.copy()
    liar[0, 0] = lie
    levelled, _, _ = at_one_level(liar)
    bound = float(np.quantile([*np.diag(levelled)[1:], 1e9], 0.25))
    best = ((count - 1) * trimmed(levelled[1:, 0]) + bound) / count
    assert combine(liar, "guarded")[0] <= best + 1e-9
    assert combine(liar, "guarded")[1:] == pytest.approx(
        [
            (
                (count - 1) * trimmed(np.delete(levelled[:, n], n))
                + min(levelled[n, n], np.quantile(np.diag(levelled), 0.25))
            )
            / count
            for n in range(1, count)
        ],
        abs=1e-9,
    ), "and it moves others only by what is usual"


@given(effects_of_any_size, st.lists(st.floats(-1e6, 1e6).map(lambda lie: round(lie, 6)), min_size=12, max_size=12))
def test_a_scorer_moves_others_no_further_than_the_rest_reach(effects, lies):
    """Whatever one scorer states, the others' part of a contribution lies between what honest scorers measured."""
    count = len(effects)
    lied = effects.copy()
    lied[0] = lies[:count]
    levelled, levels, _ = at_one_level(lied)
    tolerance = 1e-9 * max(map(abs, levels), default=1.0)
    assert min(levels[1:]) - tolerance <= trimmed(levels) <= max(levels[1:]) + tolerance
    own = np.minimum(np.diag(levelled), np.quantile(np.diag(levelled), 0.25))
    others = (count * combine(lied, "guarded") - own) / (count - 1)
    for n in range(1, count):
        honest = [levelled[k, n] for k in range(1, count) if k != n]
        size = 1e-9 * max(1.0, *map(abs, levelled[:, n]), *map(abs, own))
        assert min(honest) - size <= others[n] <= max(honest) + size


def share_gained(effects, row, rule):
    """What the first client's share gains, relative to itself, if its own row is replaced."""
    lied = effects.copy()
    lied[0] = row
    honest, found = (np.maximum(rule(each), 0) for each in (effects, lied))
    return (found[0] / found.sum()) / (honest[0] / honest.sum()) - 1


def plainly_trimmed(effects):
    """The guard without levels, which scorers at different levels leave open."""
    own = np.minimum(np.diag(effects), np.quantile(np.diag(effects), 0.25))
    count = len(effects)
    return np.array([((count - 1) * trimmed(np.delete(effects[:, n], n)) + own[n]) / count for n in range(count)])


def test_who_puts_all_others_low_gains_little_even_if_scorers_are_at_different_levels():
    """Five scorers that agree on equal clients up to 10 %, but gained unequally, up to tenfold."""
    random = np.random.default_rng(6)
    guarded, plain, everybody = [], [], []
    for _ in range(400):
        levels = 10 ** random.uniform(-1, 0, (5, 1))
        effects = levels * (1 + random.normal(0, 0.1, (5, 5)))
        row = np.array([1.0, -1, -1, -1, -1]) * random.choice([0.3, 1.0, 30.0])
        guarded.append(share_gained(effects, row, lambda each: combine(each, "guarded")))
        plain.append(share_gained(effects, row, plainly_trimmed))
        everybody.append(share_gained(effects, row, lambda each: combine(each, "all")))
    assert np.mean(guarded) < 0.05
    assert np.mean(plain) > 0.2
    assert np.mean(everybody) > 1


def test_clients_that_cannot_score_do_not_count():
    effects = np.random.default_rng(4).normal(0, 1, (7, 7))
    effects[3] = np.nan
    scorers = [0, 1, 2, 4, 5, 6]
    assert combine(effects, "all") == pytest.approx(effects[scorers].mean(axis=0))
    assert combine(effects, "guarded") == pytest.approx(guarded_by_hand(effects, scorers))
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
