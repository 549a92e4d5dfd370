"""What can go wrong between Flower's grid and the coordinator; and that another transport can replace Flower."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.app import Message as FlowerMessage

from commonweal.flower.codec import UnreadableError, question_in
from commonweal.remote.member import evidence
from commonweal.remote.member.store import MemberStore
from tests.flower.toy import make_flower_toy
from tests.remote.toy import NAMES, settled

LIAR = "east"
UNREADABLE = {
    "an empty message": RecordDict(),
    "fields that are no table": RecordDict({"fields": ConfigRecord({"json": "[]", "seal": ""})}),
    "fields nested too deep to be written again": RecordDict(
        {"fields": ConfigRecord({"json": '{"a":' + "[" * 980 + "]" * 980 + "}", "seal": ""})}
    ),
    "fields that are no JSON": RecordDict({"fields": ConfigRecord({"json": "{", "seal": ""})}),
    "no signature": RecordDict({"fields": ConfigRecord({"json": "{}"})}),
}


@pytest.fixture
def toy(tmp_path):
    return make_flower_toy(tmp_path / "f", rounds=1, names=NAMES[:3], learning="iteration_limit = 1")


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_answer_without_the_agreed_content_is_refused(toy, name):
    def twist(question, answer):
        is_meant = question.metadata.message_type == "train.iteration"
        return FlowerMessage(UNREADABLE[name], reply_to=question) if is_meant else answer

    toy.node(LIAR).twist = twist
    run_report, _ = toy.coordinate()
    (event,) = run_report.rounds[0].events
    assert (event.client, event.kind) == (LIAR, "refused")
    assert "could not be read" in event.text


MEGABYTE = np.zeros(1_000_000, np.uint8)
UNASKED = {
    "arrays that nobody asked for": ("junk", ArrayRecord({"a": Array(MEGABYTE)}), "got 'junk' with 1,000,128 bytes"),
    "arrays that are none, so they were not decoded": (
        "junk",
        ArrayRecord({"a": Array("uint8", (9,), "numpy.ndarray", b"no array")}),
        "may contain 'local', got 'junk' with 8 bytes",
    ),
    "much more than a model": (
        "local",
        ArrayRecord({"w": Array(np.zeros(1_000_000))}),
        "may contain 16 bytes in 1 arrays as 'local', got 8,000,128 in 1",
    ),
    "figures that nobody asked for": ("junk", MetricRecord({"a": 1.0}), "got 'junk'"),
}


@pytest.mark.parametrize("name", UNASKED)
def test_an_answer_with_more_than_was_asked_for_is_refused_unread(toy, name):
    key, record, reason = UNASKED[name]

    def twist(question, answer):
        if question.metadata.message_type == "train.iteration":
            answer.content[key] = record
        return answer

    toy.node(LIAR).twist = twist
    run_report, _ = toy.coordinate()
    (event,) = run_report.rounds[0].events
    assert (event.client, event.kind) == (LIAR, "refused")
    assert reason in event.text
    assert "could not be read" not in event.text


def test_what_the_operator_signed_is_kept_whatever_else_a_message_contains(toy):
    """A nested field, an array that is none, a kind of question that there is none of: all are refused, and logged."""
    toy.coordinate()

    def asked(kind):
        sent = [s for s in toy.grid.wire if (s.to_node, s.client, s.kind) == (True, LIAR, kind)][-1]
        return json.loads(sent.message.content["fields"]["json"])

    fields, head = asked("query.receipt"), json.loads(asked("query.open")["ledger_head"])
    log, number = toy.home(LIAR) / "log.txt", 102
    damaged = ArrayRecord({"w": Array(dtype="float64", shape=(2,), stype="numpy.ndarray", data=b"no array")})
    for place, (kind, odd, records) in enumerate(
        [
            ("query.receipt", {"x": {"y": 1}}, {}),
            ("query.receipt", {}, {f"model/{'0' * 64}": damaged}),
            ("query.other", {}, {}),
            ("query.receipt", {"ledger_head": {"y": "a head in a table"}}, {}),
        ]
    ):
        text = json.dumps({**head, "signature": f"{place:0128x}"})  # of another head, so it is doubted
        content = {"json": json.dumps({**fields, "ledger_head": text, **odd}), "seal": ""}
        before = len(log.read_text())
        question = FlowerMessage(RecordDict({"fields": ConfigRecord(content), **records}), number, kind)
        (reply,) = toy.grid.send_and_receive([question])
        assert reply.has_error()
        assert "DOUBTFUL HEAD of the ledger" in log.read_text()[before:]
        assert f"ERROR refused a question {kind}" in log.read_text()[before:]
    kept = [file.read_text() for file in toy.home(LIAR).glob("trails/doubtful/*.json")]
    assert len(kept) == 4
    assert any("a head in a table" in text for text in kept)


@pytest.mark.parametrize("odd", ["no signature", "a number as the signature", "twice under one name"])
def test_what_the_operator_signed_is_kept_whatever_message_it_comes_in(toy, odd):
    toy.coordinate()
    sent = [s for s in toy.grid.wire if (s.to_node, s.client, s.kind) == (True, LIAR, "query.receipt")][-1]
    fields = json.loads(sent.message.content["fields"]["json"])
    text, seal = json.dumps({**fields, "ledger_head": "a head"}), {"seal": ""}
    if odd == "twice under one name":
        text = text.replace('"ledger_head": "a head"', '"ledger_head": "a head", "ledger_head": "another head"')
    else:
        seal = {} if odd == "no signature" else {"seal": 7}
    question = FlowerMessage(RecordDict({"fields": ConfigRecord({"json": text, **seal})}), 102, "query.receipt")
    (reply,) = toy.grid.send_and_receive([question])
    assert reply.has_error()
    kept = "".join(file.read_text() for file in toy.home(LIAR).glob("trails/doubtful/*.json"))
    assert "a head" in kept
    assert ("another head" in kept) == (odd == "twice under one name")
    assert "DOUBTFUL HEAD of the ledger" in (toy.home(LIAR) / "log.txt").read_text()


@pytest.mark.parametrize(
    ("odd", "place"),
    [
        ("1" * 5000, "trails/doubtful"),  # Python reads no integer of so many digits
        ("[" * 100_000 + "]" * 100_000, "failed"),
        ("no JSON", "failed"),
    ],
)
def test_what_the_operator_signed_is_kept_also_beside_what_cannot_be_read(toy, odd, place):
    toy.coordinate()
    sent = [s for s in toy.grid.wire if (s.to_node, s.client, s.kind) == (True, LIAR, "query.receipt")][-1]
    fields = json.loads(sent.message.content["fields"]["json"])
    text = json.dumps({**fields, "ledger_head": "a head of another ledger"})[:-1] + f', "x": {odd}}}'
    log = toy.home(LIAR) / "log.txt"
    before = len(log.read_text())
    question = FlowerMessage(RecordDict({"fields": ConfigRecord({"json": text, "seal": ""})}), 102, "query.receipt")
    (reply,) = toy.grid.send_and_receive([question])
    said, (kept,) = log.read_text()[before:], (toy.home(LIAR) / place).iterdir()
    assert "a head of another ledger" in kept.read_text()
    assert f"{place}/{kept.name}" in said
    if place == "failed":
        assert reply.has_error()
        assert f"ERROR a question cannot be read; it is kept as failed/{kept.name}" in said
        assert kept.read_text() == text
    else:
        assert "DOUBTFUL HEAD of the ledger" in said


def test_a_field_that_is_there_twice_and_nested_deeply_is_kept(toy):
    """It can be read and not be written again: so all that came stands in its place."""
    toy.coordinate()
    sent = [s for s in toy.grid.wire if (s.to_node, s.client, s.kind) == (True, LIAR, "query.receipt")][-1]
    text = json.dumps(json.loads(sent.message.content["fields"]["json"]))[:-1]
    for depth in range(900, 1000):
        nested = text + f', "ledger_head": "a head of depth {depth}", "ledger_head": {"[" * depth + "]" * depth}}}'
        content = RecordDict({"fields": ConfigRecord({"json": nested, "seal": ""})})
        try:
            read = question_in(content).fields["ledger_head"]
        except UnreadableError as error:
            read = error.text
        assert f"a head of depth {depth}" in read


def test_questions_that_cannot_be_read_do_not_fill_the_disk(tmp_path, monkeypatch):
    store = MemberStore(tmp_path)
    for number in range(evidence.MOST_FAILED):
        assert "kept as failed/unread-" in evidence.keep_failed(store, str(number).encode())
    assert "kept as failed/unread-" in evidence.keep_failed(store, b"0"), "it is there already"
    unkept = "not kept, since it has 4 bytes, and there are"
    assert f"{unkept} {evidence.MOST_FAILED}" in evidence.keep_failed(store, b"more")
    monkeypatch.setattr(evidence, "MOST_UNREAD_BYTES", 3)
    assert f"{unkept} 0" in evidence.keep_failed(MemberStore(tmp_path / "b"), b"more")


def test_an_answer_that_flower_cannot_read_is_refused(toy):
    """What Flower makes of somebody's bytes may raise anything, for all answers at once."""
    original = toy.grid.pull_messages

    def pull_messages(message_ids):
        found = list(original(message_ids))
        for message in found:
            if message.metadata.src_node_id == 102 and message.metadata.message_type == "train.iteration":
                toy.grid._replies.update({m.metadata.reply_to_message_id: m for m in found})
                raise ValueError("garbage")
        return found

    toy.grid.pull_messages = pull_messages
    run_report, _ = toy.coordinate()
    assert run_report.rounds[0].record.absent == (LIAR,)
    (event,) = run_report.rounds[0].events
    assert (event.kind, event.text) == ("refused", "east missed round 1: its answer could not be read: ValueError.")


