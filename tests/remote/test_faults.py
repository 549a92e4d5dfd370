"""A client that answers wrongly misses the round as if it had been absent; this is recorded and costs nobody else."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from commonweal.errors import FederationError
from commonweal.ledger.canonical import canonical
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.messages.message import signed_answer
from commonweal.report.write import write_all
from commonweal.task.records import Task
from tests.remote.toy import INITIAL, NAMES, evaluate, load, make_toy, settled

LIAR, ROUND = "east", 2
OTHERS = [name for name in NAMES if name != LIAR]


def signed_again(toy, kind, question, answer, signer=LIAR):
    """An answer with a good signature: what is wrong is what it says."""
    key = NodeKey.read(toy.folder / "members" / signer / "node-key")
    return signed_answer(answer, kind=kind, number=question.fields["number"], key=key)


def with_local(change):
    def lie(toy, kind, question, answer):
        return signed_again(toy, kind, question, replace(answer, groups={"local": change(answer.groups["local"])}))

    return "train.iteration", lie


def with_scores(change, kind="evaluate.coalitions"):
    def lie(toy, kind, question, answer):
        scores = change(answer.groups["scores"]["scores"].astype(float))
        return signed_again(toy, kind, question, replace(answer, groups={"scores": {"scores": scores}}))

    return kind, lie


def with_profit(profit, signer=LIAR):
    """A lie in a report that is properly signed, by the liar or by another."""

    def lie(toy, kind, question, answer):
        key = NodeKey.read(toy.folder / "members" / signer / "node-key")
        file = toy.home(LIAR) / "reports" / f"round-{question.fields['round']:04d}.json"
        honest = json.loads(file.read_text())["reports"][-1]["report"]
        signature = key.sign(canonical({**honest, "profit": profit})) if np.isfinite(profit) else ""
        lies = {"profit": profit, "signature": signature}
        return signed_again(toy, kind, question, replace(answer, fields={**answer.fields, **lies}))

    return "query.report", lie


def with_earlier(**more):
    """A report that is properly signed, after another one that the liar made up and signed as well."""

    def lie(toy, kind, question, answer):
        key = NodeKey.read(toy.folder / "members" / LIAR / "node-key")
        file = toy.home(LIAR) / "reports" / f"round-{question.fields['round']:04d}.json"
        honest = json.loads(file.read_text())["reports"][-1]["report"]
        made_up = {**honest, "attempt": "never/1", **more}
        earlier = json.dumps([{"report": made_up, "signature": key.sign(canonical(made_up))}])
        lies = {"report_number": 2, "earlier": earlier, "signature": key.sign(canonical({**honest, "number": 2}))}
        return signed_again(toy, kind, question, replace(answer, fields={**answer.fields, **lies}))

    return "query.report", lie


def nested(depth):
    return [nested(depth - 1)] if depth else []


def with_fields(kind, **fields):
    def lie(toy, kind, question, answer):
        return signed_again(toy, kind, question, replace(answer, fields={**answer.fields, **fields}))

    return kind, lie


def with_more(kind, size):
    """Arrays that nobody asked for beside those that were."""

    def lie(toy, kind, question, answer):
        groups = {**answer.groups, "junk": {"junk": np.zeros(size // 8)}}
        return signed_again(toy, kind, question, replace(answer, groups=groups))

    return kind, lie


def with_signature_of(signer, kind):
    """Another client's key: the answer of one in the name of another."""

    def lie(toy, kind, question, answer):
        return signed_again(toy, kind, question, answer, signer=signer)

    return kind, lie


