"""Profits by pooled gains between machines: unit values stay private, and no member signs what it cannot check."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from commonweal.errors import LedgerError
from commonweal.federation import session
from commonweal.ledger.canonical import canonical
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.sql.store import open_store
from commonweal.records import PairedGain
from commonweal.remote.member.told_gains import read_told
from commonweal.remote.messages.message import Message, QuestionError
from commonweal.task.records import Predictions, Task
from commonweal.valuation.pooling import pool
from commonweal.valuation.used_gains import used_gains
from tests.first_few import first_few
from tests.remote.test_faults import signed_again
from tests.remote.toy import NAMES, PRIVATE, TASK, evaluate, load, make_toy, settled

VICTIM, ROUND = "east", 2
RULES = ("paired", "pooled", "forecast")


def bodies(out):
    store = open_store(str(out / "ledger.db"))
    try:
        with store.reading() as reading:
            documents = [json.loads(entry.content) for entry in reading.entries()]
    finally:
        store.close()
    return [document["body"] for document in documents if document["kind"] == "round"]


def spent(client):
    """Of a round of 40 samples, with two iterations of three steps each."""
    _, per_sample, per_step, per_round = PRIVATE[client]
    return 40 * per_sample + 6 * per_step + per_round


@pytest.fixture(scope="module", params=RULES)
def federation(request, tmp_path_factory):
    toy = make_toy(
        tmp_path_factory.mktemp(request.param), mechanism=f'mu = "inf"\nfigures = "{request.param}"', rounds=4
    )
    run_report, _ = toy.coordinate()
    return toy, run_report


def hits(client, round_number, model):
    arrived = [load(number, _Named(client)) for number in range(1, round_number + 1)]
    validation = tuple(np.concatenate(arrays) for arrays in zip(*(new.validation for new in arrived), strict=True))
    return evaluate(model, validation, None)


class _Named:
    def __init__(self, name):
        self.name = name


def test_the_table_is_what_the_members_measured_on_the_same_samples(federation):
    """From the models that were sent, each scored here on all validation samples that the member has by then."""
    toy, _ = federation
    for number, body in enumerate(bodies(toy.out), 1):
        models = {}
        for sent in toy.transport.sent:
            models |= {
                name.removeprefix("model/"): group
                for name, group in sent.message.groups.items()
                if name.startswith("model/")
            }
        questions = [s for s in toy.transport.sent if s.to_member and s.message.fields.get("round") == number]
        opened = next(q for q in questions if q.kind == "query.open").message.fields["models"][0]
        adopted = next(q for q in questions if q.kind == "query.report").message.fields["adopted"]
        for row in body["gains"]["table"]["rows"]:
            before, now = (hits(row["client"], number, models[digest]) for digest in (opened, adopted))
            assert row["sample_count"] == 12 * number
            assert row["gain"] == pytest.approx(now.mean() - before.mean(), abs=1e-12)
            assert row["squared_change"] == (now != before).sum()


def test_profits_follow_from_the_gains_and_nobody_learns_why(federation):
    toy, run_report = federation
    is_pooled = run_report.figures != "paired"
    for body, each in zip(bodies(toy.out), run_report.rounds, strict=True):
        rows = {
            row["client"]: PairedGain(
                gain=row["gain"], sample_count=row["sample_count"], squared_change=row["squared_change"]
            )
            for row in body["gains"]["table"]["rows"]
        }
        gains = pool(rows).values if is_pooled else {client: row.gain for client, row in rows.items()}
        expected = body["gains"]["expected"]
        for one in body["inputs"]:
            client = one["client"]
            assert one["profit"] == pytest.approx(PRIVATE[client][0] * gains[client] - spent(client), abs=1e-12)
            if expected is not None:
                told = PRIVATE[client][0] * expected[client] - spent(client)
                assert one["expected_profit"] == pytest.approx(told, abs=1e-12)
        assert sum(each.record.decision.transfers.values()) == pytest.approx(0, abs=1e-12)
    assert ("expected_profit" in body["inputs"][0]) == (expected is not None)
    said = (toy.home("north") / "log.txt").read_text()
    assert f"the utility follows from {'the gain pooled over all members' if is_pooled else 'it'}" in said
    sent = "".join(json.dumps(dict(s.message.fields)) for s in toy.transport.sent)
    assert not any(repr(figure) in sent for figures in PRIVATE.values() for figure in figures if figure not in (0, 1))


def tell(edit):
    """A coordinator that tells one member something else in a round; `edit` changes the document of gains."""

    def change(toy):
        carried = toy.transport._carried

        def carry(message, client, kind, *, to_member):
            if to_member and client == VICTIM and kind == "query.report" and message.fields["round"] == ROUND:
                gains = json.loads(message.fields["gains"])
                edit(gains)
                message = replace(message, fields={**message.fields, "gains": json.dumps(gains)})
            return carried(message, client, kind, to_member=to_member)

        toy.transport._carried = carry

    return change


def own_row(gains):
    return next(row for row in gains["table"]["rows"] if row["client"] == VICTIM)


def other_row(gains):
    return next(row for row in gains["table"]["rows"] if row["client"] != VICTIM)


LIES = {
    "another gain in its row": (lambda gains: own_row(gains).update(gain=0.5), "the row of east is 0.5"),
    "more samples in its row": (lambda gains: own_row(gains).update(sample_count=5000), "but east measured"),
    "other changes in its row": (lambda gains: own_row(gains).update(squared_change=1.5), "but east measured"),
    "no row for it": (lambda gains: gains["table"]["rows"].remove(own_row(gains)), "has no row of east"),
    "another pooled gain": (lambda gains: gains.update(pooled=gains["pooled"] + 0.1), "the pooled gain of east is"),
    "a pooled gain of another table": (lambda gains: other_row(gains).update(gain=-0.9), "the pooled gain of east is"),
    "a row that no measurement gives": (
        lambda gains: other_row(gains).update(sample_count=-29),
        "no measurement can give the row of",
    ),
    "a table of another round": (lambda gains: gains["table"].update(round=1), "it is not a table of round 2"),
    "another kind of metric": (lambda gains: gains["table"].update(bounded=False), "but east measured"),
    "a rule of the future": (lambda gains: gains["table"].update(version="pooled/9"), "'pooled/9' is not known"),
    "another rule than agreed": (lambda gains: gains["table"].update(version="paired/1"), "gains are pooled in this"),
    "a damaged table": (lambda gains: gains["table"].update(rows=None), "it cannot be read"),
}


def told(rows, round_number=ROUND):
    """What a coordinator tells the victim."""
    gains = used_gains("pooled/1", [rows])
    return {"table": gains.table_document(round_number), "pooled": gains.pooled[VICTIM], "expected": None}


@pytest.mark.parametrize("lie", LIES)
def test_what_is_wrong_with_a_table_is_said(lie):
    edit, reason = LIES[lie]
    rows = {
        name: PairedGain(gain=0.1 * place - 0.1, sample_count=24, squared_change=3.0)
        for place, name in enumerate(NAMES)
    }
    document = told(rows)
    fields = {"round": ROUND, "gains": json.dumps(document)}
    assert read_told(fields, VICTIM, rows[VICTIM], "pooled").gain.pooled == document["pooled"]
    edit(document)
    with pytest.raises(QuestionError, match=re.escape(reason)):
        read_told({**fields, "gains": json.dumps(document)}, VICTIM, rows[VICTIM], "pooled")
    assert read_told({"round": ROUND}, VICTIM, None, "measured") is None


@pytest.mark.parametrize("lie", ["another gain in its row", "another pooled gain"])
def test_a_member_signs_no_profit_by_a_wrong_table(tmp_path, lie):
    edit, reason = LIES[lie]
    toy = make_toy(tmp_path / "toy", mechanism='mu = "inf"\nfigures = "pooled"')
    tell(edit)(toy)
    run_report, said = toy.coordinate()
    assert [each.record.absent for each in run_report.rounds] == [(), (VICTIM,), ()]
    assert any(reason in line for line in said), said
    assert settled(toy.out)[ROUND]["absent"] == [VICTIM], "and the others' round is sound without it"


def test_another_table_than_everybody_elses_is_refused_by_the_coordinator(tmp_path):
    """A table that is consistent for the member, but not the others': the signed hash gives it away."""
    toy = make_toy(tmp_path / "toy", mechanism='mu = "inf"\nfigures = "pooled"')

    def edit(gains):
        other = next(row for row in gains["table"]["rows"] if row["client"] != VICTIM)
        other["gain"] = 0.25
        rows = {
            row["client"]: PairedGain(
                gain=row["gain"], sample_count=row["sample_count"], squared_change=row["squared_change"]
            )
            for row in gains["table"]["rows"]
        }
        gains["pooled"] = pool(rows).values[VICTIM]

    tell(edit)(toy)
    run_report, said = toy.coordinate()
    assert run_report.rounds[ROUND - 1].record.absent == (VICTIM,)
    assert any("its report was not signed with the key of its SuperNode" in line for line in said)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"expected_profit": 5.0}, "its expected profit must lie within its declared bounds -1 to 1"),
        ({"expected_profit": "much"}, "its expected_profit must be a finite number"),
        ({"expected_profit": 0.123}, "not signed"),
    ],
)
def test_an_expected_profit_is_checked_like_a_profit(tmp_path, fields, reason):
    toy = make_toy(tmp_path / "toy", mechanism='mu = "inf"\nfigures = "forecast"', rounds=1)

    def twist(kind, question, answer):
        if kind != "query.report":
            return answer
        lie = Message(fields={**answer.fields, **fields})
        return signed_again(toy, kind, question, lie, signer=VICTIM)

    toy.member(VICTIM).twist = twist
    _, said = toy.coordinate()
    assert any(reason in line for line in said), said