def test_an_answer_to_no_question_is_ignored(toy):
    def twist(question, answer):
        if question.metadata.message_type == "query.report":
            answer.metadata.__dict__["_reply_to_message_id"] = "deadbeef"
        return answer

    toy.node(LIAR).twist = twist
    file = toy.folder / "federation.toml"
    file.write_text(file.read_text().replace("answer_seconds = 5", "answer_seconds = 1"))
    run_report, _ = toy.coordinate()
    (event,) = run_report.rounds[0].events
    assert (event.client, event.kind) == (LIAR, "absent")
    assert "did not answer in time" in event.text


def test_a_member_that_always_answers_late_does_not_slow_every_message(toy):
    """Its replies arrive 0.8 s after those of the others, and one second in all is granted for a round."""
    file = toy.folder / "federation.toml"
    file.write_text(file.read_text().replace("answer_seconds = 5", "answer_seconds = 5\nlate_seconds = 1"))
    ready, original = {}, toy.grid.pull_messages

    def pull_messages(message_ids):
        now = time.monotonic()
        late = {number for number, message in toy.grid._replies.items() if message.metadata.src_node_id == 102}
        return original([n for n in message_ids if n not in late or now >= ready.setdefault(n, now + 0.8)])

    toy.grid.pull_messages = pull_messages
    run_report, _ = toy.coordinate()
    assert run_report.rounds[0].record.absent == (LIAR,)
    (event,) = run_report.rounds[0].events
    assert event.kind == "absent"
    assert "kept the others waiting for longer than late_seconds allows" in event.text