def answered_before(kind):
    """The answer to a question of the round before, once more."""

    def lie(toy, kind, question, answer):
        earlier = [s for s in toy.transport.sent if (s.to_member, s.client, s.kind) == (False, LIAR, kind)]
        return earlier[0].message

    return kind, lie


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
    "an earlier report that commands a terminal": (with_earlier(note="\x1b[31mhello"), "the fields of its format"),
    "an earlier report of an attempt that does": (with_earlier(attempt="\x1b[31m/1"), "the fields of its format"),
    "an earlier report nested deeply": (with_earlier(profit=nested(200)), "the fields of its format"),
    "an earlier report under terms of nobody": (with_earlier(terms="0" * 64), "terms that the ledger has stated"),
    "a report signed by another client": (with_profit(0.1, signer="west"), "not signed"),
    "accuracy above 1": (with_scores(lambda scores: scores + 1.5), "between 0 and 1"),
    "accuracy below 0": (with_scores(lambda scores: scores - 0.1), "between 0 and 1"),
    "accuracy that is no number": (with_scores(lambda scores: scores * np.nan), "between 0 and 1"),
    "accuracy above 1 when the round opens": (with_scores(lambda s: s + 1.5, "query.open"), "between 0 and 1"),
    "too few scores": (with_scores(lambda scores: scores[:, 1:]), "it must send"),
    "scores of too few models": (with_scores(lambda scores: scores[1:]), "it must send"),
    "a negative count": (with_fields("query.open", training_count=-1), "training_count"),
    "no training samples": (with_fields("query.open", training_count=0), "training_count"),
    "no validation samples": (with_fields("query.open", validation_count=0), "validation_count"),
    "a count beyond all measure": (with_fields("query.open", sample_count=10**400), "sample_count"),
    "more samples than a ledger can record": (with_fields("query.open", sample_count=2**53), "sample_count"),
    "more validation samples than memory": (
        with_fields("query.open", validation_count=10**9),
        "validation_count must be a whole number from 1 to 50000",
    ),
    "names that command a terminal": (with_local(lambda model: {"\x1b[2J\n": model["w"]}), r"'\x1b[2J\n'"),
    "more samples than it may declare": (with_fields("query.open", sample_count=101), "at most 100 samples per round"),
    "more samples to train on than there can be": (
        with_fields("query.open", training_count=10**9),
        "at most 100 samples per round",
    ),
    "arrays that nobody asked for": (
        with_more("train.iteration", 80_000),
        "may contain 'local', got 'junk' with 80,000",
    ),
    "arrays beside a report": (with_more("query.report", 8), "may contain 'alone', got 'junk' with 8 bytes"),
    "a model of another size altogether": (
        with_local(lambda model: {"w": np.zeros(5_000_000)}),
        "may contain 16 bytes in 1 arrays as 'local', got 40,000,000 in 1",
    ),
    "a thousand arrays": (
        with_local(lambda model: {**model, **{f"a{n}": np.zeros(1) for n in range(1000)}}),
        "got 8,016 in 1,001",
    ),
    "a text without end": (
        with_fields("query.report", poem="la" * 2_000_000),
        "the fields of its answer may have 3,000,000 characters, got 4,000,",
    ),
    "a count in quotes": (with_fields("query.open", sample_count="40"), "sample_count"),
    "a forged notice": (with_fields("query.open", withdrawal="00" * 96), "notice of withdrawal"),
    "another client's key": (with_signature_of("west", "train.iteration"), "not signed with the key"),
    "another client's key in a report": (with_signature_of("north", "query.report"), "not signed with the key"),
    "an old answer": (answered_before("evaluate.coalitions"), "not signed with the key"),
    "a model it does not have, again and again": (
        with_fields("train.iteration", lacks=["00"]),
        "it reported a model as missing that was sent twice",
    ),
}
ONE_OF_EACH_KIND = {
    "weights that are no numbers",
    "names that command a terminal",
    "a profit of 1e300",
    "another profit than it signed",
    "an earlier report that commands a terminal",
    "an earlier report under terms of nobody",
    "accuracy above 1",
    "scores of too few models",
    "more samples than it may declare",
    "arrays that nobody asked for",
    "a model of another size altogether",
    "a text without end",
    "a forged notice",
    "another client's key",
    "an old answer",
    "a model it does not have, again and again",
}
BOUNDS = {LIAR: "profit_bounds = [-0.9, 0.9]\nmost_samples = 100"}


@pytest.fixture(scope="module")
def without_it(tmp_path_factory):
    """The federation in which the client was honestly absent from the round."""
    toy = make_toy(
        tmp_path_factory.mktemp("absent") / "f", learning="iteration_limit = 1", mechanism='mu = "inf"',
        client_lines=BOUNDS,
    )  # fmt: skip
    opened = []

    def locate(clients, *, seconds=0.0, original=toy.transport.locate):
        opened.append(1)  # members are located when a round opens and when it is closed
        toy.member(LIAR).is_connected = len(opened) != 2 * ROUND - 1
        return original(clients, seconds=seconds)

    toy.transport.locate = locate
    toy.coordinate()
    return settled(toy.out)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ONE_OF_EACH_KIND else pytest.mark.soak) for name in LIES]
)
def test_a_lie_is_detected_or_harmless(tmp_path, without_it, name):
    assert set(LIES) >= ONE_OF_EACH_KIND
    (kind, lie), reason = LIES[name]
    toy = make_toy(tmp_path / "f", learning="iteration_limit = 1", mechanism='mu = "inf"', client_lines=BOUNDS)

    def twist(asked, question, answer):
        return lie(toy, kind, question, answer) if (asked, question.fields["round"]) == (kind, ROUND) else answer

    toy.member(LIAR).twist = twist
    run_report, said = toy.coordinate()
    told = run_report.rounds[ROUND - 1]
    assert told.record.absent == (LIAR,)
    (event,) = [event for event in told.events if event.client == LIAR]
    assert event.kind == "refused"
    assert reason in event.text
    assert event.text in said
    assert [each.record.absent for each in run_report.rounds if each is not told] == [(), ()], "it may return"
    ledger = settled(toy.out)
    assert ledger[ROUND] == without_it[ROUND], "nobody else's money changes"
    assert sum(int(amount) for _, amount in ledger[ROUND]["postings"]) == 0
    assert {account for account, _ in ledger[ROUND]["postings"]} <= {f"clients/{other}" for other in OTHERS}
    for number in (1, 3):
        assert ledger[number] == without_it[number]


