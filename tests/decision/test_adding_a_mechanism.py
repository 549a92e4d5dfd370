"""A mechanism is one file and one line, as CONTRIBUTING says: run, resumed, settled, verified and reported."""

from __future__ import annotations

import json
import re

import pytest

from tests.extended_copy import ExtendedCopy

# Each client pays the same fee into a pot, which is divided in proportion to new samples; a client that has paid more
# than a limit may leave.
POT = '''
"""A pot: each client pays a fee, and the pot is divided by new samples. After `limit` rounds loss-makers leave."""

import math

import numpy as np

from commonweal.decision.mechanism import Mechanism, Parameter
from commonweal.decision.problem import Choice
from commonweal.decision.transfers import Division


class Pot(Mechanism):
    name = "pot"
    version = "pot/1"
    label = "a pot shared by new samples"
    reads = frozenset({"profit", "sample_count"})
    parameters = {
        "fee": Parameter(default=0.01, minimum=0.0, maximum=1.0, meaning="what each client pays per round"),
        "limit": Parameter(default=1.0, minimum=0.0, maximum=100.0, meaning="rounds before loss-makers leave"),
    }

    def select(self, view, state):
        stays = (view.profits >= 0) | (state.get("rounds", 0) < self.parameter("limit"))
        return Choice(retained=stays if stays.any() else np.ones(len(stays), np.bool_))

    def divide(self, view, state, retained):
        profits = view.profits[retained]
        counts = np.array([view.sample_counts[client] for client in view.clients], float)[retained]
        shares = counts / counts.sum()
        transfers = self.parameter("fee") * (shares * len(shares) - 1)
        return Division(
            budget=math.fsum(profits.tolist()), shares=shares, payoffs=profits + transfers, transfers=transfers
        )

    def advance(self, view, state, decision):
        return {"rounds": state.get("rounds", 0) + 1}

    def explain(self, view, state, decision, client, path):
        declared = view.sample_counts[client]
        return f"After {state.get('rounds', 0)} rounds, {client} is judged by {declared} samples."
'''
SCENARIO = """
name = "trial"
rounds = 3
[mechanism]
kind = "pot"
fee = 0.02
contribution = "quantity"
[learning]
iteration_limit = 1
[defaults]
source = "uci-digits"
samples_per_round = 30
[[clients]]
name = "a"
[[clients]]
name = "b"
samples_per_round = 60
[[clients]]
name = "c"
cost_per_sample = 0.05
"""
COMMAND = ("-c", "from commonweal.cli.main import main; main()")


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    copy = ExtendedCopy(tmp_path_factory.mktemp("copy"))
    copy.add_file("decision/mechanisms/pot.py", POT)
    copy.add_line("decision/mechanisms/__init__.py", '    "pot:Pot",', above='"fli:FLI"')
    (copy.folder / "mine.toml").write_text(SCENARIO)
    return copy


@pytest.fixture(scope="module")
def said(copy):
    """What the terminal shows of a run."""
    return copy.python(*COMMAND, "run", "mine.toml", "--out", "out", "--keys", "keys")


@pytest.fixture(scope="module")
def history(copy, said):
    return json.loads((copy.folder / "out/history.json").read_text())


def test_one_file_and_one_line(copy):
    assert copy.new_files == ["decision/mechanisms/pot.py"]
    assert copy.new_lines == {"decision/mechanisms/__init__.py": 1}


def test_a_federation_is_decided_by_it(history):
    assert history["rules"]["mechanism"] == "pot"
    assert history["rules"]["parameters"] == {"fee": 0.02, "limit": 1.0}
    for number, one in enumerate(history["rounds"], start=1):
        staying = [row for row in one["clients"] if row["client"] in one["retained"]]
        total = sum(row["sample_count"] for row in staying)
        for row in staying:
            expected = 0.02 * (len(staying) * row["sample_count"] / total - 1)
            assert row["transfer"]["value"] == pytest.approx(expected, abs=1e-12)
        at_a_loss = {row["client"] for row in one["clients"] if row["profit"]["value"] < 0}
        may_leave = number > 1 and len(at_a_loss) < len(one["clients"])  # the state counts rounds
        assert set(one["eliminated"]) == (at_a_loss if may_leave else set())
    assert any(one["eliminated"] for one in history["rounds"])


def test_explanations_know_the_round_and_what_went_before(history):
    for number, one in enumerate(history["rounds"]):
        for row in one["clients"]:
            said = f"After {number} rounds, {row['client']} is judged by {row['sample_count']} samples."
            assert row["sentence"].endswith(f". {said}"), "after what is said of every mechanism"


def test_its_rounds_are_settled_and_verified(copy, history):
    said = copy.python(*COMMAND, "ledger", "verify", "out/ledger.db")
    assert f"{len(history['rounds'])} decisions" in said


@pytest.mark.soak
def test_a_run_that_is_resumed_knows_its_state(copy, history):
    longer = (
        "import numpy as np, json, sys; from pathlib import Path;"
        "from commonweal.scenario.shipped import load; from commonweal.simulation.run import run_scenario;"
        "from commonweal.federation.checkpoint import CheckpointFile;"
        "scenario = load('mine.toml'); stop = RuntimeError();\n"
        "def on_round(result):\n    if result.record.round_number == 1 and not Path('cut/again').exists(): raise stop\n"
        "Path('cut').mkdir()\n"
        "try: run_scenario(scenario, directory=Path('cut'), on_round=on_round)\n"
        "except RuntimeError: Path('cut/again').touch()\n"
        "run_scenario(scenario, directory=Path('cut'), resume=True, on_round=on_round)\n"
    )
    copy.python("-c", longer)
    assert json.loads((copy.folder / "cut/history.json").read_text()) == history


def test_what_people_see_names_it_with_its_parameters_and_no_mu(copy, said, history):
    described = "a pot shared by new samples, fee 0.02, limit 1"
    page = re.sub(r"<(style|script|svg).*?</\1>", "", (copy.folder / "out/report.html").read_text(), flags=re.DOTALL)
    shown = copy.python(*COMMAND, "ledger", "show", "out/ledger.db")
    for text in (said, page, " ".join(shown.split())):
        assert described in text
        assert not re.search(r"\bmu\b|∞|\binf\b|not known", text, re.IGNORECASE)
    assert not list((copy.folder / "out/figures").glob("decision-maps*"))


def test_its_parameters_are_checked_where_the_scenario_is_read(copy):
    (copy.folder / "bad.toml").write_text(SCENARIO.replace("fee = 0.02", "fee = 2.0\nmu = 0.1"))
    said = copy.python(
        "-c",
        "from commonweal.scenario.shipped import load\n"
        "try: load('bad.toml')\n"
        "except ValueError as error: print(error)\n",
    )
    assert "fee must be a number from 0 to 1" in said
    assert "has no mu" in said


def test_a_mechanism_that_loses_money_is_refused_and_nothing_is_settled(tmp_path):
    copy = ExtendedCopy(tmp_path)
    copy.add_file("decision/mechanisms/pot.py", POT.replace("len(shares) - 1)", "len(shares) - 1) + 0.01"))
    copy.add_line("decision/mechanisms/__init__.py", '    "pot:Pot",', above='"fli:FLI"')
    (copy.folder / "mine.toml").write_text(SCENARIO)
    said = copy.refusal(*COMMAND, "run", "mine.toml", "--out", "out", "--keys", "keys")
    assert said == "error: Mechanism 'pot' returned transfers that sum to 0.03; they must sum to zero.\n"
    assert not (copy.folder / "out").exists()