def with_other_metric(tmp_path, measured):
    """A federation in which one member signs another metric of a round's model than it measured."""
    toy = make_toy(tmp_path / "toy", mechanism='mu = "inf"\nfigures = "pooled"', rounds=2)

    def twist(kind, question, answer):
        if kind != "query.report" or question.fields["round"] != ROUND:
            return answer
        honest = json.loads((toy.home(VICTIM) / "reports" / "round-0002.json").read_text())["reports"][-1]["report"]
        assert honest["gain"]
        lie = {"measured": measured(honest["baseline"], honest["measured"])}
        key = NodeKey.read(toy.folder / "members" / VICTIM / "node-key")
        lie["signature"] = key.sign(canonical({**honest, **lie}))
        return signed_again(toy, kind, question, Message(fields={**answer.fields, **lie}), signer=VICTIM)

    toy.member(VICTIM).twist = twist
    return toy


def test_a_round_that_the_ledger_refuses_is_not_stored(tmp_path, monkeypatch):
    """Whatever the coordinator does not notice in a report: a stored round could neither be settled nor run again."""
    toy = with_other_metric(tmp_path, lambda baseline, measured: 0.9)
    monkeypatch.setattr("commonweal.remote.coordinator.report_reading.check_gain", lambda *checked, **options: None)
    with pytest.raises(LedgerError, match="Round 2 cannot be settled: the ledger would not be sound with it"):
        toy.coordinate()
    toy.member(VICTIM).twist = lambda kind, question, answer: answer
    toy.coordinate()
    assert sorted(settled(toy.out)) == [1, 2]


