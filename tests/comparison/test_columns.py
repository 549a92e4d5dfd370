"""The columns, computed again by brute force on rounds made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from commonweal.comparison.columns import columns_of, correlation, deviation, is_heterogeneous
from commonweal.comparison.contenders import Contender
from commonweal.comparison.following import Followed
from commonweal.comparison.histories import TrainedRound
from commonweal.federation.round_result import ClientMeasurement, MeasuredRound
from commonweal.records import Decision, Estimate, Figures, RoundRecord, Rules
from commonweal.records.comparison import COLUMNS
from tests.comparison.small import three

RULES = Rules(mu=0.0)


def made_round(number, profits, contributions, transfers, *, gone=(), charges=(), external=0.0, true=None, **further):
    """A round by hand: who is in `transfers` stays, who is in `gone` goes."""
    figures = Figures(profits=profits, contributions=contributions)
    nothing = np.empty((0, 0))
    actual = further.get("actual", {})
    measured = MeasuredRound(
        round_number=number,
        figures=figures,
        absent=(),
        measured={
            client: ClientMeasurement(
                sample_count=10,
                training_count=7,
                validation_count=3,
                step_count=1,
                accuracy=Estimate(value=0.5, standard_error=0.1),
                previous_accuracy=0.4,
                utility=None,
                cost=0.0,
                profit_error=None,
                contribution_error=0.0,
                actual_profit=Estimate(value=actual[client], standard_error=0.1) if client in actual else None,
            )
            for client in profits
        },
        iteration_accuracies=({},) * (further.get("iterations", 2) + 1),
        coalition_values=(),
        events=(),
        signatures={},
        withdrawals={},
        profit_draws=nothing,
        contribution_draws=nothing,
    )
    decision = Decision(
        figures=figures,
        rules=RULES,
        used_contributions=contributions,
        retained=tuple(transfers),
        eliminated=tuple(gone),
        objective=0.0,
        budget=sum(profits[client] for client in transfers),
        shares=dict.fromkeys(transfers, 1 / len(transfers)),
        payoffs={client: profits[client] + amount for client, amount in transfers.items()},
        transfers=transfers,
        external=external,
        charges=dict(charges),
    )
    record = RoundRecord(round_number=number, decision=decision, resting=tuple(further.get("resting", ())))
    return TrainedRound(measured=measured, true_profits=true), record


FIRST = made_round(
    1,
    {"north": 0.5, "south": -0.25, "west": 0.25},
    {"north": 0.3, "south": -0.1, "west": 0.1},
    {"north": -0.25, "west": 0.125},
    gone=["south"],
    charges={"south": -0.125},
    external=0.25,
    true={"north": 0.4, "south": -0.5, "west": 0.1},
    iterations=5,
)
SECOND = made_round(
    2,
    {"north": 0.25},
    {"north": 0.2},
    {"north": -0.5},
    external=0.5,
    true={"north": 0.125},
    resting=["west"],
)
THIRD = made_round(
    3,
    {"north": -0.25, "west": 0.5},
    {"north": 0.2, "west": 0.4},
    {"north": 0.25, "west": 0.125},
    external=-0.375,
    true={"north": -0.125, "west": 0.25},
    actual={"west": 0.25},
    iterations=1,
)


def followed(*rounds):
    return Followed(contender=Contender(name="paper", rules=RULES), rounds=rounds)


def test_all_columns_by_hand():
    found = columns_of(followed(FIRST, SECOND, THIRD), three())
    assert set(found) == {column.name for column in COLUMNS}
    # Payoffs: north 0.25, −0.25, 0; south −0.375 (its loss and its charge); west 0.375, 0.375 (it made 0.25).
    payoffs = {"north": 0.0, "south": -0.375, "west": 0.75}
    contributions = {"north": 0.7, "south": 0.0, "west": 0.5}
    expected = np.corrcoef(list(payoffs.values()), list(contributions.values()))[0, 1]
    assert found["fairness"] == pytest.approx(expected)
    shares = {"north": 0.0, "south": -0.375 / 1.125, "west": 0.75 / 1.125}
    by_contribution = {client: value / 1.2 for client, value in contributions.items()}
    assert found["deviation"] == pytest.approx(max(abs(shares[c] - by_contribution[c]) for c in shares))
    # In a round, of those retained: round 1 has 0.25 and 0.375 for 0.3 and 0.1; a round of one says nothing about
    # correlation; round 3 has 0 and 0.375 for 0.2 and 0.4.
    assert found["round_fairness"] == pytest.approx((-1 + 1) / 2)
    assert found["round_deviation"] == pytest.approx((abs(0.4 - 0.75) + 2.0 + abs(0 - 1 / 3)) / 3)
    assert found["rational_rounds"] == pytest.approx(4 / 6)
    assert found["rational_clients"] == pytest.approx(2 / 3)
    # North: 0.4 − 0.25 + 0.125 − 0.5 − 0.125 + 0.25 = −0.1; south −0.625; west 0.225 + 0.375.
    assert found["truly_rational_clients"] == pytest.approx(1 / 3)
    assert found["selection"] == pytest.approx(2 / 3)
    assert found["balanced_rounds"] == 0
    assert found["funded_rounds"] == pytest.approx(2 / 3)
    assert found["external"] == pytest.approx(0.375)
    assert found["welfare"] == pytest.approx(0.4 - 0.5 + 0.1 + 0.125 - 0.125 + 0.25)
    assert found["stayed_welfare"] == pytest.approx(found["welfare"] + 0.5)
    assert found["tsw"] == pytest.approx(0.75 + 0.25 + 0.0)
    assert found["duration"] == pytest.approx((3 + 1 + 2) / 3)
    assert found["rounds"] == 3
    # Paid: 0.25 + 0.125, 0.5, 0; received: 0.125, 0, 0.375.
    assert found["money_moved"] == pytest.approx(0.375 + 0.5 + 0.375)
    assert found["models_sent"] == 2 * (3 * 5 + 1 * 2 + 2 * 1)
    assert found["heterogeneity"] == 0


def test_heterogeneity_needs_rationality_fairness_and_welfare():
    good = made_round(1, {"north": 0.5, "west": 0.25}, {"north": 0.3, "west": 0.1}, {"north": 0.0, "west": 0.0})
    unfair = made_round(1, {"north": 0.5, "west": 0.25}, {"north": 0.1, "west": 0.3}, {"north": 0.0, "west": 0.0})
    losing = made_round(1, {"north": 0.5, "west": -0.25}, {"north": 0.3, "west": 0.1}, {"north": 0.0, "west": 0.0})
    poor = made_round(
        1, {"north": 0.5, "west": 0.25}, {"north": 0.3, "west": 0.1}, {"north": 0.0, "west": 0.0},
        true={"north": 0.1, "west": -0.2},
    )  # fmt: skip
    for rounds, expected in ((good, 1), (unfair, 0), (losing, 0), (poor, 0)):
        assert columns_of(followed(rounds), three())["heterogeneity"] == expected
        assert columns_of(followed(rounds), three(last_source="mnist-5k"))["heterogeneity"] is None


def test_without_truth_welfare_is_measured():
    found = columns_of(
        followed(made_round(1, {"a": 0.5, "b": -0.1}, {"a": 1.0, "b": 1.0}, {"a": 0.0}, gone="b")), three()
    )
    assert found["welfare"] == pytest.approx(0.4)
    assert found["stayed_welfare"] == found["tsw"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("payoff", "contribution", "expected"),
    [
        ([0.0, 0.0], [1.0, 2.0], None),
        ([1.0, 2.0], [0.0, 0.0], None),
        ([1.0, 3.0], [1.0, 3.0], 0.0),
        ([-1.0], [2.0], 2.0),
    ],
)
def test_deviation_of_shares(payoff, contribution, expected):
    assert deviation(np.array(payoff), np.array(contribution)) == expected


def test_equal_payoffs_correlate_with_nothing():
    assert correlation(np.array([0.1, 0.1 + 1e-17, 0.1]), np.array([1.0, 2.0, 3.0])) is None
    assert correlation(np.array([0.1]), np.array([1.0])) is None
    assert math.isclose(correlation(np.array([0.1, 0.2]), np.array([5.0, 1.0])), -1)


def test_what_is_heterogeneous():
    assert is_heterogeneous(three())
    assert not is_heterogeneous(three(last_source="mnist-5k"))
