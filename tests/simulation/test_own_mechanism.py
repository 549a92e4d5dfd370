"""A mechanism from the user's own file: run, resumed, settled with the outside, verified; bad files are refused."""

from __future__ import annotations

import hashlib
import json

import pytest

from commonweal.federation.checkpoint import CHECKPOINT
from tests.cli.conftest import run_here

# Reads everything, charges loss-makers when they go, pays half of it to the outside, and plans the next round by lot.
LEVY = """
import math

import numpy as np

from commonweal import Choice, Division, Instructions, Mechanism, Parameter
from commonweal.seeds import stream


class Levy(Mechanism):
    label = "a levy on those who go"
    fidelity = "baseline"
    reads = frozenset(
        {"profit", "contribution", "cost", "utility", "sample_count", "metric", "loss", "similarity", "seed"}
    )
    decides = frozenset({"participants", "data", "iterations", "model quality"})
    takes_external_money = True
    parameters = {"levy": Parameter(default=0.02, minimum=0.0, maximum=1.0, meaning="what each client that goes pays")}

    def select(self, view, state):
        assert np.allclose(view.profits, view.utilities - view.costs)
        assert np.allclose(np.diag(view.similarities), 1) and np.isfinite(view.losses).all()
        goes = (view.contributions < view.contributions.max()) & (view.round_number == 3)
        return Choice(retained=~goes)

    def divide(self, view, state, retained):
        profits = view.profits[retained]
        going = int((~retained).sum())
        each, outside = self.parameter("levy"), self.parameter("levy") * going / 2
        shares = np.full(len(profits), 1 / len(profits))
        transfers = shares * (each * going - outside)
        return Division(
            budget=math.fsum(profits.tolist()),
            shares=shares,
            payoffs=profits + transfers,
            transfers=transfers,
            external=outside,
            charges=np.full(going, -each),
        )

    def advance(self, view, state, decision):
        return {"seen": [*state.get("seen", []), float(np.nanmean(view.metrics))]}

    def plan(self, view, state, active):
        drawn = stream(view.seed, "levy", view.round_number).permutation(len(active))[:2]
        return Instructions(
            participants=tuple(active[place] for place in drawn),
            data_shares={active[0]: 0.5},
            iteration_limit=1 + view.round_number % 2,
            model_shares={active[-1]: 0.25},
        )
"""
SCENARIO = """
name = "own"
rounds = 3
seed = 5
[mechanism]
kind = "file:levy.py"
levy = 0.03
contribution = "quantity"
[learning]
iteration_limit = 3
stop_below = 0.0
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
"""


def done(folder, *words, code=0):
    result = run_here(list(words), folder)
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "levy.py").write_text(LEVY)
    (folder / "own.toml").write_text(SCENARIO)
    return folder


@pytest.fixture(scope="module")
def said(folder):
    return done(folder, "run", "own.toml", "--out", "out", "--keys", "keys", "--workers", "1")


@pytest.fixture(scope="module")
def history(folder, said):
    return json.loads((folder / "out/history.json").read_text())


@pytest.fixture(scope="module")
def entries(folder, said):
    from commonweal.ledger.chain import documents
    from commonweal.ledger.sql.store import open_store

    store = open_store(str(folder / "out/ledger.db"))
    yield [document for document, _ in documents(store, "a test") if document["kind"] == "round"]
    store.close()


def test_what_it_plans_is_carried_out(history):
    first, *later = history["rounds"]
    assert "resting" not in first
    assert {row["client"] for row in first["clients"]} == {"a", "b", "c"}
    for before, one in zip(history["rounds"], later, strict=False):
        plan = before["instructions"]
        present = {row["client"] for row in one["clients"]}
        assert present == set(plan["participants"])
        assert one["resting"] == [client for client in "abc" if client not in present]
        assert one["absent"] == []
        assert len(one["iteration_accuracies"]) - 1 == plan["iteration_limit"]
    assert {len(one["iteration_accuracies"]) for one in later} == {2, 3}


def test_a_client_uses_only_its_share_of_new_samples(folder, history, tmp_path):
    """The same scenario with full shares has twice the new samples of a."""
    halved = [one for one in history["rounds"][1:] if any(row["client"] == "a" for row in one["clients"])]
    assert halved, "choose another seed"
    (tmp_path / "levy.py").write_text(LEVY.replace("active[0]: 0.5", "active[0]: 1.0"))
    (tmp_path / "own.toml").write_text(SCENARIO)
    done(tmp_path, "run", "own.toml", "--out", "out", "--keys", "keys", "--workers", "1")
    whole = json.loads((tmp_path / "out/history.json").read_text())
    for one in halved:
        rows = [
            next(row for row in run["rounds"][one["round"] - 1]["clients"] if row["client"] == "a")
            for run in (history, whole)
        ]
        half, full = (row["sample_count"] for row in rows)
        assert full / 2 <= half <= full / 2 + 2


def test_readers_are_told_what_it_is_and_what_is_not_carried_out(folder, said, history):
    described = "a levy on those who go (baseline), levy 0.03, model quality not carried out"
    assert described in said
    assert described in (folder / "out/report.html").read_text()
    assert history["mechanism"]["description"] == described
    assert history["mechanism"]["fidelity"] == "baseline"
    assert history["mechanism"]["not_carried_out"] == ["model quality"]
    assert history["rules"]["mechanism"] == "file:levy.py"


