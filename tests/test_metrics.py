"""Metrics against their formulas written out, and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import commonweal as cw
from commonweal.metrics import gini, jain, payoff_contribution_correlation, tsfi, tsfi_final_set, tsw
from commonweal.records import Figures, Rules


def random_history(seed, mu, round_count=8, client_count=6, **rules):
    rng = np.random.default_rng(seed)
    names = [f"c{i}" for i in range(client_count)]
    rounds = [
        (
            t,
            Figures(
                profits=dict(zip(names, rng.uniform(-0.4, 1, client_count).tolist(), strict=True)),
                contributions=dict(zip(names, rng.random(client_count).tolist(), strict=True)),
            ),
        )
        for t in range(1, round_count + 1)
    ]
    return cw.replay(rounds, Rules(mu=mu, **rules)).history


def written_out(history, final_set, departed="share"):
    """TSFI by its definition: estimate each departed client round by round, from the latest departure back."""
    values = []
    for end in range(1, len(history.rounds) + 1):
        past = history.rounds[:end]
        top = bottom = 0.0
        for t, record in enumerate(past):
            used = record.decision.used_contributions
            chosen = past[-1].decision.retained if final_set else record.decision.retained
            top += sum(used.get(c, 0.0) for c in chosen)
            everybody = sum(used.values())
            for before in reversed(past[:t]):
                gone = [before.decision.used_contributions[c] for c in before.decision.eliminated]
                kept = sum(before.decision.used_contributions[c] for c in before.decision.retained)
                if departed == "share" and gone:
                    for_each = [q / (q + kept) if kept else None for q in gone]
                    everybody += sum(
                        q if share is None else share / (1 - share) * everybody
                        for q, share in zip(gone, for_each, strict=True)
                    )
            bottom += everybody
        values.append(top / bottom if bottom else 1.0)
    return values


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("mu", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("departed", ["share", "zero"])
def test_tsfi_is_its_definition(seed, mu, departed):
    history = random_history(seed, mu)
    assert tsfi(history, departed=departed) == pytest.approx(written_out(history, False, departed))
    assert tsfi_final_set(history, departed=departed) == pytest.approx(written_out(history, True, departed))


def test_a_client_that_left_keeps_the_share_it_had():
    """One client of three equals leaves; the others' contributions then shrink, and its share stays a third."""
    names = ("a", "b", "c")
    rounds = [
        (t, Figures(profits={"a": -1.0, "b": 1.0, "c": 1.0}, contributions=dict.fromkeys(names, 1.0 / t)))
        for t in range(1, 6)
    ]
    history = cw.replay(rounds, Rules(mu=0.1)).history
    assert history.rounds[0].decision.eliminated == ("a",)
    assert tsfi(history) == pytest.approx([2 / 3] * 5)


@pytest.mark.parametrize("seed", range(8))
def test_nobody_eliminated_means_full_fairness(seed):
    history = random_history(seed, float("inf"))
    assert tsfi(history) == pytest.approx([1.0] * 8)
    assert tsfi_final_set(history) == pytest.approx([1.0] * 8)


@pytest.mark.parametrize("seed", range(8))
def test_welfare_is_the_sum_of_budgets_and_keeps_its_last_value(seed):
    history = random_history(seed, 0.1)
    budgets = [record.decision.budget for record in history.rounds]
    assert tsw(history) == pytest.approx(np.cumsum(budgets).tolist())
    held = tsw(history, round_count=20)
    assert len(held) == 20
    assert set(held[len(budgets) :]) <= {tsw(history)[-1]}
    assert sum(cw.metrics.total_payoffs(history).values()) == pytest.approx(tsw(history)[-1])


def test_if_the_retained_contribute_nothing_the_contribution_is_carried_forward():
    """At mu = 0 the only contributor leaves; two who contribute nothing stay and contribute later."""
    rounds = [
        (1, Figures(profits={"a": -1.0, "b": 1.0, "c": 1.0}, contributions={"a": 3.0, "b": 0.0, "c": 0.0})),
        (2, Figures(profits={"b": 1.0, "c": 1.0}, contributions={"b": 1.0, "c": 1.0})),
    ]
    history = cw.replay(rounds, Rules(mu=0.0)).history
    assert tsfi(history) == pytest.approx((0.0, (0 + 2) / (3 + 5)))


