"""A client that answers wrongly misses the round, as if it had not been there: recorded, shown, at nobody's cost."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from commonweal.federation.rule_versions import recompute
from commonweal.ledger.member_documents import ClientReport
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.remote.messages.message import Parcel, from_content, to_content
from commonweal.remote.messages.signature import sealed
from tests.flower.toy import NAMES, make_toy

LIAR, ROUND = "east", 2
OTHERS = [name for name in NAMES if name != LIAR]


def resealed(toy, question, parcel, signer=LIAR):
    """An answer with a good seal: what is wrong is what it says."""
    kind = question.metadata.message_type
    number = from_content(question.content).fields["number"]
    key = NodeKey.read(toy.folder / "members" / signer / "node-key")
    return Message(to_content(sealed(parcel, kind=kind, question=number, key=key)), reply_to=question)


def with_local(change):
    def lie(toy, question, answer):
        parcel = from_content(answer.content)
        return resealed(toy, question, replace(parcel, groups={"local": change(parcel.groups["local"])}))

    return "train.iteration", lie


def with_scores(change, kind="evaluate.coalitions"):
    def lie(toy, question, answer):
        parcel = from_content(answer.content)
        scores = change(parcel.groups["scores"]["scores"].astype(float))
        return resealed(toy, question, replace(parcel, groups={"scores": {"scores": scores}}))

    return kind, lie


def with_profit(profit):
    """A lie that is properly signed, as the liar would."""

    def lie(toy, question, answer):
        fields = from_content(question.content).fields
        key = NodeKey.read(toy.folder / "members" / LIAR / "node-key")
        report = ClientReport(
            ledger=fields["book"], round_number=fields["round"], client=LIAR, profit=profit, sample_count=40
        )
        signature = report.signed(key) if np.isfinite(profit) else ""
        told = {"profit": profit, "signature": signature}
        return resealed(toy, question, Parcel(fields=told))

    return "query.report", lie


def with_fields(kind, **fields):
    def lie(toy, question, answer):
        parcel = from_content(answer.content)
        return resealed(toy, question, replace(parcel, fields={**parcel.fields, **fields}))

    return kind, lie


def with_seal_of(signer, kind):
    """Another client's key: the answer of one in the name of another."""

    def lie(toy, question, answer):
        return resealed(toy, question, from_content(answer.content), signer=signer)

    return kind, lie


def report_signed_by(signer):
    """A seal of its own around a report that another client signed."""

    def lie(toy, question, answer):
        fields = from_content(question.content).fields
        key = NodeKey.read(toy.folder / "members" / signer / "node-key")
        report = ClientReport(
            ledger=fields["book"], round_number=fields["round"], client=LIAR, profit=0.1, sample_count=40
        )
        told = {"profit": 0.1, "signature": report.signed(key)}
        return resealed(toy, question, Parcel(fields=told))

    return "query.report", lie


def answered_before(kind):
    """The answer to a question of the round before, once more."""

    def lie(toy, question, answer):
        earlier = [s for s in toy.grid.wire if (s.to_node, s.client, s.kind) == (False, LIAR, kind)]
        return Message(earlier[0].message.content, reply_to=question)

    return kind, lie


def with_content(kind, content):
    return kind, lambda toy, question, answer: Message(content, reply_to=question)


