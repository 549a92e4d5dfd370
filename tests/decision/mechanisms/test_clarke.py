"""Both Clarke mechanisms: formulas by brute force over all sets, and that no lie gains."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.mechanism import decide_round, view_of
from commonweal.decision.mechanisms.clarke import best_choice, externalities, rebate
from commonweal.decision.mechanisms.clarke_ir import presence_values
from commonweal.decision.reference import score
from commonweal.errors import InputError
from commonweal.records import Figures
from tests.decision.families import KINDS, leniency
from tests.decision.families import figures as family
from tests.decision.mechanisms.rounds import mechanism, money_left


def objectives(profits, contributions, mu):
    """W of every set, exactly: True = retained."""
    p, q = [Fraction(x) for x in profits], [Fraction(x) for x in contributions]
    sets = product([True, False], repeat=len(p))
    return {kept: score(p, q, [n for n, stays in enumerate(kept) if not stays], Fraction(mu)) for kept in sets}


def without_report(profits, n):
    return [0 if m == n else p for m, p in enumerate(profits)]


def charges_by_brute_force(profits, contributions, mu):
    """c_n over all sets, whatever the profits, with n's report in neither term."""
    everything = objectives(profits, contributions, mu)
    best = max(everything, key=everything.get)
    charges = []
    for n in range(len(profits)):
        others = objectives(without_report(profits, n), contributions, mu)
        charges.append(max(others.values()) - others[best])
    return best, charges


figures_of_clients = st.lists(
    st.tuples(st.integers(-8, 8).map(lambda k: k / 8), st.integers(-2, 8).map(lambda k: max(k, 0) / 8)),
    min_size=1,
    max_size=5,
)
some_mu = st.sampled_from([0.0, 0.125, 0.3, 1.0, 4.0])


@given(figures_of_clients, some_mu)
def test_charges_are_externalities_over_all_sets(rows, mu):
    profits, contributions = np.array(rows, float).T
    everything = objectives(profits, contributions, mu)
    retained = best_choice(profits, contributions, mu).retained
    assert everything[tuple(retained.tolist())] == max(everything.values())
    charges = externalities(profits, contributions, retained, mu)
    for n in range(len(rows)):
        others = objectives(without_report(profits, n), contributions, mu)
        assert charges[n] == max(others.values()) - others[tuple(retained.tolist())]
    assert min(charges) >= 0
    if mu == 0:
        assert not any(charges)


@given(figures_of_clients.filter(lambda rows: len(rows) <= 4), some_mu, st.lists(st.integers(-40, 40), max_size=12))
def test_rebates_are_the_least_total_charge_over_own_reports(rows, mu, reports):
    """The minimum is at one of the ends, and no report gives less; the rebate does not depend on the own report."""
    profits, contributions = np.array(rows, float).T
    for n in range(len(rows)):
        back = rebate(profits, contributions, mu, n)
        totals = []
        for report in [*(report / 8 for report in reports), 1000.0, -1000.0]:
            reported = profits.copy()
            reported[n] = report
            totals.append(sum(charges_by_brute_force(reported, contributions, mu)[1]))
            assert rebate(reported, contributions, mu, n) == back
        assert back * len(rows) <= min(totals)
        assert back * len(rows) == min(totals[-2:])


@given(figures_of_clients, some_mu)
def test_money_of_clarke_is_never_a_deficit(rows, mu):
    one, figures = mechanism("clarke", mu=mu), named(*np.array(rows, float).T)
    decision, _ = decide_round(one, figures, {})
    assert decision.external >= -1e-12
    assert money_left(decision) == pytest.approx(0, abs=1e-12)
    assert all(transfer >= 0 for transfer in decision.transfers.values())  # only the eliminated are charged


@given(figures_of_clients, some_mu)
def test_presence_is_paid_for_and_nobody_loses(rows, mu):
    profits, contributions = np.array(rows, float).T
    everything = objectives(profits, contributions, mu)
    retained = best_choice(profits, contributions, mu).retained
    best = everything[tuple(retained.tolist())]
    for n, value in enumerate(presence_values(profits, contributions, retained, mu)):
        absent = max(w for kept, w in everything.items() if not kept[n])
        own = Fraction(profits[n]) if retained[n] else 0
        if absent == -math.inf:
            assert value == 0
        else:
            assert value + own == best - absent >= 0
            assert retained[n] or value == 0


def named(profits, contributions):
    clients = [f"c{n}" for n in range(len(profits))]
    return Figures(
        profits=dict(zip(clients, np.asarray(profits, float).tolist(), strict=True)),
        contributions=dict(zip(clients, np.asarray(contributions, float).tolist(), strict=True)),
    )


def outcome(one, profits, contributions, n):
    """Whether client n stays, and what it receives."""
    decision, _ = decide_round(one, named(profits, contributions), {})
    return f"c{n}" in decision.transfers, decision.all_transfers.get(f"c{n}", 0.0)


