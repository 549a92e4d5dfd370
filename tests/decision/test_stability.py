"""Stability against its definition (decide every draw as a round of its own) and against the normal distribution."""

from __future__ import annotations

import math
from itertools import combinations
from statistics import NormalDist

import numpy as np
import pytest

import commonweal as cw
from commonweal.decision.decide import decide_figures
from commonweal.decision.mechanism import Mechanism, decide_round, view_of
from commonweal.decision.mechanisms import make_mechanism
from commonweal.decision.problem import Choice
from commonweal.decision.stability import draw_count_for, ending_stability, stabilities
from commonweal.decision.transfers import divide
from commonweal.federation.evidence import stated_evidence
from commonweal.records import Figures, Rules

RNG = np.random.default_rng(7)


def figures_of(profits, contributions):
    names = [f"c{place}" for place in range(len(profits))]
    return Figures(
        profits=dict(zip(names, map(float, profits), strict=True)),
        contributions=dict(zip(names, map(float, contributions), strict=True)),
    )


def found(figures, rules, profit_draws, contribution_draws, *, grace=False):
    mechanism = make_mechanism(rules)
    decision, _ = decide_round(mechanism, figures, {}, grace=grace)
    view = view_of(mechanism, figures, grace=grace)
    return decision, stabilities(
        mechanism, view, {}, decision, profit_draws=profit_draws, contribution_draws=contribution_draws
    )


@pytest.mark.parametrize("rule", ["clip", "raw"])
@pytest.mark.parametrize("mu", [0.0, 0.05, 0.4])
def test_each_draw_is_decided_like_a_round_of_its_own(rule, mu):
    rules = Rules(mu=mu, contribution_rule=rule)
    for count in (1, 3, 6):
        profits, contributions = RNG.normal(0, 0.02, count), RNG.normal(0.01, 0.02, count)
        drawn_profits = profits[:, None] + RNG.normal(0, 0.02, (count, 30))
        drawn_contributions = contributions[:, None] + RNG.normal(0, 0.01, (count, 30))
        figures = figures_of(profits, contributions)
        decision, stable = found(figures, rules, drawn_profits, drawn_contributions)
        for client in figures.clients:
            same = sum(
                (client in decide_figures(figures_of(p, q), rules).retained) == (client in decision.retained)
                for p, q in zip(drawn_profits.T, drawn_contributions.T, strict=True)
            )
            assert (stable[client].same_count, stable[client].draw_count) == (same, 30)


def test_draws_that_are_the_figures_themselves_give_full_stability():
    figures = figures_of([-0.1, 0.2, -0.01], [0.1, 0.3, 0.2])
    profits, contributions = np.tile([[-0.1], [0.2], [-0.01]], 40), np.tile([[0.1], [0.3], [0.2]], 40)
    _, stable = found(figures, Rules(mu=0.05), profits, contributions)
    assert {one.share for one in stable.values()} == {1.0}


def test_nobody_is_eliminated_in_a_draw_of_a_grace_round_or_at_infinite_mu():
    draws = RNG.normal(-0.1, 0.1, (3, 50))
    figures = figures_of([-0.1, 0.2, -0.01], [0.1, 0.3, 0.2])
    for rules, grace in ((Rules(mu=0.0), True), (Rules(mu=math.inf), False)):
        _, stable = found(figures, rules, draws, draws, grace=grace)
        assert {one.share for one in stable.values()} == {1.0}


def test_an_end_is_as_stable_as_the_draws_in_which_no_two_clients_can_expect_a_profit():
    draws = RNG.normal(-0.01, 0.02, (4, 60))
    sets = [chosen for size in (2, 3, 4) for chosen in combinations(range(4), size)]
    finished = sum(all(draw[list(chosen)].sum() <= 0 for chosen in sets) for draw in draws.T)
    found = ending_stability(draws)
    assert 0 < found.same_count < found.draw_count
    assert (found.same_count, found.draw_count) == (finished, 60)