def test_a_share_is_relative_to_the_clients_that_took_part():
    """z was absent when b left, so b's share is relative to a alone; when a contributes nothing, b counts as 0."""
    rounds = [
        (1, Figures(profits={"a": 1.0, "b": -1.0}, contributions={"a": 1.0, "b": 1.0})),
        (2, Figures(profits={"a": 1.0, "z": 1.0}, contributions={"a": 1.0, "z": 2.0})),
        (3, Figures(profits={"z": 1.0}, contributions={"z": 2.0})),
    ]
    history = cw.replay(rounds, Rules(mu=0.0)).history
    assert tsfi(history) == pytest.approx((1 / 2, 4 / 6, 6 / 8))


def test_enormous_shares_do_not_overflow():
    big = {f"c{i}": 1e50 for i in range(7)}
    rounds = []
    for t in range(8):
        left = list(big)[t:]
        profits = dict.fromkeys(left, 1.0) | {"x": 1.0, "y": 1.0}
        if left:
            profits[left[0]] = -1.0
        contributions = {c: 1e50 if c == (left or [None])[0] else 0.0 for c in profits} | {"x": 1e-50 if left else 0.0}
        rounds.append((t + 1, Figures(profits=profits, contributions=contributions)))
    assert all(0 <= value <= 1 for value in tsfi(cw.replay(rounds, Rules(mu=0.0)).history))


def test_totals_are_of_the_rounds_in_which_a_client_was_retained():
    rounds = [
        (1, Figures(profits={"a": 1.0, "b": 1.0, "c": 1.0}, contributions={"a": 1.0, "b": 2.0, "c": 0.0})),
        (2, Figures(profits={"a": 1.0, "b": -1.0, "c": 1.0}, contributions={"a": 4.0, "b": 0.0, "c": 1.0})),
    ]
    history = cw.replay(rounds, Rules(mu=1.0)).history
    assert history.rounds[1].decision.eliminated == ("b",)
    assert cw.metrics.total_contributions(history) == {"a": 5.0, "b": 2.0, "c": 1.0}
    assert cw.metrics.total_payoffs(history) == pytest.approx({"a": 1.0 + 1.6, "b": 2.0, "c": 0.4})


def test_no_contribution_at_all_counts_as_fair():
    rounds = [(1, Figures(profits={"a": 1.0, "b": 1.0}, contributions={"a": 0.0, "b": -3.0}))]
    assert tsfi(cw.replay(rounds, Rules(mu=1.0)).history) == (1.0,)


values = st.lists(st.floats(0, 1e6).filter(lambda x: x == 0 or x > 1e-3), min_size=1, max_size=30)


@given(values)
def test_jain_and_gini_are_their_pairwise_definitions(xs):
    if sum(xs):
        assert jain(xs) == pytest.approx(sum(xs) ** 2 / (len(xs) * sum(x * x for x in xs)))
        pairs = sum(abs(x - y) for x in xs for y in xs)
        assert gini(xs) == pytest.approx(pairs / (2 * len(xs) * sum(xs)), abs=1e-9)
    else:
        assert (jain(xs), gini(xs)) == (1.0, 0.0)


def test_jain_and_gini_have_no_meaning_below_zero():
    assert jain([1.0, -1.0]) is None
    assert gini([1.0, -1.0]) is None
    assert jain([]) is None


@pytest.mark.parametrize("seed", range(6))
def test_correlation_is_numpys(seed):
    history = random_history(seed, 0.3)
    payoffs, contributions = cw.metrics.total_payoffs(history), cw.metrics.total_contributions(history)
    expected = np.corrcoef(list(payoffs.values()), [contributions[c] for c in payoffs])[0, 1]
    assert payoff_contribution_correlation(history) == pytest.approx(expected)


def test_correlation_with_a_constant_is_undefined():
    rounds = [(1, Figures(profits={"a": 1.0, "b": 1.0}, contributions={"a": 1.0, "b": 1.0}))]
    assert payoff_contribution_correlation(cw.replay(rounds, Rules(mu=1.0)).history) is None


def test_rounds_without_rationality_are_listed():
    rounds = [
        (1, Figures(profits={"a": 1.0, "b": -0.5}, contributions={"a": 1.0, "b": 1.0})),
        (2, Figures(profits={"a": 0.1, "b": -0.5}, contributions={"a": 3.0, "b": 1.0})),
    ]
    history = cw.replay(rounds, Rules(mu=float("inf"))).history
    assert cw.metrics.irrational_rounds(history) == {2: pytest.approx({"a": 0.3, "b": 0.1})}


def test_an_unknown_way_to_count_clients_that_left_is_refused():
    with pytest.raises(cw.InputError, match="departed must be 'share' or 'zero'"):
        tsfi(random_history(0, 0.1), departed="last")