LIES = {
    "weights that are no numbers": (with_local(lambda model: {"w": model["w"] * np.nan}), "not finite"),
    "infinite weights": (with_local(lambda model: {"w": model["w"] + np.inf}), "not finite"),
    "weights of another shape": (with_local(lambda model: {"w": np.zeros(3)}), "(3,)"),
    "weights of another kind": (with_local(lambda model: {"w": model["w"].astype(np.float32)}), "float32"),
    "weights that would overflow": (with_local(lambda model: {"w": model["w"] + 1.7e308}), "more than 1000 times"),
    "weights of another name": (with_local(lambda model: {"v": model["w"]}), "its arrays are 'v'"),
    "weights with one too many": (with_local(lambda model: {**model, "more": np.zeros(1)}), "more"),
    "no weights": (with_local(lambda model: {}), "its arrays are"),
    "a profit of 1e300": (with_profit(1e300), "1e+300"),
    "a profit of minus 1e300": (with_profit(-1e300), "-1e+300"),
    "a profit just above its bounds": (with_profit(float(np.nextafter(0.9, 1))), "bounds -0.9 to 0.9"),
    "a profit just below its bounds": (with_profit(float(np.nextafter(-0.9, -1))), "bounds -0.9 to 0.9"),
    "a profit that is no number": (with_profit(float("nan")), "finite number"),
    "a profit too small to decide with": (with_profit(1e-60), "at least 1e-50"),
    "a profit in quotes": (with_fields("query.report", profit="0.5"), "finite number"),
    "another profit than it signed": (with_fields("query.report", profit=0.123), "not signed"),
    "no signature": (with_fields("query.report", signature=""), "not signed"),
    "a report signed by another client": (report_signed_by("west"), "not signed"),
    "accuracy above 1": (with_scores(lambda scores: scores + 1.5), "between 0 and 1"),
    "accuracy below 0": (with_scores(lambda scores: scores - 0.1), "between 0 and 1"),
    "accuracy that is no number": (with_scores(lambda scores: scores * np.nan), "between 0 and 1"),
    "accuracy above 1 when the round opens": (with_scores(lambda s: s + 1.5, "query.open"), "between 0 and 1"),
    "too few scores": (with_scores(lambda scores: scores[:, 1:]), "its scores must be"),
    "scores of too few models": (with_scores(lambda scores: scores[1:]), "its scores must be"),
    "a negative count": (with_fields("query.open", training_count=-1), "training_count"),
    "no training samples": (with_fields("query.open", training_count=0), "training_count"),
    "no validation samples": (with_fields("query.open", validation_count=0), "validation_count"),
    "a count beyond all measure": (with_fields("query.open", sample_count=10**400), "sample_count"),
    "more samples than a book can hold": (with_fields("query.open", sample_count=2**53), "sample_count"),
    "more validation samples than memory": (
        with_fields("query.open", validation_count=10**9),
        "validation_count must be a whole number from 1 to 50000",
    ),
    "names that command a terminal": (with_local(lambda model: {"\x1b[2J\n": model["w"]}), r"'\x1b[2J\n'"),
    "more samples than it may declare": (with_fields("query.open", sample_count=101), "at most 100 samples a round"),
    "more samples to train on than there can be": (
        with_fields("query.open", training_count=10**9),
        "at most 100 samples a round",
    ),
    "a count in quotes": (with_fields("query.open", sample_count="40"), "sample_count"),
    "a forged notice": (with_fields("query.open", withdrawal="00" * 96), "notice of withdrawal"),
    "another client's key": (with_seal_of("west", "train.iteration"), "not signed with the key"),
    "another client's key in a report": (with_seal_of("north", "query.report"), "not signed with the key"),
    "an old answer": (answered_before("evaluate.coalitions"), "not signed with the key"),
    "an empty message": (with_content("train.iteration", RecordDict()), "could not be read"),
    "fields that are no table": (
        with_content("query.open", RecordDict({"fields": ConfigRecord({"json": "[]", "seal": ""})})),
        "could not be read",
    ),
    "fields nested deeper than they can be written again": (
        with_content(
            "query.open",
            RecordDict({"fields": ConfigRecord({"json": '{"a":' + "[" * 980 + "]" * 980 + "}", "seal": ""})}),
        ),
        "could not be read",
    ),
    "fields that are no JSON": (
        with_content("query.report", RecordDict({"fields": ConfigRecord({"json": "{", "seal": ""})})),
        "could not be read",
    ),
    "a model it does not have, again and again": (with_fields("train.iteration", lacks=["00"]), "it was sent"),
}
BOUNDS = {LIAR: "profit_bounds = [-0.9, 0.9]\nmost_samples = 100"}


def settled(toy):
    """What the book holds of each round, less signatures: these are made anew by keys made anew."""
    store = open_store(str(toy.out / "ledger.db"))
    try:
        assert not verify_ledger(store, recompute).findings
        with store.reading() as reading:
            documents = [json.loads(entry.content) for entry in reading.entries()]
    finally:
        store.close()
    rounds = {document["body"]["round"]: document for document in documents if document["kind"] == "round"}
    return {
        number: {
            "inputs": {row["client"]: (row["profit"], row["contribution"]) for row in document["body"]["inputs"]},
            "decision": document["body"]["decision"],
            "absent": document["body"]["absent"],
            "postings": document["postings"],
        }
        for number, document in rounds.items()
    }