def test_tiny_scores_do_not_stop_a_round(tmp_path):
    """A contribution made of 1e-290 would be refused by the decision, for everybody."""
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:3], learning="iteration_limit = 1")
    kind, lie = with_scores(lambda scores: np.full_like(scores, 1e-290))
    toy.member(LIAR).twist = lambda asked, question, answer: (
        lie(toy, asked, question, answer) if asked == kind else answer
    )
    run_report, _ = toy.coordinate()
    assert not run_report.rounds[0].record.absent


def test_a_lost_first_opening_leaves_no_trace(tmp_path):
    """Member and coordinator agree on ε: the metric of the model that opened the first round settled with it."""
    toy = make_toy(tmp_path / "f", rounds=3, mechanism='mu = "inf"', learning="iteration_limit = 1")

    def lost(kind, question, answer):
        if question.fields["round"] == 1:
            raise ConnectionError
        return answer

    toy.member(LIAR).twist = lost
    run_report, _ = toy.coordinate()
    row = run_report.rounds[1].clients[LIAR]
    line = next(
        line for line in (toy.home(LIAR) / "log.txt").read_text().splitlines() if "round 2: will report" in line
    )
    assert f"accuracy {row.previous_accuracy:.1%} before" in line
    first = evaluate(INITIAL, load(1, SimpleNamespace(name=LIAR)).validation, None).mean()
    assert row.previous_accuracy != first, "of the first model, in a round that it was absent from"
    assert row.previous_accuracy == run_report.rounds[1].iteration_accuracies[0][LIAR]


def test_a_profit_equal_to_its_bound_is_accepted(tmp_path):
    toy = make_toy(
        tmp_path / "f", rounds=1, learning="iteration_limit = 1", mechanism='mu = "inf"', client_lines=BOUNDS
    )
    _, lie = with_profit(0.9)
    toy.member(LIAR).twist = lambda asked, question, answer: (
        lie(toy, asked, question, answer) if asked == "query.report" else answer
    )
    run_report, _ = toy.coordinate()
    assert run_report.rounds[0].record.decision.figures.profits[LIAR] == 0.9
    assert not run_report.rounds[0].record.absent


def test_errors_sent_to_the_coordinator_contain_nothing_private(tmp_path):
    """A user's function may put anything into an error; the text stays in the member's log."""
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:3])

    def train(model, training, context):
        raise ValueError("my secret unit value is 0.8765432109")

    toy.member("south").task = Task(load=load, train=train, evaluate=evaluate)
    run_report, _ = toy.coordinate()
    (event,) = run_report.rounds[0].events
    assert (event.kind, event.client) == ("absent", "south")
    assert "ValueError" in event.text
    assert "secret" not in str([sent.message for sent in toy.transport.sent]) + event.text
    assert "my secret unit value is 0.8765432109" in (toy.home("south") / "log.txt").read_text()


def test_a_federation_whose_last_client_leaves_says_so(tmp_path):
    toy = make_toy(tmp_path / "f", names=NAMES[:2], mechanism='mu = "inf"')
    for name in NAMES[:2]:
        toy.member(name).is_connected = False
    with pytest.raises(FederationError, match="No client answered in round 1"):
        toy.coordinate()
    for name in NAMES[:2]:
        toy.member(name).is_connected = True
    run_report, _ = toy.coordinate()
    assert len(run_report.rounds) == 3


@pytest.mark.slow
def test_what_went_wrong_is_shown_in_the_report(tmp_path):
    (kind, lie), _ = LIES["a profit of 1e300"]
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[1:])
    toy.member(LIAR).twist = lambda asked, question, answer: (
        lie(toy, asked, question, answer) if asked == kind else answer
    )
    toy.coordinate(write=write_all)
    page = (toy.out / "report.html").read_text()
    assert "east missed round 1: its profit must lie within its declared bounds -1 to 1, got 1e+300." in page
    history = json.loads((toy.out / "history.json").read_text())
    assert history["rounds"][0]["absent"] == ["east"]
    assert [event["kind"] for event in history["rounds"][0]["events"]] == ["refused"]
