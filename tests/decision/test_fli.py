"""FLI against its published formulas, written down a second time as plain loops over scalars."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.decide import decide_figures
from commonweal.decision.mechanism import RoundDecider, decide_round, view_of
from commonweal.decision.mechanisms import MECHANISMS, VERSIONS, make_mechanism, mechanism_of_version
from commonweal.decision.mechanisms.fli import FLI
from commonweal.errors import InputError
from commonweal.records import Figures, Rules


def fli(omega):
    return FLI(Rules(mu=math.inf, mechanism="fli", parameters=(("omega", omega),)))


def test_the_authors_worked_example():
    """ω = 10, q = (.8, .9, .75), Y = (10, 5, 0), Q = (7, 7, 8), no cost: weights 25, 21 and 15.5."""
    state = {"a": (10.0, 7.0, 1, 0.0), "b": (5.0, 7.0, 1, 0.0), "c": (0.0, 8.0, 1, 0.0)}
    figures = Figures(
        profits={"a": 1.0, "b": 1.0, "c": 1.0},
        contributions={"a": 0.8, "b": 0.9, "c": 0.75},
        costs={"a": 0.0, "b": 0.0, "c": 0.0},
    )
    decision, _ = decide_round(fli(10.0), figures, state)
    assert decision.shares == pytest.approx({"a": 25 / 61.5, "b": 21 / 61.5, "c": 15.5 / 61.5}, rel=1e-12)


class Scalars:
    """Algorithm 1, client by client."""

    def __init__(self, omega):
        self.omega = omega
        self.unpaid, self.waiting, self.costs = {}, {}, {}

    def payoffs(self, profits, contributions, costs):
        waited, raw = {}, {}
        for i in profits:
            past = self.costs.get(i, [])
            waited[i] = sum(past) / len(past) if self.unpaid.get(i, 0.0) > 0 else 0.0
            own = self.omega * max(contributions[i], 0.0)
            raw[i] = 0.5 * (own + self.unpaid.get(i, 0.0) + costs[i] + self.waiting.get(i, 0.0) + waited[i])
        budget, total = sum(profits.values()), sum(raw.values())
        paid = {}
        for i in profits:
            share = raw[i] / total if total else 1 / len(profits)
            paid[i] = share * budget if budget >= 0 else profits[i]
            self.unpaid[i] = max(0.0, self.unpaid.get(i, 0.0) + costs[i] - paid[i])
            self.waiting[i] = max(0.0, self.waiting.get(i, 0.0) + waited[i] - paid[i])
            self.costs.setdefault(i, []).append(costs[i])
        return paid


amounts = st.floats(-1.0, 1.0).map(lambda x: round(x, 6))
clients = st.fixed_dictionaries({}, optional={name: st.tuples(amounts, amounts, amounts.map(abs)) for name in "abcd"})


@given(st.floats(0.0, 20.0), st.lists(clients.filter(bool), min_size=1, max_size=6))
def test_many_rounds_follow_the_formulas(omega, rounds):
    decider, scalars = RoundDecider(fli(omega)), Scalars(omega)
    for given_round in rounds:
        profits = {i: row[0] for i, row in given_round.items()}
        contributions = {i: row[1] for i, row in given_round.items()}
        costs = {i: row[2] for i, row in given_round.items()}
        decision = decider.decide(Figures(profits=profits, contributions=contributions, costs=costs))
        assert decision.eliminated == ()
        assert decision.payoffs == pytest.approx(scalars.payoffs(profits, contributions, costs), rel=1e-9, abs=1e-9)
        assert math.fsum(decision.transfers.values()) == pytest.approx(0.0, abs=1e-12)


def test_a_client_that_was_paid_too_little_is_compensated_later():
    """Equal contributions; the client whose cost was not covered gets more than the other in the next round."""
    decider = RoundDecider(fli(1.0))
    same = {"a": 0.1, "b": 0.1}
    decider.decide(Figures(profits={"a": 0.1, "b": 0.0}, contributions=same, costs={"a": 0.0, "b": 0.5}))
    later = decider.decide(Figures(profits={"a": 0.1, "b": 0.1}, contributions=same, costs={"a": 0.0, "b": 0.0}))
    assert later.payoffs["b"] > later.payoffs["a"]


def test_explanations_name_what_a_client_is_still_owed():
    mechanism, same = fli(1.0), {"a": 0.1, "b": 0.1}
    first = Figures(profits={"a": 0.1, "b": 0.0}, contributions=same, costs={"a": 0.0, "b": 0.5})
    _, state = decide_round(mechanism, first, {})
    later = Figures(profits={"a": 0.1, "b": 0.1}, contributions=same, costs={"a": 0.0, "b": 0.0})
    decision, _ = decide_round(mechanism, later, state)
    # b's weights in the first round: contribution 0.1 + cost 0.5, against 0.1; so it got 6/7 of 0.1, and 0.5 was due.
    owed = mechanism.explain(view_of(mechanism, later), state, decision, "b", None)
    assert owed.startswith("b stays: FLI eliminates nobody. It gets ")
    assert owed.endswith(f"and for {0.5 - 0.6 / 7:.6g} of earlier cost that is not paid back yet.")
    content = mechanism.explain(view_of(mechanism, later), state, decision, "a", None)
    assert content.endswith("of the budget for its contribution and cost.")
    loss = Figures(profits={"a": -0.1}, contributions={"a": 0.1}, costs={"a": 0.0})
    decision, _ = decide_round(mechanism, loss, {})
    assert "bears its own profit or loss" in mechanism.explain(view_of(mechanism, loss), {}, decision, "a", None)


def test_decisions_are_shown_with_the_mechanism_instead_of_mu():
    figures = Figures(profits={"a": 1.0}, contributions={"a": 1.0}, costs={"a": 0.0})
    decision, _ = decide_round(fli(2.0), figures, {})
    assert repr(decision).startswith("<Decision by fli, omega = 2: retained a;")
    assert "<caption>fli, omega = 2, budget 1</caption>" in decision._repr_html_()


def test_costs_are_needed():
    with pytest.raises(InputError, match="'fli' needs the cost of each client"):
        decide_round(fli(1.0), Figures(profits={"a": 1.0}, contributions={"a": 1.0}), {})


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [((("omega", -1.0),), "omega must be between 0 and 1e"), ((("beta", 1.0),), "no parameter 'beta'.*omega")],
)
def test_bad_parameters_are_refused(parameters, sentence):
    rules = Rules(mu=math.inf, mechanism="fli", parameters=parameters)
    figures = Figures(profits={"a": 1.0}, contributions={"a": 1.0}, costs={"a": 0.0})
    with pytest.raises(InputError, match=sentence):
        decide_round(make_mechanism(rules), figures, {})


@pytest.mark.parametrize(
    "rule",
    [{"contribution_rule": "raw"}, {"loss_rule": "equal"}, {"liability_cap": 0.1}],
    ids=lambda rule: next(iter(rule)),
)
def test_rules_without_effect_are_refused(rule):
    rules = Rules(mu=math.inf, mechanism="fli", **rule)
    figures = Figures(profits={"a": 1.0}, contributions={"a": 1.0}, costs={"a": 0.0})
    with pytest.raises(InputError, match=rf"^Mechanism 'fli' has no {next(iter(rule))}\. Remove it\.$"):
        decide_figures(figures, rules)


def test_unknown_mechanisms_and_versions_are_refused():
    with pytest.raises(InputError, match=rf"one of {', '.join(MECHANISMS)}, got 'none-such'"):
        make_mechanism(Rules(mu=0.0, mechanism="none-such"))
    with pytest.raises(InputError, match=rf"Unknown rules version '99'.* knows {', '.join(VERSIONS)}\."):
        mechanism_of_version("99", Rules(mu=0.0))


def test_names_and_versions_are_distinguished():
    assert {one.name for one in VERSIONS.values()} == set(MECHANISMS)
    assert all(VERSIONS[one.version] is one for one in MECHANISMS.values())