def test_rounding_in_a_draw_makes_no_loss_maker():
    """Equal accuracies and no cost: in doubles the difference may be −2.2e-16."""
    figures = figures_of([0.0, 0.1], [0.1, 0.2])
    profits = np.array([[-2.2e-16] * 50, [0.1] * 50])
    decision, stable = found(figures, Rules(mu=0.0), profits, np.full((2, 50), 0.1))
    assert decision.eliminated == ()
    assert stable["c0"].share == 1.0


def test_the_state_of_a_mechanism_is_that_of_the_round():
    class SparesTheNamed(Mechanism):
        """Eliminates loss-makers, except those that its state names."""

        name, version, label = "spares", "spares/1", "spares"

        def select(self, view, state):
            spared = [client in state["spared"] for client in view.clients]
            return Choice(retained=(view.profits >= 0) | np.array(spared))

        def divide(self, view, state, retained):
            return divide(view.profits[retained], view.contributions[retained])

    mechanism = SparesTheNamed(Rules(mu=math.inf))
    figures, state = figures_of([-0.1, -0.1, 0.1], [1, 1, 1]), {"spared": ["c0"]}
    decision, _ = decide_round(mechanism, figures, state)
    draws = np.array([[-1.0] * 10, [-1.0] * 4 + [1.0] * 6, [1.0] * 10])
    view = view_of(mechanism, figures)
    stable = stabilities(mechanism, view, state, decision, profit_draws=draws, contribution_draws=np.ones((3, 10)))
    assert [one.share for one in stable.values()] == [1.0, 0.4, 1.0]


def test_many_clients_have_fewer_draws_and_raw_contributions_only_few_clients():
    assert [draw_count_for(count) for count in (1, 1000, 2000, 5000, 1_000_000)] == [100, 100, 50, 20, 20]
    count = 16
    profits, contributions = RNG.normal(0, 1, count), RNG.random(count)
    draws = np.tile(profits[:, None], 5)
    _, stable = found(figures_of(profits, contributions), Rules(mu=0.1, contribution_rule="raw"), draws, draws)
    assert stable == {}


def test_normal_errors_give_the_normal_distribution():
    """At mu = 0 a client stays if its profit is not negative, so the stability is that of the sign."""
    profits = {f"c{place}": value for place, value in enumerate(np.linspace(-0.03, 0.03, 200).tolist())}
    errors = dict.fromkeys(profits, 0.01)
    figures = Figures(profits=profits, contributions=dict.fromkeys(profits, 1.0), profit_errors=errors)
    rules = Rules(mu=0.0)
    evidence = stated_evidence(decide_figures(figures, rules), make_mechanism(rules), {}, 1)
    expected = [NormalDist().cdf(abs(profit) / 0.01) for profit in profits.values()]
    deviations = [
        (one.stability.share - truth) / math.sqrt(max(truth * (1 - truth), 1e-4) / 100)
        for one, truth in zip(evidence.values(), expected, strict=True)
    ]
    assert abs(np.mean(deviations)) < 4 / math.sqrt(200)
    assert max(map(abs, deviations)) < 4.5
    assert {(one.profit_error, one.contribution_error) for one in evidence.values()} == {(0.01, None)}


def test_replayed_rounds_have_evidence_where_errors_are_given():
    given = Figures(
        profits={"a": 0.1, "b": -0.1, "c": -0.001},
        contributions={"a": 1.0, "b": 0.1, "c": 0.5},
        profit_errors={"a": 0.01, "b": 0.01, "c": 0.01},
        contribution_errors={"a": 0.1, "b": 0.1, "c": 0.1},
    )
    plain = Figures(profits=given.profits, contributions=given.contributions)
    replayed = cw.replay([(1, given), (2, plain), (3, given)], Rules(mu=0.01))
    first, second, third = replayed.history.rounds
    assert (first.draw_count, second.draw_count, third.draw_count) == (100, None, 100)
    assert second.evidence == {}
    assert "b" in first.decision.eliminated
    assert "b" not in third.evidence  # its errors are ignored with its figures
    assert first.stability_of("b").share == 1.0
    assert 0.3 < first.stability_of("c").share < 1.0
    again = cw.replay([(1, given)], Rules(mu=0.01)).history.rounds[0]
    assert again.evidence == first.evidence