@pytest.mark.parametrize(
    "measured", [lambda baseline, measured: 0.9, lambda baseline, measured: 2 * baseline - measured]
)
def test_what_a_member_signs_of_both_models_gives_its_gain(tmp_path, measured):
    """Otherwise, one member would make the ledger unsound for good: by another metric, or one that falls."""
    toy = with_other_metric(tmp_path, measured)
    run_report, said = toy.coordinate()
    assert [each.record.absent for each in run_report.rounds] == [(), (VICTIM,)]
    assert any("its gain must be the change of the metric that it signs" in line for line in said), said
    assert settled(toy.out)[ROUND]["absent"] == [VICTIM]


@pytest.mark.parametrize("rule", first_few(1, ["forecast", "pooled", "paired"]))
def test_a_federation_that_was_killed_continues_as_if_it_had_not_been(tmp_path, rule, monkeypatch):
    mechanism = f'mu = "inf"\nfigures = "{rule}"'
    whole, killed = (make_toy(tmp_path / name, mechanism=mechanism, rounds=4) for name in ("whole", "killed"))
    whole.coordinate()
    measure_round = session.measure_round

    def stop_in_third(clients, plan, number, *rest, **options):
        if number == 3:
            raise KeyboardInterrupt
        return measure_round(clients, plan, number, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(session, "measure_round", stop_in_third)
        with pytest.raises(KeyboardInterrupt):
            killed.coordinate()
    killed.coordinate()
    assert settled(killed.out) == settled(whole.out)
    assert [body["gains"] for body in bodies(killed.out)] == [body["gains"] for body in bodies(whole.out)]


def test_gains_of_predictions_and_of_a_client_that_cannot_be_measured(tmp_path):
    """R² of one sample is undefined, so a member without more has no row; the squared change comes from the draws."""

    def scarce(round_number, member):
        new = load(round_number, member)
        few = 1 if member.name == "west" else None
        return replace(
            new,
            validation=tuple(
                array[:few] if round_number == 1 else array[: 0 if few else None] for array in new.validation
            ),
        )

    def predict(model, validation, context):
        x, y = validation
        return Predictions(targets=y, values=model["w"][0] * x + model["w"][1])

    toy = make_toy(
        tmp_path / "toy",
        mechanism='mu = "inf"\nfigures = "pooled"\n\n[task]\nmetric = "r2"',
        client_lines=dict.fromkeys(NAMES, "profit_bounds = [-1000.0, 1000.0]"),
    )
    for member in toy.transport.members.values():
        member.task = Task(load=scarce, train=TASK.train, evaluate=predict)
    toy.coordinate()
    for number, body in enumerate(bodies(toy.out), 1):
        table = body["gains"]["table"]
        assert table["bounded"] is False
        assert [row["client"] for row in table["rows"]] == ["north", "south", "east"]
        assert all(row["sample_count"] == 12 * number for row in table["rows"])
        west = next(one for one in body["inputs"] if one["client"] == "west")
        assert west["profit"] == pytest.approx(-(29 if number == 1 else 28) * PRIVATE["west"][1]), "utility 0"
    assert settled(toy.out)
