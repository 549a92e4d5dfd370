"""What a mechanism may read and return: anything else is refused where the round is decided, in one sentence."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.decide import decide_figures
from commonweal.decision.mechanism import Mechanism, RoundDecider, decide_round
from commonweal.decision.problem import Choice
from commonweal.decision.transfers import Division
from commonweal.errors import InputError
from commonweal.records import Figures, Rules

FIGURES = Figures(
    profits={"ann": 0.3, "bob": -0.1, "cyd": 0.2},
    contributions={"ann": 0.5, "bob": 0.25, "cyd": 0.25},
    costs={"ann": 0.1, "bob": 0.2, "cyd": 0.3},
)
RULES = Rules(mu=math.inf, mechanism="trial")
MASK = np.array([True, False, True])
EVEN = Division(
    budget=0.5,
    shares=np.array([0.5, 0.5]),
    payoffs=np.array([0.25, 0.25]),
    transfers=np.array([-0.05, 0.05]),
)


def trial(*, selected=None, divided=EVEN, state=None, views=None, **declared):
    """A mechanism whose methods return these values, and which notes what it may read in `views`."""

    class Trial(Mechanism):
        name = "trial"
        version = "trial/1"
        label = "a trial"

        def select(self, view, state):
            if views is not None:
                views.append(view)
            return Choice(retained=MASK) if selected is None else selected

        def divide(self, view, state, retained):
            return divided

        def advance(self, view, before, decision):
            return before if state is None else state

    return type("Trial", (Trial,), declared)(RULES)


def test_values_that_are_right_are_taken_over():
    decision, state = decide_round(trial(state={"streaks": {"bob": 1}, "seen": [1, None, True]}), FIGURES, {})
    assert decision.retained == ("ann", "cyd")
    assert decision.transfers == {"ann": -0.05, "cyd": 0.05}
    assert state == {"streaks": {"bob": 1}, "seen": [1, None, True]}


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ({"transfers": np.array([-0.05, 0.08])}, "transfers that sum to 0.03; they must sum to zero."),
        ({"transfers": np.array([-0.05, 0.05 + 1e-9])}, "transfers that sum to 1e-09; they must sum to zero."),
        ({"transfers": np.array([math.nan, 0.05])}, "nan in transfers; amounts must be finite numbers."),
        ({"transfers": np.array([-math.inf, math.inf])}, "-inf in transfers; amounts must be finite numbers."),
        ({"payoffs": np.array([0.25, math.inf])}, "inf in payoffs; amounts must be finite numbers."),
        ({"shares": np.array([0.5, math.nan])}, "nan in shares; amounts must be finite numbers."),
        ({"budget": math.nan}, "nan in the budget; amounts must be finite numbers."),
        ({"budget": None}, "nan in the budget; amounts must be finite numbers."),
        (
            {"transfers": np.zeros(3)},
            "an array of float64 of shape (3,) as transfers. Return one number for each of the 2 retained clients",
        ),
        ({"shares": np.zeros((2, 2))}, "shape (2, 2) as shares. Return one number for each of the 2 retained clients"),
        ({"payoffs": ["much", "little"]}, "['much', 'little'] as payoffs; only numbers are allowed."),
    ],
)
def test_divisions_that_cannot_be_settled_are_refused(returned, sentence):
    with pytest.raises(InputError) as refused:
        decide_round(trial(divided=replace(EVEN, **returned)), FIGURES, {})
    assert str(refused.value).startswith("Mechanism 'trial' returned ")
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("selected", "sentence"),
    [
        (["ann"], "a value of type list from select. Return Choice(retained=mask)"),
        (MASK, "an array of bool of shape (3,) from select. Return Choice(retained=mask)"),
        (Choice(retained=np.array([True] * 4)), "an array of bool of shape (4,) as retained. Return an array of True"),
        (Choice(retained=np.array([0, 2])), "an array of int64 of shape (2,) as retained"),
        (Choice(retained=np.array(["ann", "zoe"])), "one for each of the 3 clients in the round."),
        (Choice(retained=[True, True, True]), "a value of type list as retained"),
    ],
)
def test_selections_of_others_than_the_clients_of_the_round_are_refused(selected, sentence):
    with pytest.raises(InputError) as refused:
        decide_round(trial(selected=selected), FIGURES, {})
    assert str(refused.value).startswith("Mechanism 'trial' returned ")
    assert sentence in str(refused.value)


def test_another_type_than_a_division_is_refused():
    with pytest.raises(InputError, match=r"'trial' returned a value of type dict from divide\. Return a Division\."):
        decide_round(trial(divided={"ann": 0.0}), FIGURES, {})


CIRCLE: dict = {}
CIRCLE["self"] = CIRCLE


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ([1, 2], "a value of type list from advance. Return a dict in the types of JSON."),
        ({"weights": np.zeros(2)}, "JSON cannot hold: Object of type ndarray"),
        ({"count": np.int64(1)}, "JSON cannot hold: Object of type int64"),
        ({"seen": {"ann"}}, "JSON cannot hold: Object of type set"),
        ({"mean": math.nan}, "JSON cannot hold: Out of range float"),
        ({("ann", 1): 0}, "JSON cannot hold: keys must be str"),
        (CIRCLE, "JSON cannot hold: Circular reference"),
    ],
)
def test_states_that_are_not_json_are_refused(state, sentence):
    for decide in (
        lambda: decide_round(trial(state=state), FIGURES, {}),
        lambda: RoundDecider(trial(state=state)).advance(decide_round(trial(), FIGURES, {})[0]),
    ):
        with pytest.raises(InputError) as refused:
            decide()
        assert str(refused.value).startswith("Mechanism 'trial' returned ")
        assert sentence in str(refused.value)


def test_in_a_grace_round_nobody_is_eliminated_whatever_select_would_return():
    thirds = Division(budget=0.4, shares=np.full(3, 1 / 3), payoffs=np.zeros(3), transfers=np.zeros(3))
    decision, _ = decide_round(trial(divided=thirds), FIGURES, {}, grace=True)
    assert decision.retained == ("ann", "bob", "cyd")
    assert decision.eliminated == ()


def test_only_a_mechanism_that_declares_costs_can_read_them():
    """A ledger records them only then: what is read undeclared could not be verified."""
    for needs_costs, costs in ((False, None), (True, [0.1, 0.2, 0.3])):
        views = []
        decide_round(trial(needs_costs=needs_costs, views=views), FIGURES, {})
        (view,) = views
        assert (view.costs if view.costs is None else view.costs.tolist()) == costs


sizes = st.floats(-1e6, 1e6).map(lambda x: round(x, 9))


@given(
    st.lists(st.tuples(sizes, sizes), min_size=2, max_size=9),
    st.sampled_from(["clip", "raw"]),
    st.sampled_from(["contribution", "equal", "loss"]),
    st.none() | st.floats(0.0, 10.0),
)
def test_the_rounding_of_the_papers_mechanism_is_never_refused(rows, contribution_rule, loss_rule, cap):
    """Even where raw contributions nearly cancel, so that shares and transfers are huge."""
    figures = Figures(
        profits={str(i): profit for i, (profit, _) in enumerate(rows)},
        contributions={str(i): contribution for i, (_, contribution) in enumerate(rows)},
    )
    rules = Rules(mu=math.inf, contribution_rule=contribution_rule, loss_rule=loss_rule, liability_cap=cap)
    decide_figures(figures, rules)
