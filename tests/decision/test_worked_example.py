"""The paper's worked example, figure by figure."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import commonweal as cw
from commonweal.decision.decide import decide_figures, mu_path_of_figures
from commonweal.decision.reference import score
from commonweal.federation.replay import replay
from commonweal.metrics import tsfi, tsfi_final_set, tsw
from commonweal.records import Decision, Figures, History, RoundRecord, Rules
from commonweal.valuation import profit

ROUND_1 = Figures(
    profits={"C1": profit(0.2, 0.1), "C2": profit(0.15, 0.1), "C3": profit(0.3, 0.05)},
    contributions={"C1": 0.4, "C2": 0.2, "C3": 0.4},
)
ROUND_2 = Figures(profits={"C1": -0.05, "C2": -0.05, "C3": 0.15}, contributions={"C1": 0.5, "C2": 0.1, "C3": 0.4})
# eliminated in round 2: (objective at μ = 0, slope of the objective, TSW, TSFI final set, TSFI)
SETS = {
    ("C1",): (0.1, Fraction(1), 0.5, 0.55, 0.75),
    ("C2",): (0.1, Fraction(1, 9), 0.5, 0.85, 0.95),
    ("C1", "C2"): (0.15, Fraction(3, 2), 0.55, 0.4, 0.70),
    (): (0.05, Fraction(0), 0.45, 1.0, 1.0),
}


@pytest.mark.parametrize("eliminated", SETS)
@pytest.mark.parametrize("mu", [Fraction(0), Fraction(1, 20), Fraction(1)])
def test_objectives_are_the_papers(eliminated, mu):
    profits = [Fraction(-5, 100), Fraction(-5, 100), Fraction(15, 100)]
    contributions = [Fraction(5, 10), Fraction(1, 10), Fraction(4, 10)]
    at_zero, slope, *_ = SETS[eliminated]
    gone = [("C1", "C2", "C3").index(client) for client in eliminated]
    assert score(profits, contributions, gone, mu) == Fraction(str(at_zero)) - mu * slope


def forced(figures: Figures, eliminated: tuple[str, ...]) -> Decision:
    """A decision with that set, from the same parts as any other."""
    retained = tuple(c for c in figures.clients if c not in eliminated)
    kept = decide_figures(
        Figures(
            profits={c: figures.profits[c] for c in retained},
            contributions={c: figures.contributions[c] for c in retained},
        ),
        Rules(mu=math.inf),
    )
    return Decision(
        figures=figures,
        rules=kept.rules,
        used_contributions=figures.contributions,
        retained=retained,
        eliminated=eliminated,
        objective=kept.objective,
        budget=kept.budget,
        shares=kept.shares,
        payoffs=kept.payoffs,
        transfers=kept.transfers,
    )


@pytest.mark.parametrize("eliminated", SETS)
def test_welfare_and_both_fairness_indices_are_the_papers(eliminated):
    _, _, welfare, final_set, printed = SETS[eliminated]
    history = History(
        clients=("C1", "C2", "C3"),
        rounds=(
            RoundRecord(round_number=1, decision=decide_figures(ROUND_1, Rules(mu=0.0))),
            RoundRecord(round_number=2, decision=forced(ROUND_2, eliminated)),
        ),
    )
    assert tsw(history)[-1] == pytest.approx(welfare)
    assert tsfi_final_set(history)[-1] == pytest.approx(final_set)
    assert tsfi(history)[-1] == pytest.approx(printed)


@pytest.mark.parametrize(
    ("mu", "retained"),
    [(0.0, ("C3",)), (0.0359, ("C3",)), (0.036, ("C1", "C3")), (0.0361, ("C1", "C3")), (0.05, ("C1", "C3")),
     (0.4499, ("C1", "C3")), (0.45, ("C1", "C2", "C3")), (math.inf, ("C1", "C2", "C3"))],
)  # fmt: skip
def test_the_decision_changes_where_the_lines_cross(mu, retained):
    assert cw.decide(profits=ROUND_2.profits, contributions=ROUND_2.contributions, mu=mu).retained == retained


def test_breakpoints_are_0_036_and_0_45():
    """The paper says 0.033 for the first, a slip of arithmetic: 0.05 / (3/2 − 1/9) = 0.036."""
    exact = mu_path_of_figures(ROUND_2, Rules(mu=0.0, version=1))
    assert exact.breakpoints == pytest.approx((0.036, 0.45), rel=1e-15)
    path = cw.mu_path(profits=ROUND_2.profits, contributions=ROUND_2.contributions)
    assert path.breakpoints == pytest.approx((0.036, 0.45), rel=1e-11)
    assert path.at(0.05).retained == ("C1", "C3")
    (range_,) = path.stays("C2")
    assert tuple(range_) == (pytest.approx(0.45), math.inf)
    assert range_.includes_lower


def test_the_money_of_round_two():
    decision = cw.decide(profits=ROUND_2.profits, contributions=ROUND_2.contributions, mu=0.05)
    assert decision.retained == ("C1", "C3")
    assert decision.eliminated == ("C2",)
    assert decision.objective == pytest.approx(0.1 - 0.05 / 9)
    assert decision.budget == pytest.approx(0.1)
    assert decision.payoffs == pytest.approx({"C1": 0.1 * 5 / 9, "C3": 0.1 * 4 / 9})
    assert decision.transfers == pytest.approx({"C1": 0.1 * 5 / 9 + 0.05, "C3": 0.1 * 4 / 9 - 0.15})
    assert decision.proven_gap == 0


def test_replayed_as_two_rounds():
    result = replay([(1, ROUND_1), (2, ROUND_2)], Rules(mu=0.05))
    assert [record.decision.retained for record in result.history.rounds] == [("C1", "C2", "C3"), ("C1", "C3")]
    assert tsw(result.history) == pytest.approx((0.4, 0.5))
    assert tsfi(result.history) == pytest.approx((1.0, 0.95))
