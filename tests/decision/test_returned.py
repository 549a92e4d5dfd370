"""What a mechanism may read and return: anything else is refused where the round is decided, in one sentence."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.decide import decide_figures
from commonweal.decision.mechanism import READABLE, Mechanism, RoundDecider, decide_round
from commonweal.decision.problem import Choice
from commonweal.decision.returned import DECISIONS
from commonweal.decision.transfers import Division
from commonweal.errors import InputError
from commonweal.records import Figures, Instructions, Rules

FIGURES = Figures(
    profits={"ann": 0.3, "bob": -0.1, "cyd": 0.2},
    contributions={"ann": 0.5, "bob": 0.25, "cyd": 0.25},
    costs={"ann": 0.1, "bob": 0.2, "cyd": 0.3},
)
RICH = replace(
    FIGURES,
    further={
        "utility": {"ann": 0.4, "bob": 0.1, "cyd": 0.5},
        "metric": {"ann": 0.9, "cyd": 0.8},
        "loss": {"ann": 0.1, "bob": 0.2, "cyd": 0.3},
        "similarity:ann": {"ann": 1.0, "bob": 0.5, "cyd": 0.2},
        "similarity:bob": {"ann": 0.5, "bob": 1.0, "cyd": 0.3},
        "similarity:cyd": {"ann": 0.2, "bob": 0.3, "cyd": 1.0},
    },
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
        (
            {"payoffs": np.array([0.25, 0.75])},
            "a payoff of 0.75 for a profit of 0.2 and a transfer of 0.05; a payoff must be the profit plus",
        ),
        (
            {"transfers": np.array([-0.05, 0.08]), "shares": np.array([1e15, 1e15])},
            "transfers that sum to 0.03; they must sum to zero.",
        ),
        ({"transfers": np.array([-1e308, 1e308])}, "an amount above 1e+300 in transfers."),
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
        (Choice(retained=MASK, proven_gap=math.nan), "nan as proven_gap. Leave it out, or return at least 0."),
        (Choice(retained=MASK, proven_gap="none"), "'none' as proven_gap. Leave it out, or return at least 0."),
    ],
)
def test_selections_of_others_than_the_clients_of_the_round_are_refused(selected, sentence):
    with pytest.raises(InputError) as refused:
        decide_round(trial(selected=selected), FIGURES, {})
    assert str(refused.value).startswith("Mechanism 'trial' returned ")
    assert sentence in str(refused.value)


@pytest.mark.parametrize("objective", [math.nan, "large", None, True])
def test_an_objective_that_is_no_number_is_refused(objective):
    with pytest.raises(InputError, match=re.escape(f"'trial' returned {objective!r} from objective. Return a number.")):
        decide_round(trial(objective=lambda self, view, retained: objective), FIGURES, {})


def test_what_a_round_is_settled_by_cannot_be_changed():
    views = []
    decide_round(trial(views=views, reads=frozenset(READABLE)), RICH, {}, sample_counts={"ann": 1, "bob": 2, "cyd": 3})
    (view,) = views
    for name in ("profits", "contributions", "measured", "costs", "utilities", "metrics", "losses", "similarities"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(view, name)[:] = 0.0
    given = []

    def divide(self, view, state, retained):
        given.append(retained)
        return EVEN

    decide_round(trial(divide=divide), FIGURES, {})
    with pytest.raises(ValueError, match="read-only"):
        given[0][:] = True


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
    thirds = Division(budget=0.4, shares=np.full(3, 1 / 3), payoffs=np.array([0.3, -0.1, 0.2]), transfers=np.zeros(3))
    decision, _ = decide_round(trial(divided=thirds), FIGURES, {}, grace=True)
    assert decision.retained == ("ann", "bob", "cyd")
    assert decision.eliminated == ()


EVERYTHING = frozenset(READABLE)
NOTHING = {
    "costs": None,
    "utilities": None,
    "sample_counts": {},
    "metrics": None,
    "losses": None,
    "similarities": None,
    "seed": None,
}


def test_only_what_a_mechanism_declares_is_there_to_read():
    """A ledger records it only then: what is read undeclared could not be verified."""
    counts = {"ann": 30, "bob": 20, "cyd": 10}
    for reads, expected in (
        (Mechanism.reads, NOTHING),
        (
            EVERYTHING,
            {
                "costs": [0.1, 0.2, 0.3],
                "utilities": [0.4, 0.1, 0.5],
                "sample_counts": counts,
                "metrics": [0.9, math.nan, 0.8],
                "losses": [0.1, 0.2, 0.3],
                "similarities": [[1.0, 0.5, 0.2], [0.5, 1.0, 0.3], [0.2, 0.3, 1.0]],
                "seed": 7,
            },
        ),
    ):
        views = []
        mechanism = trial(reads=reads, views=views)
        mechanism.rules = replace(RULES, seed=7)
        decide_round(mechanism, RICH, {}, sample_counts=counts, round_number=4)
        (view,) = views
        read = {name: getattr(view, name) for name in NOTHING}
        read = {name: one.tolist() if isinstance(one, np.ndarray) else one for name, one in read.items()}
        assert repr(read) == repr(expected)
        assert view.round_number == 4


@pytest.mark.parametrize(
    ("reads", "figures", "sentence"),
    [
        ("cost", replace(RICH, costs=None), "needs the cost of each client"),
        ("utility", FIGURES, "needs the utility of each client"),
        ("metric", FIGURES, "needs the metric of each client"),
        ("loss", FIGURES, "needs the loss of each client"),
        ("similarity", FIGURES, "needs the similarity:ann of each client"),
        ("utility", replace(FIGURES, further={"utility": {"ann": 1.0}}), "needs the utility of client 'bob'"),
        ("loss", replace(FIGURES, further={"loss": {"ann": math.nan}}), "loss must be a finite number"),
    ],
)
def test_figures_that_a_mechanism_reads_must_be_given(reads, figures, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        decide_round(trial(reads=frozenset({reads})), figures, {})


def test_further_figures_lose_those_of_clients_that_are_left_out():
    others = RICH.without(["bob"])
    assert others.further == {
        "utility": {"ann": 0.4, "cyd": 0.5},
        "metric": {"ann": 0.9, "cyd": 0.8},
        "loss": {"ann": 0.1, "cyd": 0.3},
        "similarity:ann": {"ann": 1.0, "cyd": 0.2},
        "similarity:cyd": {"ann": 0.2, "cyd": 1.0},
    }
    assert "further" not in FIGURES.to_document()
    assert Figures(**RICH.to_document()) == RICH


CHARGED = replace(
    EVEN, payoffs=np.array([0.25, 0.21]), transfers=np.array([-0.05, 0.01]), charges=np.array([-0.02]), external=0.06
)


def test_money_with_the_outside_and_charges_to_those_who_go():
    decision, _ = decide_round(trial(divided=CHARGED, takes_external_money=True), FIGURES, {})
    assert decision.external == 0.06
    assert decision.charges == {"bob": -0.02}
    assert decision.all_transfers == {"ann": -0.05, "cyd": 0.01, "bob": -0.02}
    nothing, _ = decide_round(trial(divided=replace(EVEN, charges=np.zeros(1))), FIGURES, {})
    assert (nothing.external, nothing.charges) == (0.0, {})


@pytest.mark.parametrize(
    ("returned", "declared", "sentence"),
    [
        ({}, False, "0.06 as external, but does not declare takes_external_money = True."),
        ({"transfers": EVEN.transfers, "external": 0.0, "charges": np.ones(1)}, False, "charges to eliminated clients"),
        ({"external": 0.07}, True, "transfers, charges and external that sum to 0.01; they must sum to zero."),
        ({"external": math.nan}, True, "nan in external; amounts must be finite numbers."),
        ({"charges": np.zeros(2)}, True, "shape (2,) as charges. Return one number for each of the 1 eliminated"),
    ],
)
def test_money_with_the_outside_that_cannot_be_settled_is_refused(returned, declared, sentence):
    with pytest.raises(InputError) as refused:
        decide_round(trial(divided=replace(CHARGED, **returned), takes_external_money=declared), FIGURES, {})
    assert str(refused.value).startswith("Mechanism 'trial' returned ")
    assert sentence in str(refused.value)


def planned(instructions, **declared):
    """What a mechanism plans for the round after `FIGURES`, if eve rests and bob was eliminated."""
    mechanism = type("Planner", (type(trial()),), {"plan": lambda *given: instructions, **declared})(RULES)
    decider = RoundDecider(mechanism)
    return decider.plan(decider.decide(FIGURES), ("ann", "cyd", "eve"))


def test_the_next_round_is_planned_with_all_active_clients():
    given = Instructions(
        participants=("eve", "ann"), data_shares={"cyd": 1, "ann": 0.5}, iteration_limit=2, model_shares={"eve": 0.3}
    )
    plan = planned(given, decides=frozenset(DECISIONS.values()))
    assert plan == replace(given, participants=("ann", "eve"))
    assert Instructions.from_document(plan.to_document()) == plan
    assert planned(None) == Instructions(), "it is not asked unless it declares that it decides something"
    assert Instructions().to_document() == {}


@pytest.mark.parametrize(
    ("instructions", "decides", "sentence"),
    [
        (["ann"], "participants", "a value of type list from plan. Return Instructions."),
        (Instructions(participants=("bob",)), "participants", "named 'bob' in participants, which is no active client"),
        (Instructions(participants=()), "participants", "returned nobody as participants."),
        (Instructions(participants="ann"), "participants", "a value of type str as participants."),
        (Instructions(participants=("ann",)), "data", 'does not declare that it decides "participants"'),
        (Instructions(data_shares={"ann": 1.5}), "data", "1.5 for client 'ann' in data_shares."),
        (Instructions(data_shares={"ann": math.nan}), "data", "nan for client 'ann' in data_shares."),
        (Instructions(data_shares={"zoe": 1.0}), "data", "named 'zoe' in data_shares"),
        (Instructions(iteration_limit=0), "iterations", "0 as iteration_limit. Return a whole number from 1, or None."),
        (Instructions(iteration_limit=2.5), "iterations", "2.5 as iteration_limit."),
        (Instructions(model_shares=[0.5]), "model quality", "a value of type list as model_shares."),
    ],
)
def test_instructions_that_cannot_be_followed_are_refused(instructions, decides, sentence):
    with pytest.raises(InputError, match=r"^Mechanism 'trial' (returned|named)") as refused:
        planned(instructions, decides=frozenset({decides}))
    assert sentence in str(refused.value)


def test_the_description_says_what_is_not_carried_out():
    mechanism = trial(decides=frozenset({"participants", "model quality"}), fidelity="partial")
    assert mechanism.describe() == "a trial (partial), model quality not carried out"
    assert trial().describe() == "a trial"


@pytest.mark.parametrize(
    ("declared", "refusal"),
    [
        ({}, ""),
        ({"reads": frozenset({"profit", "sample_count", "seed"}), "takes_external_money": True}, ""),
        ({"reads": frozenset({"profit", "cost"})}, "needs costs, which never leave the clients"),
        ({"reads": frozenset({"loss", "similarity"})}, "needs losses and similarities, which never leave the clients"),
        (
            {"decides": frozenset({"participants", "data"})},
            "also decides about data and participants, which only the simulator carries out",
        ),
    ],
)
def test_flower_refuses_what_members_on_other_machines_cannot_do(declared, refusal):
    assert trial(**declared).remote_refusal() == refusal


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