@pytest.fixture(scope="module")
def without_it(tmp_path_factory):
    """The federation in which the client was honestly absent from the round."""
    toy = make_toy(
        tmp_path_factory.mktemp("absent") / "f", learning="iteration_limit = 1", mechanism='mu = "inf"',
        client_lines=BOUNDS,
    )  # fmt: skip
    _in_round_only(toy, lambda: setattr(toy.node(LIAR), "is_connected", False))
    _quietly(toy)
    return settled(toy)


@pytest.fixture(autouse=True)
def _no_report(monkeypatch, request):
    if "shown" not in request.node.name:
        monkeypatch.setattr("commonweal.remote.coordinator.coordinate.write_all", lambda *_: None)


def _quietly(toy):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("commonweal.remote.coordinator.coordinate.write_all", lambda *_: None)
        return toy.coordinate()


def _in_round_only(toy, begin):
    """Call `begin` when the round's number is first heard, and undo it when the next is."""
    original = toy.grid.get_nodes
    openings = []

    def get_nodes():
        openings.append(1)
        # Nodes are looked up when a round opens and when it is closed.
        if len(openings) == 2 * ROUND - 1:
            begin()
        elif len(openings) == 2 * ROUND:
            toy.node(LIAR).is_connected, toy.node(LIAR).twist = True, None
        return original()

    toy.grid.get_nodes = get_nodes


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_contained(tmp_path, without_it, name):
    (kind, lie), reason = LIES[name]
    toy = make_toy(tmp_path / "f", learning="iteration_limit = 1", mechanism='mu = "inf"', client_lines=BOUNDS)

    def twist(question, answer):
        asked = from_content(question.content).fields
        wanted = question.metadata.message_type == kind
        if wanted and asked["round"] == ROUND:
            return lie(toy, question, answer)
        return answer

    toy.node(LIAR).twist = twist
    chronicle, said = _quietly(toy)
    held = chronicle.rounds[ROUND - 1]
    assert held.record.absent == (LIAR,)
    (event,) = [event for event in held.events if event.client == LIAR]
    assert event.kind == "refused"
    assert reason in event.text
    assert event.text in said
    assert [each.record.absent for each in chronicle.rounds if each is not held] == [(), ()], "it may return"
    book = settled(toy)
    assert book[ROUND] == without_it[ROUND], "nobody else's money changes"
    assert sum(int(amount) for _, amount in book[ROUND]["postings"]) == 0
    assert {account for account, _ in book[ROUND]["postings"]} <= {f"clients/{other}" for other in OTHERS}
    for number in (1, 3):
        assert book[number] == without_it[number]


def test_an_answer_that_flower_cannot_read_is_contained(tmp_path):
    """What Flower makes of somebody's bytes may raise anything, for all answers at once."""
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:3])
    original = toy.grid.pull_messages

    def pull_messages(message_ids):
        found = list(original(message_ids))
        for message in found:
            if message.metadata.src_node_id == 102 and message.metadata.message_type == "train.iteration":
                toy.grid._replies.update({m.metadata.reply_to_message_id: m for m in found})
                raise ValueError("garbage")
        return found

    toy.grid.pull_messages = pull_messages
    chronicle, _ = _quietly(toy)
    assert chronicle.rounds[0].record.absent == ("east",)
    (event,) = chronicle.rounds[0].events
    assert (event.kind, event.text) == ("refused", "east missed round 1: its answer could not be read: ValueError.")


def test_an_answer_to_no_question_is_ignored(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:3])

    def twist(question, answer):
        if question.metadata.message_type == "query.report":
            answer.metadata.__dict__["_reply_to_message_id"] = "deadbeef"
        return answer

    toy.node(LIAR).twist = twist
    file = toy.folder / "federation.toml"
    file.write_text(file.read_text().replace("answer_seconds = 5", "answer_seconds = 1"))
    chronicle, _ = _quietly(toy)
    (event,) = chronicle.rounds[0].events
    assert (event.client, event.kind) == (LIAR, "absent")
    assert "did not answer in time" in event.text