def lies(rng, profits, contributions, mu, n):
    """Reports worth trying: far off, near by, and just beside the report at which the client's fate changes."""
    size = float(np.abs(profits).sum()) + 1.0
    low, high = -4 * size - 4 * mu, size
    for _ in range(40):  # in with a high report, out with a low one
        middle = (low + high) / 2
        reported = profits.copy()
        reported[n] = middle
        if best_choice(reported, contributions, mu).retained[n]:
            high = middle
        else:
            low = middle
    return [low, high, min(profits[n], 0.0), -1e6, 1e6, float(profits[n] + size * rng.normal())]


SIZED = [kind for kind in KINDS if kind != "magnitudes"]  # gains are compared in absolute terms


def largest_gain(name, seeds):
    """The largest gain of any lie, in rounds of all other kinds."""
    largest = 0.0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        profits, contributions = family(rng, SIZED[seed % len(SIZED)], int(rng.integers(0, 4)), int(rng.integers(1, 4)))
        mu = min(leniency(rng), 1e3)
        one = mechanism(name, mu=mu)
        for n in range(len(profits)):
            stays, received = outcome(one, profits, contributions, n)
            honest = (profits[n] if stays else 0.0) + received
            for lie in lies(rng, profits, contributions, mu, n):
                reported = profits.copy()
                reported[n] = round(lie, 12)
                stays, received = outcome(one, reported, contributions, n)
                largest = max(largest, (profits[n] if stays else 0.0) + received - honest)
    return largest


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clarke", "clarke-ir"])
def test_no_lie_gains(name):
    assert largest_gain(name, range(20)) <= 1e-9


@pytest.mark.soak
@pytest.mark.parametrize("name", ["clarke", "clarke-ir"])
def test_no_lie_gains_in_many_rounds(name):
    assert largest_gain(name, range(20, 1060)) <= 1e-9


def test_the_papers_mechanism_fails_the_same_search():
    """Otherwise the search would prove nothing."""
    assert largest_gain("paper", range(20)) > 0.01


def test_a_round_by_hand():
    """Eliminating c2 saves 0.5 and costs a penalty of 0.6 · 1/2 = 0.3, so it goes.

    Had it reported 0, nobody would go: by its report the others lose the penalty, 0.3. So much is charged whatever c0
    reports from 0 on; if c0 went in any case, it alone would be charged 0.7 − 0.2. The least of both, 0.3, gives it a
    rebate of 0.1, and c1 likewise. c2 gets none: if it stays, nobody is charged.
    """
    decision, _ = decide_round(mechanism("clarke", mu=0.6), named([1.0, 1.0, -0.5], [0.5, 0.5, 0.5]), {})
    assert decision.eliminated == ("c2",)
    assert decision.objective == pytest.approx(1.7)
    assert decision.charges == {"c2": pytest.approx(-0.3)}
    assert decision.transfers == pytest.approx({"c0": 0.1, "c1": 0.1})
    assert decision.external == pytest.approx(0.1)


def test_nothing_is_charged_where_there_is_no_choice():
    figures = named([1.0, -0.5], [0.5, 0.5])
    for name in ("clarke", "clarke-ir"):
        decision, _ = decide_round(mechanism(name, mu=0.1), figures, {}, grace=True)
        assert decision.eliminated == ()
        assert set(decision.transfers.values()) == {0.0}
    decision, _ = decide_round(mechanism("clarke", mu=math.inf), figures, {})
    assert decision.eliminated == ()
    assert set(decision.transfers.values()) == {0.0}


def test_the_only_contributor_is_paid_nothing_by_clarke_ir():
    decision, _ = decide_round(mechanism("clarke-ir", mu=1.0), named([0.5, -0.25], [0.0, 1.0]), {})
    assert decision.eliminated == ()
    assert decision.payoffs == {"c0": 0.5, "c1": -0.25}


def test_mu_must_suit():
    figures = named([0.5], [1.0])
    with pytest.raises(InputError, match=r"^Mechanism 'clarke-ir' needs a finite mu, got inf: what it pays grows"):
        decide_round(mechanism("clarke-ir", mu=math.inf), figures, {})
    for name in ("clarke", "clarke-ir"):
        with pytest.raises(InputError, match="mu must be a number >= 0"):
            decide_round(mechanism(name, mu=-1.0), figures, {})


def test_explanations_give_the_amount():
    figures = named([1.0, 1.0, -0.5], [0.5, 0.5, 0.5])
    one = mechanism("clarke", mu=0.6)
    decision, _ = decide_round(one, figures, {})
    sentence = one.explain(view_of(one, figures), {}, decision, "c2", None)
    assert sentence.startswith("c2 is eliminated: the objective is larger without it. Its transfer is -0.3")
