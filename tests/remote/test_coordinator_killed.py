"""A coordinator that is killed at any stage of a round and started again ends with the same ledger."""

from __future__ import annotations

import json
import os
import signal

import numpy as np
import pytest

from commonweal.atomic_write import locked_directory
from commonweal.errors import CommonwealError, FederationError, StorageError
from commonweal.federation.checkpoint import CheckpointFile
from commonweal.federation.open_ledger import open_ledger
from commonweal.federation.session import Session
from commonweal.federation.settlement import FederationLedger
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import verify_ledger
from tests.remote.toy import NAMES, make_toy, open_toy

ROUND, ROUNDS = 2, 3
RULES = {"rounds": ROUNDS, "mechanism": "mu = 0.001\ngrace_rounds = 1", "learning": "iteration_limit = 2"}
LEAVER = "west"  # withdraws after round 2

QUESTIONS = {
    "query.open": 1, "train.iteration": 2, "evaluate.coalitions": 3, "query.report": 1, "query.receipt": 1,
    "query.close": 1,
}  # fmt: skip
STEPS = {"checkpoint": (CheckpointFile, "save"), "settle": (Session, "_settle"), "tell": (Session, "_tell")}
STAGES = [
    *((kind, number, place) for kind, count in QUESTIONS.items() for number in range(1, count + 1) for place in (0, 1)),
    *((name, when) for name in STEPS for when in ("before", "after")),
    ("opening the ledger",),
    ("between settling and the notice",),
]
ONE_OF_EACH_KIND = [
    ("train.iteration", 2, 1), ("checkpoint", "after"), ("tell", "before"), ("between settling and the notice",),
]  # fmt: skip


def entries(toy):
    """The ledger's entries, without what depends on a clock or on keys."""
    store = open_store(str(toy.out / "ledger.db"))
    try:
        found = verify_ledger(store, recompute)
        assert not found.findings
        with store.reading() as reading:
            documents = [json.loads(entry.content) for entry in reading.entries()]
    finally:
        store.close()
    return [(document["kind"], document["body"].get("decision"), document["postings"]) for document in documents]


def finished(toy):
    run_report, _ = toy.coordinate()
    rounds = [
        (
            completed.record,
            {client: (figures.accuracy, figures.previous_accuracy) for client, figures in completed.clients.items()},
        )
        for completed in run_report.rounds
    ]
    return rounds, entries(toy)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    toy = make_toy(tmp_path_factory.mktemp("undisturbed") / "f", **RULES)
    give_notice_in_round(toy, ROUND)
    rounds, ledger = finished(toy)
    assert rounds[1][0].withdrawn == (LEAVER,)
    return rounds, ledger


