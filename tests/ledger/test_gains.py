"""Rounds whose profits follow from gains pooled over clients: anyone can compute those gains again from the ledger."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from commonweal.decision.decide import decide_figures
from commonweal.decision.mechanisms.paper import Paper
from commonweal.ledger.canonical import canonical, hash_of
from commonweal.ledger.reports import ReportBasis
from commonweal.ledger.rounds import RoundToSettle
from commonweal.ledger.statements import make_statement, read_statement, signed_statement
from commonweal.records import Figures, PairedGain, RoundRecord, Rules
from commonweal.report.statement import to_csv, to_html
from commonweal.valuation.used_gains import used_gains
from tests.ledger.sample_ledger import (
    CLIENT_KEYS,
    open_ledger,
    others_absent,
    parsed,
    rewritten,
    settle_by_force,
    tampering,
    verified,
)

AT = "2026-03-01T00:00:00.000000Z"
MEMBERS = {"ann": CLIENT_KEYS["ann"].public, "bob": CLIENT_KEYS["bob"].public, "cyd": None, "dan": None}


def row(gain, samples, changes):
    return PairedGain(gain=gain, sample_count=samples, squared_change=changes)


TABLES = (
    {"ann": row(0.4, 30, 12.0), "bob": row(0.1, 20, 6.0), "cyd": row(-0.05, 40, 10.0)},
    {"ann": row(0.1, 36, 8.0), "bob": row(0.05, 25, 5.0), "cyd": row(0.0, 45, 3.0), "dan": row(0.3, 20, 8.0)},
    {"ann": row(0.05, 40, 4.0), "bob": row(-0.1, 30, 3.0), "dan": row(0.02, 30, 2.0)},  # cyd's cannot be measured
)
CLIENTS = (("ann", "bob", "cyd"), ("ann", "bob", "cyd", "dan"), ("ann", "bob", "cyd", "dan"))


def settled_round(ledger, number, version, bases=None):
    gains = used_gains(version, TABLES[:number])
    clients, cost = CLIENTS[number - 1], 0.03

    def profits(used):
        return {client: used.get(client, 0.0) - cost for client in clients}

    figures = Figures(
        profits=profits(gains.pooled),
        contributions={client: 0.1 + 0.1 * place for place, client in enumerate(clients)},
        expected=None if gains.expected is None else profits(gains.expected),
    )
    record = RoundRecord(round_number=number, decision=decide_figures(figures, Rules(mu=float("inf"))), gains=gains)
    unsigned = RoundToSettle(
        record=record, rules_version=Paper.version, sample_counts=dict.fromkeys(clients, 50), bases=bases or {}
    )
    signatures = {c: unsigned.report(ledger, c).signed(CLIENT_KEYS[c]) for c in clients if MEMBERS[c] is not None}
    return replace(unsigned, signatures=signatures)


@pytest.fixture(params=["pooled/1", "forecast/1"])
def sample(request, tmp_path):
    made = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "operator")
    made.ledger.admit(MEMBERS)
    for number in (1, 2, 3):
        made.ledger.settle(others_absent(settled_round(made.ledger.identity, number, request.param), made.ledger))
    yield made
    made.store.close()


def findings_after(sample, entry, edit):
    """What verification finds after the operator changed an entry and signed everything again."""
    forged = rewritten(sample.entries(), lambda document: edit(document["body"]), entry, sample.keys.key_of)
    with tampering(sample.store) as attacker:
        for each in forged:
            attacker.put(each)
        return [finding.rule for finding in verified(attacker).findings]


def test_the_ledger_is_sound_and_holds_what_was_measured(sample):
    found = verified(sample.store)
    assert found.findings == ()
    assert found.signed_reports == 6
    body = parsed(sample.entries()[3])["body"]
    assert body["gains"]["table"]["newcomers"] == ["dan"]
    assert [(r["client"], r["gain"], r["sample_count"]) for r in body["gains"]["table"]["rows"]] == [
        (client, one.gain, one.sample_count) for client, one in TABLES[1].items()
    ]
    assert body["gains"]["pooled"]["dan"] == TABLES[1]["dan"].gain, "a newcomer stays out of the pool"


def test_settling_again_changes_nothing(sample):
    before = sample.entries()
    version = parsed(before[2])["body"]["gains"]["table"]["version"]
    sample.ledger.settle(settled_round(sample.ledger.identity, 2, version))
    assert sample.entries() == before


def test_clients_sign_the_canonical_table(sample):
    """As docs/reference/ledger.md describes it, without the code that signs."""
    body = parsed(sample.entries()[4])["body"]
    inputs = next(one for one in body["inputs"] if one["client"] == "bob")
    expected = body["gains"]["expected"]
    message = {
        "format": "commonweal.report/2",
        "book": sample.ledger.identity,
        "round": 3,
        "client": "bob",
        "profit": inputs["profit"],
        "sample_count": 50,
        "cost": None,
        "gain": -0.1,
        "validation_count": 30,
        "squared_change": 3,
        "gains": hash_of(canonical(body["gains"]["table"])),
        "pooled_gain": body["gains"]["pooled"]["bob"],
        "expected_gain": None if expected is None else expected["bob"],
        "expected_profit": inputs.get("expected_profit"),
    }
    assert CLIENT_KEYS["bob"].sign(canonical(message)) == inputs["signature"]


def test_gains_are_numbers(sample):
    """Python also reads them from texts."""

    def edit(body):
        body["gains"]["pooled"]["ann"] = str(body["gains"]["pooled"]["ann"])

    assert findings_after(sample, 5, edit) == ["gains are written in one way only"]


def change_row(client, **values):
    def edit(body):
        next(one for one in body["gains"]["table"]["rows"] if one["client"] == client).update(values)

    return edit


def change(name, client, by):
    def edit(body):
        body["gains"][name][client] += by

    return edit


SIGNED = "a report is signed by its client"
USED = "the gains used follow from those measured"


@pytest.mark.parametrize(
    ("edit", "rules"),
    [
        (change_row("cyd", gain=0.5), {SIGNED, f"{USED}: pooled"}),
        (change_row("cyd", sample_count=4000), {SIGNED, f"{USED}: pooled"}),
        (change_row("ann", squared_change=30.0), {SIGNED, f"{USED}: pooled"}),
        (change("pooled", "ann", 0.01), {SIGNED, f"{USED}: pooled"}),
        (change("pooled", "cyd", 0.01), {f"{USED}: pooled"}),
        (lambda body: body["gains"]["table"].update(newcomers=["ann"]), {SIGNED, "newcomers are in no earlier table"}),
        (lambda body: body["gains"]["table"].update(version="pooled/99"), {SIGNED, USED}),
        (lambda body: body["gains"]["table"].update(bounded=False), {SIGNED}),
        (lambda body: body["gains"]["table"].update(round=7), {"the table of gains is as clients signed it"}),
        (lambda body: body["gains"]["table"]["rows"].pop(), {SIGNED}),
        (lambda body: body.pop("gains"), {SIGNED}),
        (lambda body: body["gains"].pop("pooled"), {"the entry has everything that its kind needs"}),
        (lambda body: body.update(gains=None), {"the entry has everything that its kind needs"}),
    ],
)
def test_a_changed_gain_is_found_even_if_the_operator_signs_it(sample, edit, rules):
    assert rules <= set(findings_after(sample, 3, edit))


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"sample_count": 0}, "0 samples"),
        ({"sample_count": -29}, "-29 samples"),
        ({"squared_change": -30.0}, "a gain of -0.05 with squared changes of -30"),
        ({"gain": 30.0}, "a gain of 30 in a metric between 0 and 1"),
        ({"squared_change": 1e9}, "squared changes of 1e+09 on 40 samples"),
    ],
)
def test_a_row_that_no_measurement_gives_is_found(sample, changed, fault):
    """Nobody signs for cyd. Its row moves the gains, and so the profits, of everybody."""
    with tampering(sample.store) as attacker:
        told = rewritten(attacker.entries(), lambda document: change_row("cyd", **changed)(document["body"]), 3,
                         sample.keys.key_of)  # fmt: skip
        for entry in told[2:]:
            attacker.put(entry)
        found = [one.found for one in verified(attacker).findings if one.rule == "a gain is one that can be measured"]
    assert found == [fault]


def test_a_changed_forecast_is_found(sample):
    body = parsed(sample.entries()[4])["body"]
    if body["gains"]["expected"] is None:

        def pretend(body):
            for one in body["inputs"]:
                one["expected_profit"] = one["profit"]

        assert "profits are expected where gains are forecast" in findings_after(sample, 5, pretend)
        return
    assert {SIGNED, f"{USED}: expected"} <= set(findings_after(sample, 5, change("expected", "ann", 0.01)))
    assert f"{USED}: expected" in findings_after(sample, 5, change("expected", "dan", 0.01))
    assert f"{USED}: expected" in findings_after(sample, 5, lambda body: body["gains"].update(expected=None))

    def kept_by_a_wish(body):
        body["inputs"][0]["expected_profit"] = 1.0

    assert SIGNED in findings_after(sample, 5, kept_by_a_wish)


def test_a_rewritten_earlier_table_is_found_in_the_round_itself(sample):
    found = findings_after(sample, 3, change_row("cyd", gain=0.2))
    assert SIGNED in found


def test_a_statement_shows_measured_and_used_gain_side_by_side(sample, tmp_path):
    statement = make_statement(sample.store, "bob", at=AT)
    gains = used_gains(parsed(sample.entries()[2])["body"]["gains"]["table"]["version"], TABLES[:1])
    line = next(line for line in statement.lines if line.text.startswith("round 1"))
    assert (line.measured_gain, line.used_gain) == (0.1, gains.pooled["bob"])
    assert line.expected_gain == (None if gains.expected is None else gains.expected["bob"])
    file = tmp_path / "bob.json"
    file.write_bytes(signed_statement(sample.store, "bob", sample.keys, at=AT))
    read, signed = read_statement(file)
    assert signed.is_sound
    stated = tuple(replace(line, kind=None, round_number=None) for line in statement.lines)  # parts say it
    assert read == replace(statement, lines=stated)
    assert "measured_gain,used_gain" in to_csv(statement)
    assert '<th scope="col">used gain</th>' in to_html(statement)
    cyd = make_statement(sample.store, "cyd", at=AT)
    last = next(line for line in cyd.lines if line.text.startswith("round 3"))
    assert (last.measured_gain, last.used_gain) == (None, 0.0), "not measurable: nothing is known to be gained"


def test_a_round_on_measured_figures_signs_and_records_what_it_always_did(sample):
    gains_round = settled_round(sample.ledger.identity, 1, "pooled/1")
    plain = replace(gains_round, record=replace(gains_round.record, gains=None))
    document = {
        "format": "commonweal.report/1",
        "book": "b",
        "round": 1,
        "client": "ann",
        "profit": plain.record.decision.figures.profits["ann"],
        "sample_count": 50,
        "cost": None,
    }
    assert plain.report("b", "ann").message() == canonical(document)
    assert copy.deepcopy(plain).table is None


FROM_OPENING = "a gain is measured from the model that opened the round"
OPENS = "a round opens with the model of the round before"


def rests_on(ledger, number, **other):
    """What ann and bob sign of a round: both models, and what they measured on them."""
    given = {"model": f"{number:064x}", "opening_model": f"{number - 1:064x}", **other}
    first = other.get("baseline", 0.25 + 0.1 * number)  # measured anew in each round, on its own samples
    return {
        client: ReportBasis(
            number=1,
            attempt=f"{number}/1",
            terms=ledger.state.terms_hash,
            **{"measured": first + TABLES[number - 1][client].gain, **given, "baseline": first},
        )
        for client in ("ann", "bob")
    }


@pytest.mark.parametrize("version", ["pooled/1", "forecast/1"])
@pytest.mark.parametrize(
    ("other", "rules"),
    [
        ({}, []),
        ({"measured": 0.3}, [FROM_OPENING, FROM_OPENING]),
        ({"measured": None}, []),  # as earlier versions signed it
        ({"opening_model": "f" * 64}, [OPENS]),
    ],
)
def test_a_gain_is_that_of_both_models(tmp_path, version, other, rules):
    made = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "operator")
    made.ledger.admit(MEMBERS)
    for number, changed in ((1, {}), (2, other)):
        settled = settled_round(made.ledger.identity, number, version, rests_on(made.ledger, number, **changed))
        settle = settle_by_force if changed and rules else lambda made, settled: made.ledger.settle(settled)
        settle(made, others_absent(settled, made.ledger))
    assert [finding.rule for finding in verified(made.store).findings] == rules
    made.store.close()


def test_where_less_is_better_the_metric_falls(tmp_path):
    made = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "operator")
    made.ledger.admit(MEMBERS)
    falling = {
        client: replace(basis, measured=basis.baseline - TABLES[0][client].gain)
        for client, basis in rests_on(made.ledger, 1).items()
    }
    made.ledger.settle(others_absent(settled_round(made.ledger.identity, 1, "pooled/1", falling), made.ledger))
    assert verified(made.store).findings == ()
    made.store.close()
