"""A round with harmful clients is the round of the others, and nobody is eliminated for a loss when all is finished."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.decide import decide_figures
from commonweal.decision.explain import explain
from commonweal.decision.mechanism import RoundDecider, decide_round
from commonweal.decision.mechanisms import make_mechanism
from commonweal.decision.promises import infeasible
from commonweal.records import Figures, Rules

NAMES = ("ann", "bob", "cyd", "dan", "eve")
NUMBERS = st.integers(-40, 40).map(lambda number: number / 16)
FIGURES = st.tuples(*[st.tuples(NUMBERS, NUMBERS) for _ in NAMES])
HARMFUL = st.sets(st.sampled_from(NAMES), max_size=3)
RULES = Rules(mu=0.05)


def figures_of(rows):
    named = dict(zip(NAMES, rows, strict=True))
    return Figures(
        profits={name: row[0] for name, row in named.items()},
        contributions={name: row[1] for name, row in named.items()},
        costs=dict.fromkeys(NAMES, 0.25),
    )


def decided(figures, rules=RULES, **options):
    return decide_round(make_mechanism(rules), figures, {}, **options)[0]


@given(FIGURES, HARMFUL, st.booleans())
def test_the_others_are_decided_as_if_they_alone_had_taken_part(rows, harmful, grace):
    figures = figures_of(rows)
    alone = decide_figures(figures.without(harmful), RULES, grace=grace)
    decision = decided(figures, harmful=harmful, grace=grace)
    for name in ("retained", "objective", "budget", "shares", "payoffs", "transfers"):
        assert getattr(decision, name) == getattr(alone, name)
    assert decision.figures == figures
    assert decision.harmful == tuple(name for name in NAMES if name in harmful)
    assert decision.eliminated == tuple(name for name in NAMES if name in harmful or name in alone.eliminated)
    assert tuple(decision.used_contributions) == NAMES
    assert decision.without_harmful == alone
    assert infeasible(decision) == ()
    for name in NAMES:
        if name in harmful:
            assert explain(decision, name).sentence == f"{name} is eliminated as harmful, whatever its profit."
        else:
            assert explain(decision, name) == explain(alone, name)


@given(FIGURES, HARMFUL)
def test_a_mechanism_with_memory_forgets_harmful_clients(rows, harmful):
    figures = figures_of(rows)
    rules = Rules(mu=float("inf"), mechanism="fli")
    _, after = decide_round(make_mechanism(rules), figures, {}, harmful=harmful)
    assert after == decide_round(make_mechanism(rules), figures.without(harmful), {})[1]
    taking_over = RoundDecider(make_mechanism(rules))
    taking_over.advance(decided(figures, rules, harmful=harmful))
    assert taking_over.state == after


@given(FIGURES)
def test_when_the_federation_is_finished_nobody_is_eliminated_for_a_loss(rows):
    figures = figures_of(rows)
    finished, grace = decided(figures, finished=True), decided(figures, grace=True)
    assert finished.retained == NAMES
    assert finished.transfers == grace.transfers
    assert (finished.finished, finished.grace, finished.spares_losses) == (True, False, True)


def test_a_poisoner_without_a_loss_is_no_candidate_but_leaves_all_the_same():
    figures = figures_of([(0.0, -1.0), (0.5, 1.0), (0.25, 1.0), (-0.25, 0.0), (0.5, 1.0)])
    decision = decided(figures, harmful=("ann",))
    assert decision.candidates == ("dan",)
    assert decision.eliminated == ("ann", "dan")
    assert "ann" not in decision.transfers
    assert sum(decision.transfers.values()) == pytest.approx(0.0, abs=1e-15)