def give_notice_in_round(toy, number):
    """The member writes its notice when the round reaches it."""

    def before_answer(client, kind):
        if client == LEAVER and toy.home(LEAVER).joinpath("statements", "round-0001.json").exists():
            toy.home(LEAVER).joinpath("withdraw").touch()

    toy.transport.before_answer = before_answer
    assert number == 2, "it has its first statement when the second round opens"


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def run_and_die(toy, stage):
    """Run the coordinator in a process of its own, which must be killed."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"stage {stage} was never reached"
        assert os.WTERMSIG(status) == signal.SIGKILL
        return
    try:
        arm(toy, stage)
        toy.coordinate()
    finally:
        os._exit(1)


def arm(toy, stage):
    """Let the process die at a stage of the round."""
    if stage == ("opening the ledger",):
        from commonweal.ledger.ledger import Ledger

        Ledger.admit = die
    elif stage == ("between settling and the notice",):
        FederationLedger.withdraw = die
    elif len(stage) == 2:
        name, when = stage
        owner, method = STEPS[name]
        original, calls = getattr(owner, method), []

        def wrapped(*arguments, **named):
            calls.append(1)
            if len(calls) == ROUND and when == "before":
                die()
            result = original(*arguments, **named)
            if len(calls) == ROUND and when == "after":
                die()
            return result

        setattr(owner, method, wrapped)
    else:
        kind, number, place = stage
        notice, asked = toy.transport.before_answer, []

        def before_answer(client, given_kind):
            notice(client, given_kind)
            question = toy.transport.sent[-1].message.fields
            if given_kind == kind and question["round"] == ROUND and client == NAMES[place]:
                asked.append(1)
                if len(asked) == number:
                    die()

        toy.transport.before_answer = before_answer


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(stage, marks=() if stage in ONE_OF_EACH_KIND else pytest.mark.soak, id="-".join(map(str, stage)))
        for stage in STAGES
    ],
)
def test_killed_and_started_again(tmp_path, undisturbed, stage):
    toy = make_toy(tmp_path / "f", **RULES)
    give_notice_in_round(toy, ROUND)
    run_and_die(toy, stage)
    again = open_toy(tmp_path / "f")
    give_notice_in_round(again, ROUND)
    rounds, ledger = finished(again)
    assert (rounds, ledger) == undisturbed
    for name in NAMES:
        statements = sorted(path.name for path in (again.home(name) / "statements").glob("*.json"))
        part = [f"round-{record.round_number:04d}.json" for record, figures in rounds if name in figures]
        assert statements == part, "everybody has a statement for every round it was in"
        assert "DOUBTFUL" not in (again.home(name) / "log.txt").read_text()


@pytest.mark.soak
def test_killed_again_and_again(tmp_path, undisturbed):
    """The coordinator is killed at later and later questions until the federation is complete."""
    toy = make_toy(tmp_path / "f", **RULES)
    deaths = 0
    while deaths < 200:
        give_notice_in_round(toy, ROUND)
        child = os.fork()
        if not child:
            try:
                die_after(toy, 7 + deaths % 50)
                toy.coordinate()
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        toy = open_toy(tmp_path / "f")
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            break
        deaths += 1
    assert deaths > 20
    give_notice_in_round(toy, ROUND)
    rounds, ledger = finished(toy)
    assert (rounds, ledger) == undisturbed


def die_after(toy, count):
    """Let the process die after this many questions."""
    notice, asked = toy.transport.before_answer, []

    def before_answer(client, kind):
        notice(client, kind)
        asked.append(1)
        if len(asked) == count:
            die()

    toy.transport.before_answer = before_answer


def test_two_coordinators_cannot_run_one_federation(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=1)
    toy.out.mkdir()
    with locked_directory(toy.out, "a federation"), pytest.raises(StorageError, match="another process is using"):
        toy.coordinate()


def test_a_federation_is_resumed_by_its_own_terms(tmp_path):

    toy = make_toy(tmp_path / "f", rounds=1)
    toy.coordinate()
    file = toy.folder / "federation.toml"
    agreed = file.read_text()
    file.write_text(agreed.replace("mu = 0.01", "mu = 0.02"))
    with pytest.raises(CommonwealError, match=r"departs from the terms of its ledger: rules\.mu is 0\.01 in the terms"):
        toy.coordinate()
    file.write_text(agreed.replace("iteration_limit = 2", "iteration_limit = 3"))
    with pytest.raises(CommonwealError, match="was written under different terms"):
        toy.coordinate()


def test_a_ledger_with_rounds_unknown_to_the_checkpoint_is_refused_before_anybody_trains(tmp_path):

    toy = make_toy(tmp_path / "f", rounds=1)
    toy.coordinate()
    asked = len(toy.transport.sent)
    (toy.out / "checkpoint.npz").unlink()
    with pytest.raises(FederationError, match="Round 1 is settled in the ledger, but the checkpoint has only 0 rounds"):
        toy.coordinate()
    assert len(toy.transport.sent) == asked


def test_terms_that_no_ledger_could_settle_are_refused_before_anybody_trains(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=1, client_lines={"north": "profit_bounds = [-1e30, 1e30]"})
    with pytest.raises(CommonwealError, match="Narrow profit_bounds"):
        toy.coordinate()
    assert not toy.transport.sent


def test_a_round_that_the_ledger_refuses_is_refused_again_after_a_restart(tmp_path):
    """Raw contributions give a share above 1 in round 2: the round before it stays settled, and nothing else is."""
    toy = make_toy(tmp_path / "f", mechanism='mu = 0.01\ncontribution_rule = "raw"')
    for _ in range(2):
        with pytest.raises(CommonwealError, match=r"accepts shares from 0 to 1, got .* in round 2"):
            toy.coordinate()
        with open_ledger(str(toy.out / "ledger.db")) as ledger:
            assert ledger.verify().round_count == 1


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        ({}, "named arrays"),
        ({"w": [1.0]}, "arrays of floats, got list"),
        ({"w": np.zeros(2, int)}, "arrays of floats, got int64"),
        ({"w": np.zeros(2, ">f8")}, "arrays of floats, got >f8"),
        ({"w": np.array([np.nan])}, "finite numbers"),
    ],
)
def test_a_model_that_cannot_be_sent_is_refused_before_anybody_trains(tmp_path, initial, message):

    toy = make_toy(tmp_path / "f", rounds=1)
    with pytest.raises(FederationError, match=message):
        toy.coordinate(initial)
    assert not toy.transport.sent