def test_a_supernode_that_disconnects_and_a_client_app_that_fails_are_absent(toy):
    toy.node("south").is_connected = False
    toy.node(LIAR).node_config = {}
    run_report, said = toy.coordinate()
    assert run_report.rounds[0].record.absent == ("south", LIAR)
    assert "south missed round 1: its SuperNode was not connected." in said
    (line,) = [line for line in said if line.startswith(LIAR)]
    assert "its ClientApp failed" in line
    assert "must name its member's file" in line


WITHOUT_FLOWER = """
import json, sys
from pathlib import Path
from tests.remote.toy import make_toy, settled

toy = make_toy(Path(sys.argv[1]))
toy.coordinate()
assert not [name for name in sys.modules if name.split(".")[0] == "flwr"]
print(json.dumps(settled(toy.out)))
"""


@pytest.mark.soak
def test_a_second_transport_gives_the_same_ledger_without_flower(tmp_path):
    """Members and coordinator use a transport of 50 lines, in a process that never imports flwr."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_FLOWER, str(tmp_path / "memory")],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    toy = make_flower_toy(tmp_path / "flower")
    toy.coordinate()
    found = {int(number): entry for number, entry in json.loads(done.stdout.splitlines()[-1]).items()}
    assert found == settled(toy.out)
    assert len(found) == 3
