"""Decisions of single rounds: settled points, promises, refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import commonweal as cw
from commonweal.decision.promises import disproportion, imbalance, infeasible, shares_outside

amount = st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-6)
weight = st.floats(0, 1e6).filter(lambda x: x == 0 or x > 1e-6)
leniency = st.one_of(st.just(0.0), st.just(math.inf), st.floats(1e-6, 1e6))


@st.composite
def rounds(draw, contribution=weight, max_size=8):
    names = [f"c{i}" for i in range(draw(st.integers(1, max_size)))]
    return {
        "profits": {n: draw(amount) for n in names},
        "contributions": {n: draw(contribution) for n in names},
        "costs": {n: draw(weight) for n in names},
        "mu": draw(leniency),
    }


@given(rounds(), st.sampled_from(["contribution", "equal", "cost", "loss"]), st.one_of(st.none(), st.floats(0, 1e6)))
def test_money_sums_to_zero_and_nobody_is_lost(round_, loss_rule, cap):
    decision = cw.decide(**round_, loss_rule=loss_rule, liability_cap=cap)
    assert abs(imbalance(decision)) <= decision.rounding
    assert infeasible(decision) == ()
    assert math.fsum(decision.payoffs.values()) == pytest.approx(decision.budget, abs=decision.rounding)
    assert set(decision.transfers) == set(decision.retained)
    if cap is not None:
        assert min(decision.transfers.values(), default=0.0) >= -cap - decision.rounding


@given(rounds())
def test_payoffs_follow_contribution(round_):
    decision = cw.decide(**round_)
    assert disproportion(decision) <= decision.rounding
    assert all(0 <= share <= 1 for share in decision.shares.values())
    assert shares_outside(decision) == {}
    if decision.retained:
        assert math.fsum(decision.shares.values()) == pytest.approx(1)


@given(rounds(contribution=amount, max_size=6))
def test_clipping_is_the_same_as_giving_no_negative_contribution(round_):
    clipped = {client: max(q, 0.0) for client, q in round_["contributions"].items()}
    as_given = cw.decide(**round_)
    assert as_given.retained == cw.decide(**{**round_, "contributions": clipped}).retained
    assert as_given.used_contributions == clipped
    assert as_given.figures.contributions == round_["contributions"]


@given(rounds(), st.floats(0, 1e6))
def test_a_cap_takes_from_the_receivers_in_proportion(round_, cap):
    free, capped = cw.decide(**round_), cw.decide(**round_, liability_cap=cap)
    assert free.retained == capped.retained
    receivers = [client for client, transfer in free.transfers.items() if transfer > 1e-6]
    kept = {client: capped.transfers[client] / free.transfers[client] for client in receivers}
    assert all(-1e-9 <= part <= 1 + 1e-9 for part in kept.values())
    if kept:
        assert max(kept.values()) == pytest.approx(min(kept.values()), abs=1e-6)


def test_loss_rules_divide_a_negative_budget():
    figures = {
        "profits": {"a": 0.1, "b": -0.5},
        "contributions": {"a": 3.0, "b": 1.0},
        "costs": {"a": 1.0, "b": 4.0},
        "mu": math.inf,
    }
    assert cw.decide(**figures).payoffs == pytest.approx({"a": -0.3, "b": -0.1})
    assert cw.decide(**figures, loss_rule="equal").payoffs == pytest.approx({"a": -0.2, "b": -0.2})
    assert cw.decide(**figures, loss_rule="cost").payoffs == pytest.approx({"a": -0.08, "b": -0.32})
    assert cw.decide(**figures).irrational == pytest.approx({"a": 0.3, "b": 0.1})
    assert cw.decide(**figures, loss_rule="loss").payoffs == pytest.approx({"a": 0.0, "b": -0.4})
    no_costs = {**figures, "costs": {"a": 0.0, "b": 0.0}}
    assert cw.decide(**no_costs, loss_rule="cost").payoffs == pytest.approx({"a": -0.2, "b": -0.2})


@given(rounds())
def test_by_the_rule_loss_nobody_who_earned_bears_a_loss(round_):
    """Against exact arithmetic: payoff = B · loss / Σ losses, so 0 for those who earned, to the last bit."""
    decision = cw.decide(**{**round_, "mu": math.inf}, loss_rule="loss")
    profits = {client: Fraction(profit) for client, profit in decision.figures.profits.items()}
    if decision.budget >= 0:
        assert decision.payoffs == cw.decide(**{**round_, "mu": math.inf}).payoffs
        return
    losses = {client: max(-profit, Fraction()) for client, profit in profits.items()}
    for client, payoff in decision.payoffs.items():
        exact = sum(profits.values()) * losses[client] / sum(losses.values())
        assert payoff == pytest.approx(float(exact), abs=decision.rounding)
        assert profits[client] < 0 or payoff == 0
        # Who lost is never worse off than on its own.
        assert payoff >= profits[client] - Fraction(decision.rounding) or profits[client] > 0
    assert decision.irrational.keys() <= {client for client, profit in profits.items() if profit < 0}


@given(rounds(), st.floats(1e-15, 1e-9).flatmap(lambda size: st.sampled_from([size, -size])))
def test_no_loss_rule_makes_payoffs_jump_where_the_budget_passes_zero(round_, shift):
    """All payoffs tend to zero with the budget, from both sides."""
    mean = math.fsum(round_["profits"].values()) / len(round_["profits"])
    profits = {client: profit - mean + shift for client, profit in round_["profits"].items()}
    for loss_rule in ("contribution", "equal", "cost", "loss"):
        decision = cw.decide(**{**round_, "profits": profits, "mu": math.inf}, loss_rule=loss_rule)
        assert all(abs(payoff) <= abs(decision.budget) + decision.rounding for payoff in decision.payoffs.values())


@pytest.mark.parametrize("loss_rule", ["contribution", "equal", "cost", "loss"])
def test_loss_rules_do_not_touch_a_gain(loss_rule):
    decision = cw.decide(
        profits={"a": 0.1, "b": 0.5}, contributions={"a": 3.0, "b": 1.0}, costs={"a": 1.0, "b": 4.0}, mu=1.0,
        loss_rule=loss_rule,
    )  # fmt: skip
    assert decision.payoffs == pytest.approx({"a": 0.45, "b": 0.15})


def test_all_contributions_zero_gives_equal_shares():
    decision = cw.decide(profits={"a": 0.3, "b": 0.1}, contributions={"a": 0.0, "b": -1.0}, mu=1.0)
    assert decision.shares == {"a": 0.5, "b": 0.5}
    assert decision.payoffs == pytest.approx({"a": 0.2, "b": 0.2})


def test_at_mu_zero_the_federation_may_dissolve_and_above_it_never_loses_all_contribution():
    figures = {"profits": {"a": -1.0, "b": -2.0}, "contributions": {"a": 1.0, "b": 1.0}}
    gone = cw.decide(**figures, mu=0.0)
    assert gone.retained == ()
    assert gone.objective == 0
    assert gone.budget == 0
    assert cw.decide(**figures, mu=1e-40).retained == ("a",)
    without = {"profits": {"a": -1.0, "b": -2.0}, "contributions": {"a": 0.0, "b": 0.0}}
    assert cw.decide(**without, mu=1e40).retained == ()
    assert cw.decide(**without, mu=math.inf).retained == ("a", "b")


def test_ties_keep_more_clients_then_the_earlier_ones():
    # With μ = 2, eliminating one of the two equal clients gains 1 and costs 2·1/2: a tie with keeping both.
    figures = {"profits": {"x": 1.0, "a": -1.0, "b": -1.0}, "contributions": {"x": 1.0, "a": 1.0, "b": 1.0}}
    assert cw.decide(**figures, mu=2.0).retained == ("x", "a", "b")
    # Slightly below, the later one goes. The order is that of the mapping, not of the alphabet.
    assert cw.decide(**figures, mu=1.99).retained == ("x", "a")
    turned = {key: dict(reversed(values.items())) for key, values in figures.items()}
    assert cw.decide(**turned, mu=1.99).retained == ("b", "x")


def test_grace_keeps_everybody_and_still_transfers():
    decision = cw.decide(profits={"a": -1.0, "b": 3.0}, contributions={"a": 1.0, "b": 1.0}, mu=0.0, grace=True)
    assert decision.retained == ("a", "b")
    assert decision.grace
    assert decision.transfers == pytest.approx({"a": 2.0, "b": -2.0})


def test_raw_shares_outside_zero_to_one_are_reported():
    decision = cw.decide(
        profits={"a": 1.0, "b": 1.0}, contributions={"a": 2.0, "b": -1.0}, mu=1.0, contribution_rule="raw"
    )
    assert decision.shares == {"a": 2.0, "b": -1.0}
    assert shares_outside(decision) == {"a": 2.0, "b": -1.0}
    assert abs(imbalance(decision)) <= decision.rounding


def test_raw_without_any_net_contribution_gives_equal_shares():
    decision = cw.decide(
        profits={"a": 1.0, "b": 1.0}, contributions={"a": 1.0, "b": -1.0}, mu=1.0, contribution_rule="raw"
    )
    assert decision.shares == {"a": 0.5, "b": 0.5}


def test_one_client_is_allowed():
    assert cw.decide(profits={"a": 1.0}, contributions={"a": 1.0}, mu=1.0).retained == ("a",)
    assert cw.decide(profits={"a": -1.0}, contributions={"a": 1.0}, mu=1.0).retained == ("a",)
    assert cw.decide(profits={"a": -1.0}, contributions={"a": 1.0}, mu=0.0).retained == ()


def test_the_inputs_are_not_changed():
    profits, contributions = np.array([-1.0, 1.0]), np.array([-2.0, 1.0])
    cw.select(profits, contributions, mu=1.0)
    assert profits.tolist() == [-1.0, 1.0]
    assert contributions.tolist() == [-2.0, 1.0]


GOOD = {"profits": {"ann": 1.0}, "contributions": {"ann": 1.0}, "mu": 1.0}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"mu": -1.0}, r"mu must be a number >= 0 or infinity, got -1.0"),
        ({"mu": math.nan}, r"mu must be a number >= 0 or infinity, got nan"),
        ({"mu": "much"}, r"mu must be a number .* got 'much'"),
        ({"mu": True}, r"mu must be a number .* got True"),
        ({"mu": 1e-60}, r"mu must be 0, inf or between 1e-50 and 1e\+50"),
        ({"profits": {}, "contributions": {}}, r"at least one client"),
        ({"profits": {"ann": math.nan}}, r"profit must be a finite number.* got nan for client 'ann'"),
        ({"profits": {"ann": math.inf}}, r"profit must be a finite number.* got inf for client 'ann'"),
        ({"profits": {"ann": 1e60}}, r"profit must be a finite number.* got 1e\+60 for client 'ann'"),
        ({"profits": {"ann": "rich"}}, r"profit must be a number, got 'rich' for client 'ann'"),
        ({"contributions": {"bob": 1.0}}, r"profits and contributions must name the same clients"),
        ({"costs": {"ann": -1.0}}, r"cost must be >= 0, got -1.0 for client 'ann'"),
        ({"loss_rule": "cost"}, r"loss rule 'cost' divides a loss in proportion to cost, got no costs"),
        ({"loss_rule": "luck"}, r"loss_rule must be one of contribution, equal, cost, loss, got 'luck'"),
        ({"contribution_rule": "best"}, r"contribution_rule must be one of clip, raw, got 'best'"),
        ({"liability_cap": -1.0}, r"liability_cap must be a finite number >= 0, got -1.0"),
        ({"liability_cap": math.nan}, r"liability_cap must be a finite number >= 0, got nan"),
    ],
)
def test_bad_input_is_refused_with_rule_and_evidence(change, sentence):
    with pytest.raises(cw.InputError, match=sentence):
        cw.decide(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("profits", "contributions", "sentence"),
    [
        ([1.0, 2.0], [1.0], "must have the same length, got 2 and 1"),
        ([[1.0]], [1.0], "one-dimensional"),
        ([math.nan], [1.0], "profits must be a finite number.* for position 0"),
        (["x"], [1.0], "profits must be numbers"),
    ],
)
def test_bad_arrays_are_refused(profits, contributions, sentence):
    with pytest.raises(cw.InputError, match=sentence):
        cw.select(profits, contributions, mu=1.0)


def test_raw_accepts_at_most_twenty_candidates():
    profits = {f"c{i}": -1.0 for i in range(21)}
    contributions = {f"c{i}": 1.0 + i for i in range(21)}
    with pytest.raises(cw.InputError, match="at most 20 loss-making clients, got 21; use the contribution rule 'clip'"):
        cw.decide(profits=profits, contributions=contributions, mu=1.0, contribution_rule="raw")
    twenty = {"profits": dict(list(profits.items())[:20]), "contributions": dict(list(contributions.items())[:20])}
    raw = cw.decide(**twenty, mu=30.0, contribution_rule="raw")
    assert raw.retained == cw.decide(**twenty, mu=30.0).retained
