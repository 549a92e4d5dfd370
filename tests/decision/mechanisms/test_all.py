"""What holds for every mechanism: rounds are decided again alike, money sums to zero, bad parameters are refused."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commonweal.decision.mechanism import PRIVATE, RoundDecider, decide_round, view_of
from commonweal.decision.mechanisms import MECHANISMS
from commonweal.errors import InputError
from commonweal.records import Figures
from tests.conftest import EXAMPLE_COUNTS, PACE
from tests.decision.mechanisms.rounds import decided, mechanism, money_left, money_moved, rounds

NAMES = sorted(set(MECHANISMS) - {"paper", "fli"})
FEW = settings(max_examples=EXAMPLE_COUNTS[PACE] // 4)  # there are many mechanisms
ONE = Figures(
    profits={"a": 0.5, "b": -0.25},
    contributions={"a": 0.25, "b": 0.5},
    costs={"a": 0.5, "b": 0.5},
    further={
        "utility": {"a": 1.0, "b": 0.25},
        "metric": {"a": 0.5, "b": 0.75},
        "loss": {"a": 1.0, "b": 2.0},
        "similarity:a": {"a": 1.0, "b": 0.5},
        "similarity:b": {"a": 0.5, "b": 1.0},
    },
)
COUNTS = {"a": 100, "b": 50}


def made(name, **parameters):
    return mechanism(name, mu=0.3 if MECHANISMS[name].takes_mu else math.inf, seed=7, **parameters)


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(given_rounds=st.lists(rounds(), min_size=1, max_size=4))
def test_money_sums_to_zero_and_rounds_can_be_decided_again(name, given_rounds):
    results = decided(made(name), given_rounds)
    assert results == decided(made(name), given_rounds)
    decider = RoundDecider(made(name))
    for number, ((decision, instructions, state), (_, counts)) in enumerate(
        zip(results, given_rounds, strict=True), start=1
    ):
        size = money_moved(decision) + math.fsum(map(abs, decision.figures.profits.values()))
        assert abs(money_left(decision)) <= 1e-12 * size
        for client in decision.retained:
            after = decision.figures.profits[client] + decision.transfers[client]
            assert decision.payoffs[client] == pytest.approx(after, abs=1e-12)
        decider.advance(decision, sample_counts=counts, round_number=number)
        assert decider.state == state
        assert decider.plan(decision, decision.retained, sample_counts=counts, round_number=number) == instructions


@pytest.mark.parametrize("name", NAMES)
def test_outcomes_are_explained(name):
    one = made(name)
    view = view_of(one, ONE, sample_counts=COUNTS)
    decision, _ = decide_round(one, ONE, {}, sample_counts=COUNTS)
    for client in ONE.clients:
        fate = "is eliminated" if client in decision.eliminated else "stays"
        assert one.explain(view, {}, decision, client, None).startswith(f"{client} {fate}: ")


@pytest.mark.parametrize(
    ("name", "parameter"), [(name, parameter) for name in NAMES for parameter in MECHANISMS[name].parameters]
)
def test_parameters_outside_their_range_are_refused(name, parameter):
    known = MECHANISMS[name].parameters[parameter]
    for odd in (known.minimum - 1, known.maximum * 2 + 1):
        with pytest.raises(InputError, match=rf"^{parameter} must be between .*, got {odd!r}\. The default is "):
            decide_round(made(name, **{parameter: odd}), ONE, {}, sample_counts=COUNTS)


@pytest.mark.parametrize("name", NAMES)
def test_other_peoples_parameters_are_refused(name):
    with pytest.raises(InputError, match=rf"^Mechanism '{name}' has no parameter 'omega'\. Its parameters: "):
        decide_round(made(name, omega=1.0), ONE, {}, sample_counts=COUNTS)


@pytest.mark.parametrize("name", [name for name in NAMES if "sample_count" in MECHANISMS[name].reads])
def test_missing_sample_counts_are_refused(name):
    with pytest.raises(InputError, match=rf"^Mechanism '{name}' needs the number of new samples .* none for 'b'\."):
        decide_round(made(name), ONE, {}, sample_counts={"a": 100})


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(one_round=rounds(least=2))
def test_what_a_mechanism_does_not_declare_does_not_change_its_decision(name, one_round):
    """Private figures that it does not read can be anything."""
    figures, counts = one_round
    kind = MECHANISMS[name]
    before, instructions, _ = decided(made(name), [one_round])[0]
    changed = Figures(
        profits=figures.profits if "profit" in kind.reads else dict.fromkeys(figures.clients, 0.125),
        contributions=figures.contributions if "contribution" in kind.reads else dict.fromkeys(figures.clients, 0.5),
        costs=figures.costs if "cost" in kind.reads else dict.fromkeys(figures.clients, 0.25),
        further={
            key: column if key.partition(":")[0] in kind.reads else dict.fromkeys(column, 0.75)
            for key, column in figures.further.items()
        },
    )
    after, other_instructions, _ = decided(made(name), [(changed, counts)])[0]
    assert after.retained == before.retained
    assert after.transfers == before.transfers
    assert other_instructions == instructions


def test_which_mechanisms_read_private_figures():
    """ISI of the paper's table, as it is."""
    reading = {name: sorted(kind.reads & PRIVATE) for name, kind in MECHANISMS.items()}
    assert reading == {
        "paper": ["profit"],
        "equal": ["profit"],
        "quantity": ["profit"],
        "tang-wong": ["cost", "utility"],
        "zhang": ["cost", "utility"],
        "kang-contract": [],
        "kang-reputation": [],
        "zhan": ["cost"],
        "fli": ["cost", "profit"],
        "fmore": ["cost"],
        "active-fl": [],
        "power-of-choice": [],
        "cgsv": [],
        "clarke": ["profit"],
        "clarke-ir": ["profit"],
    }


DOCS = Path(__file__).parents[3] / "docs"


def test_the_reference_lists_all_parameters():
    rows = re.findall(
        r"^\| `([\w-]+)` \| `(\w+)` \| number from (\S+) to (\S+) \| `(\S+)` \| \w",
        (DOCS / "reference" / "scenario.md")
        .read_text(encoding="utf-8")
        .partition("## Mechanism kinds")[2]
        .partition("\n## ")[0],
        re.MULTILINE,
    )
    written = {(kind, key): (float(low), float(high), float(usual)) for kind, key, low, high, usual in rows}
    assert written == {
        (name, key): (known.minimum, known.maximum, known.default)
        for name, kind in MECHANISMS.items()
        for key, known in kind.parameters.items()
    }


def test_the_page_of_all_mechanisms_is_true():
    page = (DOCS / "concepts" / "mechanisms.md").read_text(encoding="utf-8")
    cells = {
        row.split("`")[1]: [cell.strip() for cell in row.split("|")[1:-1]]
        for row in re.findall(r"^\| `.*$", page, re.MULTILINE)
        if row.count("|") == 8 and not row.startswith("| `kind`")
    }
    assert list(cells) == list(MECHANISMS)
    words = {"sample count": "sample_count", "cosines of updates": "similarity"}
    for name, kind in MECHANISMS.items():
        _, _, _, reads, outside, decides, source = cells[name]
        assert {words.get(word, word) for word in reads.split(", ")} == kind.reads - {"seed"}
        assert (outside != "no") == kind.takes_external_money
        assert {
            word for word in ("participants", "data", "iterations", "model quality") if word in decides
        } == kind.decides
        assert source.endswith(f"({kind.fidelity})")