def test_charges_and_the_outside_are_settled_and_sum_to_zero(history, entries):
    last = history["rounds"][-1]
    assert last["eliminated"], "the third round lets somebody go"
    assert last["external"] == pytest.approx(0.015 * len(last["eliminated"]))
    assert last["charges"] == dict.fromkeys(last["eliminated"], -0.03)
    postings = {account: int(amount) for account, amount in entries[-1]["postings"]}
    assert sum(postings.values()) == 0
    assert postings["external"] == 1500 * len(last["eliminated"])
    assert all(postings[f"clients/{client}"] == -3000 for client in last["eliminated"])
    assert all("external" not in dict(entry["postings"]) for entry in entries[:-1])
    assert entries[0]["body"]["rules_version"] == f"file:sha256={hashlib.sha256(LEVY.encode()).hexdigest()}"
    assert entries[0]["body"]["rules"]["seed"] == 5


def test_a_ledger_is_verified_with_the_file_only(folder, said, tmp_path):
    assert "3 decisions recomputed" in done(folder, "ledger", "verify", "out/ledger.db", "--mechanism", "levy.py")
    without = done(folder, "ledger", "verify", "out/ledger.db", code=1)
    assert "was decided by a file of SHA-256" in without
    other = tmp_path / "other.py"
    other.write_text("raise SystemExit('this must not run')")
    refused = done(folder, "ledger", "verify", "out/ledger.db", "--mechanism", str(other), code=1)
    assert "must not run" not in refused


def test_exports_and_statements_know_the_outside(folder, said, entries):
    assert "equity:external" in done(folder, "ledger", "export", "out/ledger.db", "--format", "hledger")
    resting = next(client for entry in entries for client in entry["body"].get("resting", ()))
    told = done(folder, "ledger", "statement", "out/ledger.db", resting, "--format", "csv", "--keys", "keys")
    assert "resting; the mechanism did not ask you to take part" in " ".join(told.split())
    gone = entries[-1]["body"]["decision"]["eliminated"][0]
    told = done(folder, "ledger", "statement", "out/ledger.db", gone, "--format", "csv", "--keys", "keys")
    assert "-30.00" in told


@pytest.mark.usefixtures("numbers_only")
def test_an_interrupted_run_continues_as_if_it_had_not_been(folder, history, tmp_path):
    from commonweal.scenario.shipped import load
    from commonweal.simulation.run import run_scenario

    scenario, stop = load(str(folder / "own.toml")), RuntimeError()

    def on_round(result):
        if result.record.round_number == 2 and not (tmp_path / "again").exists():
            raise stop

    with pytest.raises(RuntimeError):
        run_scenario(scenario, directory=tmp_path, on_round=on_round)
    assert (tmp_path / CHECKPOINT).exists()
    (tmp_path / "again").touch()
    run_scenario(scenario, directory=tmp_path, resume=True, on_round=on_round)
    assert json.loads((tmp_path / "history.json").read_text()) == history


def test_another_content_of_the_file_is_another_run(folder, said, tmp_path):
    import shutil

    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy/levy.py").write_text(LEVY + "\n# changed\n")
    words = ("run", "own.toml", "--out", "out", "--keys", "keys", "--resume")
    assert "another content of the mechanism's file" in done(tmp_path / "copy", *words, code=2)


NOTHING = "import commonweal\n"
AT_ONCE = LEVY.replace("(view.round_number == 3)", "True")
OBJECTIVE = "\n    def objective(self, view, retained):\n        import sys\n        return "
EXPLAIN = "\n    def explain(self, view, state, decision, client, path):\n        return "
TWICE = LEVY + "\n\nclass Other(Levy):\n    pass\n"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "no such file"),
        ("def broken(:\n", "line 1"),
        ("import nowhere_at_all\n", "ModuleNotFoundError"),
        (NOTHING, "must define one subclass of commonweal.Mechanism, got none"),
        (TWICE, "must define one subclass of commonweal.Mechanism, got 2: Levy, Other"),
        (LEVY.replace("def divide", "def divided"), "must define the method divide"),
        (LEVY.replace('"seed"}', '"salary"}'), "reads of Levy in"),
        (LEVY.replace('"data", ', '"bonus", '), "decides of Levy in"),
        (LEVY.replace("/ 2\n", "/ 0\n"), "divide failed in"),
        (AT_ONCE.replace("charges=np.full(going, -each)", "charges=np.full(going, math.nan)"), "nan in charges"),
        (LEVY.replace("external=outside", "external=outside + 0.01"), "that sum to 0.01; they must sum to zero"),
        (LEVY.replace("retained=~goes", "retained=np.ones(4, bool)"), "as retained. Return an array of True and False"),
        (LEVY.replace("active[place] for place in drawn", "['zoe']"), "in participants, which is no active client"),
        (LEVY.replace('"seen": [*', '"seen": [math.nan, *'), "JSON cannot hold"),
        (f"{LEVY}{OBJECTIVE}math.nan\n", "returned nan from objective"),
        (f"{LEVY}{OBJECTIVE}sys.exit(3)\n", "objective failed in"),
        (f"{LEVY}{EXPLAIN}7\n", "returned a value of type int from explain"),
        (f"{LEVY}{EXPLAIN}1 / 0\n", "explain failed in"),
        (f"{LEVY}\n    def __init__(self):\n        pass\n", "__init__ failed in"),
        (f"{LEVY}\n    label = 7\n", "label of Levy in"),
        ("import sys\n\nsys.exit(3)\n", "SystemExit: 3"),
    ],
)
def test_bad_files_are_refused_in_a_sentence_and_nothing_is_settled(content, sentence, tmp_path):
    if content is not None:
        (tmp_path / "levy.py").write_text(content)
    (tmp_path / "own.toml").write_text(SCENARIO.replace("rounds = 3", "rounds = 1"))
    said = done(tmp_path, "run", "own.toml", "--out", "out", "--keys", "keys", "--workers", "1", code=2)
    assert sentence in " ".join(said.split())
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()