def test_tiny_scores_do_not_stop_a_round(tmp_path):
    """A contribution made of 1e-290 would be refused by the decision, for everybody."""
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:3], learning="iteration_limit = 1")
    kind, lie = with_scores(lambda scores: np.full_like(scores, 1e-290))
    toy.node(LIAR).twist = lambda question, answer: (
        lie(toy, question, answer) if question.metadata.message_type == kind else answer
    )
    chronicle, _ = _quietly(toy)
    assert not chronicle.rounds[0].record.absent


def test_a_first_opening_that_was_lost_leaves_no_trace(tmp_path):
    """Member and coordinator agree on ε, whichever openings the coordinator has heard."""
    toy = make_toy(tmp_path / "f", rounds=3, mechanism='mu = "inf"', learning="iteration_limit = 1")

    def lost(question, answer):
        if from_content(question.content).fields["round"] == 1:
            raise ConnectionError
        return answer

    toy.node(LIAR).twist = lost
    chronicle, _ = _quietly(toy)
    row = chronicle.rounds[1].clients[LIAR]
    line = next(
        line for line in (toy.home(LIAR) / "log.txt").read_text().splitlines() if "round 2: will report" in line
    )
    assert f"accuracy {row.previous_accuracy:.4f} before" in line
    assert row.previous_accuracy == chronicle.rounds[1].iteration_accuracies[0][LIAR]


def test_a_profit_on_its_bound_counts(tmp_path):
    toy = make_toy(
        tmp_path / "f", rounds=1, learning="iteration_limit = 1", mechanism='mu = "inf"', client_lines=BOUNDS
    )
    _, lie = with_profit(0.9)
    toy.node(LIAR).twist = lambda question, answer: (
        lie(toy, question, answer) if question.metadata.message_type == "query.report" else answer
    )
    chronicle, _ = _quietly(toy)
    assert chronicle.rounds[0].record.decision.figures.profits[LIAR] == 0.9
    assert not chronicle.rounds[0].record.absent


def test_an_error_tells_the_coordinator_nothing_private(tmp_path):
    """A user's function may put anything into an error; the text stays in the member's log."""
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:3])

    def train(model, training, context):
        raise ValueError(f"my secret unit value is {context.member.unit_value}")

    from commonweal.flower import client_app
    from tests.flower.toy import evaluate, load

    toy.node("south").app = client_app(load=load, train=train, evaluate=evaluate)
    chronicle, _ = _quietly(toy)
    (event,) = chronicle.rounds[0].events
    assert (event.kind, event.client) == ("absent", "south")
    assert "ValueError" in event.text
    assert not any(b"secret" in sent.content for sent in toy.grid.wire)
    assert "my secret unit value is 0.8765432109" in (toy.home("south") / "log.txt").read_text()


def test_a_federation_whose_last_client_leaves_says_so(tmp_path):
    from commonweal.errors import CommonwealError

    toy = make_toy(tmp_path / "f", names=NAMES[:2], mechanism='mu = "inf"')
    for name in NAMES[:2]:
        toy.node(name).is_connected = False
    with pytest.raises(CommonwealError, match="at least one client that answers"):
        _quietly(toy)
    for name in NAMES[:2]:
        toy.node(name).is_connected = True
    chronicle, _ = _quietly(toy)
    assert len(chronicle.rounds) == 3


def test_what_went_wrong_is_shown_in_the_report(tmp_path):
    (kind, lie), _ = LIES["a profit of 1e300"]
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[1:])
    toy.node(LIAR).twist = lambda question, answer: (
        lie(toy, question, answer) if question.metadata.message_type == kind else answer
    )
    toy.coordinate()
    page = (toy.out / "report.html").read_text()
    assert "east missed round 1: its profit must lie within its declared bounds -1 to 1, got 1e+300." in page
    history = json.loads((toy.out / "history.json").read_text())
    assert history["rounds"][0]["absent"] == ["east"]
    assert [event["kind"] for event in history["rounds"][0]["events"]] == ["refused"]
