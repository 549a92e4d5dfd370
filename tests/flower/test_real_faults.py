"""A real SuperLink and real SuperNodes: a member and the coordinator are killed and return; strangers try to join."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PullMessagesRequest
from flwr.proto.node_pb2 import Node as NodeProto
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from commonweal.flower.rehearsal.rehearsal import Rehearsal
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.sql.store import open_store
from tests.flower.fleet import rehearsed_client, restart_killed_node
from tests.flower.real_toy import write_real_toy
from tests.flower.test_rehearsal import LIMIT, processes_of, wait_for
from tests.remote.toy import settled

UNLUCKY, OTHERS = "south", ("north", "east")
ROUNDS = 5

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc"),
]


def log_of(rehearsal, name):
    path = rehearsal.home(name) / "log.txt"
    return path.read_text() if path.exists() else ""


def coordinator_of(rehearsal):
    """The process of the ServerApp."""
    return [
        pid for pid in processes_of(rehearsal.work) if b"flwr-serverapp" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def entry_of_round(out, round_number):
    """The number of the entry that settles a round."""
    store = open_store(str(out / "ledger.db"))
    with store.reading() as reading:
        documents = [json.loads(entry.content) for entry in reading.entries()]
    store.close()
    (number,) = (
        document["number"]
        for document in documents
        if document["kind"] == "round" and document["body"]["round"] == round_number
    )
    return number


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory):
    """A federation in which a SuperNode is killed in round 2 and returns for round 4, and the coordinator is killed in
    round 4 and started again."""
    folder = tmp_path_factory.mktemp("real")
    write_real_toy(
        folder / "f", answer_seconds=300, names=("north", "south", "east"), rounds=ROUNDS, mechanism='mu = "inf"',
        learning="iteration_limit = 1",
    )  # fmt: skip
    with Rehearsal(folder / "f", folder / "out", keys=folder / "keys", warm=True) as rehearsal:
        outcomes = []
        run = threading.Thread(target=lambda: outcomes.append(rehearsal.run_app(timeout=LIMIT * 3)))
        run.start()
        wait_for(lambda: "round 2, iteration 1" in log_of(rehearsal, UNLUCKY))
        rehearsal.kill_node(UNLUCKY)
        before = log_of(rehearsal, UNLUCKY)
        wait_for(lambda: "round 3: opened" in log_of(rehearsal, "north"))
        assert log_of(rehearsal, UNLUCKY) == before
        restart_killed_node(rehearsal, UNLUCKY)
        wait_for(lambda: "round 4: opened" in log_of(rehearsal, UNLUCKY))
        (coordinator,) = coordinator_of(rehearsal)
        os.kill(coordinator, signal.SIGKILL)
        run.join(LIMIT)
        assert not outcomes[0].is_completed
        again = rehearsal.run_app(timeout=LIMIT * 3)
        assert again.is_completed, again
        rehearsal.keep_member_files()
        yield rehearsal, again
    assert not processes_of(rehearsal.work)


def test_the_federation_continued(disturbed):
    rehearsal, again = disturbed
    history = json.loads((rehearsal.out / "history.json").read_text())
    absent, events = zip(*((held["absent"], held["events"]) for held in history["rounds"]), strict=True)
    assert list(absent) == [[], [UNLUCKY], [UNLUCKY], [], []], events
    assert "resuming after round 3" in again.output
    assert history["totals"]["durations"] == {"north": 5, "south": 3, "east": 5}
    (second, third) = (held["events"] for held in history["rounds"][1:3])
    assert [event["kind"] for event in (*second, *third)] == ["absent", "absent"]
    assert "its SuperNode disconnected" in second[0]["text"]
    assert "its SuperNode was not connected" in third[0]["text"]
    assert second[0]["text"] in (rehearsal.out / "report.html").read_text()


def test_its_baseline_is_the_last_one_measured(disturbed):
    """A client that returns is measured from its last accuracy, and it reported a profit that follows from that."""
    rehearsal, _ = disturbed
    rounds = json.loads((rehearsal.out / "history.json").read_text())["rounds"]
    rows = [{row["client"]: row for row in held["clients"]} for held in rounds]
    assert rows[3][UNLUCKY]["previous_accuracy"] == rows[0][UNLUCKY]["accuracy"]["value"]
    value, per_sample, per_step, per_round = 0.8765432109, 0.00027182818, 0.00011235813, 0.0
    gain = rows[3][UNLUCKY]["accuracy"]["value"] - rows[3][UNLUCKY]["previous_accuracy"]
    expected = value * gain - (per_sample * 40 + per_step * 3 + per_round)
    assert rows[3][UNLUCKY]["profit"]["value"] == pytest.approx(expected, abs=1e-12)


def test_the_money_is_that_of_a_federation_in_which_the_client_was_absent(disturbed, tmp_path):
    """The same federation in one process, with the same absences and no accident: the same ledger."""
    from tests.remote.toy import make_toy

    rehearsal, _ = disturbed
    calm = make_toy(
        tmp_path / "f", names=("north", "south", "east"), rounds=ROUNDS, mechanism='mu = "inf"',
        learning="iteration_limit = 1",
    )  # fmt: skip

    answer = calm.member(UNLUCKY).answer

    def away(kind, question):
        if question.fields["round"] in (2, 3):
            raise ConnectionError
        return answer(kind, question)

    calm.member(UNLUCKY).answer = away
    calm.coordinate()
    assert settled(rehearsal.out) == settled(calm.out)


def test_everybody_has_a_sound_statement_of_each_of_its_rounds(disturbed):
    """The unlucky one is told what it missed as soon as the coordinator, started again, finds it connected."""
    rehearsal, _ = disturbed
    missed = f"round-0001-entry-{entry_of_round(rehearsal.out, 3)}.json"  # after its own last round
    for name, rounds, others in (("north", [1, 2, 3, 4, 5], []), (UNLUCKY, [1, 4, 5], [missed])):
        folder = rehearsal.home(name) / "statements"
        expected = [f"round-{number:04d}.json" for number in rounds]
        assert sorted(path.name for path in folder.iterdir()) == sorted([*expected, *others])
        assert "DOUBTFUL" not in log_of(rehearsal, name)
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("commonweal")), "verify-statement",
                str(folder / "round-0005.json"), "--key", str(rehearsal.home(name) / "operator.pub.pem"),
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "sound" in done.stdout


def test_a_key_that_is_not_registered_cannot_join(disturbed, tmp_path):
    rehearsal, _ = disturbed
    programs = rehearsal._programs
    NodeKey.new().write(tmp_path / "stranger")
    for key in (["--auth-supernode-private-key", str(tmp_path / "stranger")], []):
        environment = {**os.environ, "FLWR_HOME": str(tmp_path / "home"), "FLWR_TELEMETRY_ENABLED": "0"}
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("flower-supernode")), "--superlink", programs.members_address,
                "--root-certificates", str(programs.authority), "--isolation", "process", *key,
            ],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
        assert done.returncode != 0
        assert "SuperNode" in done.stderr
        assert ("Failed to activate" if key else "must be registered") in done.stderr
    stranger = rehearsed_client(rehearsal, NodeKey.read(tmp_path / "stranger"))
    public = public_key_to_bytes(NodeKey.read(tmp_path / "stranger").private.public_key())
    with pytest.raises(httpx.HTTPStatusError, match="412 Precondition Failed"):
        stranger.ActivateNode(ActivateNodeRequest(public_key=public, heartbeat_interval=30))
    with pytest.raises(httpx.HTTPStatusError, match="401 Unauthorized"):  # nor in the name of one that is
        stranger.PullMessages(PullMessagesRequest(node=NodeProto(node_id=rehearsal._node_ids["north"])))
    stranger.close()


def test_a_registered_client_cannot_read_anothers_statement(disturbed):
    """A statement goes to the SuperNode that holds the client's key, and Flower hands out messages by key."""
    rehearsal, _ = disturbed
    keys = {name: NodeKey.read(rehearsal.home(name).parent / "node-key") for name in rehearsal.members}
    curious = rehearsed_client(rehearsal, keys["north"])
    try:
        own = NodeProto(node_id=rehearsal._node_ids["north"])
        assert not curious.PullMessages(PullMessagesRequest(node=own)).messages_list, "its own it may ask for"
        for other in (UNLUCKY, "east"):
            with pytest.raises(httpx.HTTPStatusError, match="401 Unauthorized"):
                curious.PullMessages(PullMessagesRequest(node=NodeProto(node_id=rehearsal._node_ids[other])))
    finally:
        curious.close()
    for name in rehearsal.members:
        for path in (rehearsal.home(name) / "statements").iterdir():
            assert json.loads(path.read_text())["document"]["client"] == name
