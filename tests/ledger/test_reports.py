"""Reports that say what they rest on: the ledger lists all that a client signed for a round, and verifies each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import canonical
from commonweal.ledger.later_head import contradiction
from commonweal.ledger.reports import ReportBasis, SignedReport
from commonweal.ledger.signed_files import head_document, signed_content
from tests.ledger.sample_ledger import (
    CLIENT_KEYS,
    STRANGER,
    open_ledger,
    parsed,
    rewritten,
    settle_by_force,
    signed_round,
    tampering,
    verified,
)

SIGNERS = ("ann", "bob")
FIGURES = {"ann": (0.5, 0.3, None), "bob": (0.2, 0.1, None), "cyd": (0.1, 0.2, None)}
ATTEMPTS = ("first/1", "first/2", "second/1")


def basis(number, terms, **other):
    given = {
        "attempt": ATTEMPTS[number - 1],
        "model": f"{number:064x}",
        "opening_model": "0" * 64,
        "baseline": 0.25,
        "settings": "5" * 64,
    }
    return ReportBasis(**{**given, **other}, number=number, terms=terms)


def reported(ledger, bases, round_number=1, profits=(0.9, -0.4), figures=FIGURES):
    """A round in which each signer's reports are these, the last of which counts; `profits` are of the earlier ones."""
    unsigned = signed_round(ledger.identity, round_number, figures)
    last, signatures = {}, {}
    for client, own in bases.items():
        report = unsigned.report(ledger.identity, client)
        earlier = []
        for each, profit in zip(own[:-1], profits, strict=False):
            document = replace(report, profit=profit, basis=each).document()
            earlier.append(SignedReport(document=document, signature=CLIENT_KEYS[client].sign(canonical(document))))
        last[client] = replace(own[-1], earlier=tuple(earlier))
        signatures[client] = replace(report, basis=last[client]).signed(CLIENT_KEYS[client])
    return replace(unsigned, bases=last, signatures=signatures)


@pytest.fixture
def sample(tmp_path):
    made = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "operator")
    made.ledger.admit({"ann": CLIENT_KEYS["ann"].public, "bob": CLIENT_KEYS["bob"].public, "cyd": None})
    yield made
    made.store.close()


def three(ledger):
    terms = ledger.state.terms_hash
    return {client: [basis(number, terms) for number in (1, 2, 3)] for client in SIGNERS}


@pytest.fixture
def settled(sample):
    sample.ledger.settle(reported(sample.ledger, three(sample.ledger)))
    return sample


def findings_after(sample, edit):
    """What verification finds after the operator changed the round and signed everything again."""
    forged = rewritten(sample.entries(), lambda document: edit(document["body"]), 3, sample.keys.key_of)
    with tampering(sample.store) as attacker:
        for each in forged:
            attacker.put(each)
        return [finding.rule for finding in verified(attacker).findings]


def test_all_reports_are_in_the_entry_and_it_is_sound(settled):
    assert verified(settled.store).findings == ()
    body = parsed(settled.entries()[2])["body"]
    assert body["terms"] == settled.ledger.state.terms_hash
    ann = body["inputs"][0]
    assert [(each["report"]["number"], each["report"]["profit"]) for each in ann["report"]["earlier"]] == [
        (1, 0.9),
        (2, -0.4),
    ]
    assert "report" not in body["inputs"][2], "cyd has no key, so it signs nothing"


def test_settling_it_again_changes_nothing(settled):
    assert not settled.ledger.settle(reported(settled.ledger, three(settled.ledger))).fresh


def hide_the_second(body):
    del body["inputs"][0]["report"]["earlier"][1]


def hide_the_first_two(body):
    body["inputs"][0]["report"]["earlier"] = []


def settle_an_earlier_one(body):
    """The second report, with everything that belongs to it, as if there were no third."""
    row = body["inputs"][0]
    second = row["report"]["earlier"].pop()
    row["profit"], row["signature"] = second["report"]["profit"], second["signature"]
    row["report"] |= {name: second["report"][name] for name in ("number", "attempt", "model")}


LISTED = "all reports that a client signed for a round are listed"
SIGNED = "an earlier report is signed by its client"
ONE = "all reports that count are of one attempt"
FORGERIES = {
    "a hidden report": (hide_the_second, LISTED),
    "hidden reports": (hide_the_first_two, LISTED),
    "a report of another attempt": (settle_an_earlier_one, ONE),
    "reports in another order": (lambda body: body["inputs"][0]["report"]["earlier"].reverse(), LISTED),
    "another profit in an earlier report": (
        lambda body: body["inputs"][0]["report"]["earlier"][0]["report"].update(profit=0.1), SIGNED,
    ),
    "another client's earlier reports": (
        lambda body: body["inputs"][0]["report"].update(earlier=body["inputs"][1]["report"]["earlier"]),
        "earlier reports are of this round",
    ),
    "another model": (lambda body: body["inputs"][0]["report"].update(model="f" * 64), ONE),
    "another model for all": (
        lambda body: [row["report"].update(model="f" * 64) for row in body["inputs"][:2]],
        "a report is signed by its client",
    ),
    "another baseline": (
        lambda body: body["inputs"][0]["report"].update(baseline=0.9), "a report is signed by its client",
    ),
    "other terms": (lambda body: body.update(terms="0" * 64), "reports name the terms in force"),
    "no terms": (lambda body: body.pop("terms"), "the entry has everything that its kind needs"),
    "a report without what it rests on": (
        lambda body: body["inputs"][0].pop("report"), "once reports say what they rest on, all do",
    ),
    "all reports without what they rest on": (
        lambda body: [row.pop("report", None) for row in body["inputs"]], "a report is signed by its client",
    ),
    "other settings": (
        lambda body: body["inputs"][0]["report"].update(settings="f" * 64), "all clients measure by the same settings",
    ),
    "other settings of all": (
        lambda body: [row["report"].update(settings="f" * 64) for row in body["inputs"][:2]],
        "a report is signed by its client",
    ),
    "settings that are none": (
        lambda body: body["inputs"][0]["report"].update(settings=5), "the entry has everything that its kind needs",
    ),
    "a number that is none": (
        lambda body: body["inputs"][0]["report"].update(number="3"), "the entry has everything that its kind needs",
    ),
    "a list that is none": (
        lambda body: body["inputs"][0]["report"].update(earlier=[5]), "the entry has everything that its kind needs",
    ),
    "a table in place of a list": (
        lambda body: body["inputs"][0]["report"].update(earlier={}), "the entry has everything that its kind needs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGERIES)
def test_verification_finds(settled, forgery):
    edit, rule = FORGERIES[forgery]
    found = findings_after(settled, edit)
    assert any(each.startswith(rule) for each in found), found


def test_two_reports_of_one_attempt_are_found(sample):
    terms = sample.ledger.state.terms_hash
    twice = {client: [basis(1, terms, attempt="first/2"), basis(2, terms, attempt="first/2")] for client in SIGNERS}
    with pytest.raises(LedgerError, match="a client reports once per attempt"):
        sample.ledger.settle(reported(sample.ledger, twice))


def test_a_round_that_is_settled_again_has_no_other_report_under_the_same_number(settled):
    settled.ledger.reverse_round(1, "an error")
    fewer = reported(settled.ledger, {client: own[:2] for client, own in three(settled.ledger).items()})
    with pytest.raises(LedgerError, match=r"one report per number and attempt .* report 2 of ann \(attempt first/2\)"):
        settled.ledger.settle(fewer)


def test_a_round_that_is_settled_again_with_the_same_reports_is_sound(settled):
    settled.ledger.reverse_round(1, "an error")
    settled.ledger.settle(reported(settled.ledger, three(settled.ledger)))
    assert verified(settled.store).findings == ()


def without_the_first(bases):
    return {**bases, "ann": [bases["ann"][1], bases["ann"][2]]}


def of_two_attempts(bases):
    return {**bases, "ann": bases["ann"][:2]}


def of_other_terms(bases):
    return {client: [replace(each, terms="0" * 64) for each in own] for client, own in bases.items()}


def by_other_settings(bases):
    return {**bases, "bob": [replace(each, settings="6" * 64) for each in bases["bob"]]}


def of_one_alone(bases):
    return {"ann": bases["ann"]}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (without_the_first, "reports 1 to 3 of ann"),
        (of_two_attempts, "are of one attempt"),
        (of_other_terms, "the terms in force"),
        (by_other_settings, "all clients measure by the same settings; expected 5+… as in the report of ann"),
        (of_one_alone, "The report of client 'bob' for round 1 is not signed"),
    ],
)
def test_such_a_round_is_not_settled(sample, edit, message):
    with pytest.raises(LedgerError, match=message):
        sample.ledger.settle(reported(sample.ledger, edit(three(sample.ledger))))
    assert sample.ledger.state.number == 2


def kept_head(sample, key=None, **other):
    """The content of a head that somebody kept, as the operator signed it."""
    document = {**head_document(sample.ledger.state, "2026-03-01T00:00:00.000000Z"), **other}
    return signed_content(document, key or sample.operator)


def test_a_head_beyond_the_ledger_or_with_another_hash_contradicts_it(settled):
    state = settled.ledger.state
    assert contradiction(settled.store, kept_head(settled), "x") == ""
    later = {"head": {"number": 7, "hash": "0" * 64}}
    assert "up to entry 7, but the ledger ends with entry 3" in contradiction(
        settled.store, kept_head(settled, **later), "x"
    )
    other = {"head": {"number": 2, "hash": state.head}}
    assert "another entry 2 than the ledger has" in contradiction(settled.store, kept_head(settled, **other), "x")
    for content in (
        kept_head(settled, STRANGER, **later),
        kept_head(settled, **later, book="0" * 64),
        kept_head(settled, **later).replace(b'"number": 7', b'"number": 8'),
        b"",
        b"\xff",
        b"[]",
    ):
        assert contradiction(settled.store, content, "x") == ""


@pytest.mark.parametrize(
    ("other", "rules"),
    [
        ({}, []),
        ({"baseline": 0.25}, ["utility is measured from what the client measured in its last settled round"] * 2),
        ({"opening_model": "0" * 64}, ["a round opens with the model of the round before"]),
    ],
)
def test_a_round_goes_on_from_the_one_before(sample, other, rules):
    terms = sample.ledger.state.terms_hash
    first = {client: [basis(1, terms, measured=0.5)] for client in SIGNERS}
    sample.ledger.settle(reported(sample.ledger, first))
    going_on = {"opening_model": f"{1:064x}", "baseline": 0.5, "measured": 0.625, **other}
    second = reported(sample.ledger, {client: [basis(1, terms, **going_on)] for client in SIGNERS}, round_number=2)
    if rules:
        settle_by_force(sample, second)
    else:
        sample.ledger.settle(second)
    assert [finding.rule for finding in verified(sample.store).findings] == rules


def test_clients_of_earlier_versions_sign_no_settings(sample):
    """Their reports verify as before, also beside reports with settings and as earlier reports of a round."""
    terms = sample.ledger.state.terms_hash
    second = {"attempt": ATTEMPTS[1], "model": f"{2:064x}"}
    bases = {
        "ann": [basis(1, terms, settings=None), basis(2, terms)],
        "bob": [basis(1, terms, settings=None, **second)],
    }
    sample.ledger.settle(reported(sample.ledger, bases))
    assert verified(sample.store).findings == ()
    ann, bob, _ = parsed(sample.entries()[2])["body"]["inputs"]
    assert ann["report"]["earlier"][0]["report"]["format"] == "commonweal.report/3"
    assert ann["report"]["settings"] == "5" * 64
    assert "settings" not in bob["report"]


def test_a_report_without_settings_does_not_hide_that_others_differ(tmp_path):
    """Neither one of an earlier version nor one of a client without a key, which the operator writes itself."""
    sample = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "operator")
    sample.ledger.admit({"cyd": None, "ann": CLIENT_KEYS["ann"].public, "bob": CLIENT_KEYS["bob"].public})
    terms = sample.ledger.state.terms_hash
    bases = {"ann": [basis(1, terms)], "bob": [basis(1, terms, settings="6" * 64)]}
    settled = reported(sample.ledger, bases, figures={name: FIGURES[name] for name in ("cyd", "ann", "bob")})
    settle_by_force(sample, replace(settled, bases={"cyd": basis(1, terms, settings=None), **settled.bases}))
    (finding,) = verified(sample.store).findings
    assert finding.rule == "all clients measure by the same settings"
    assert (finding.expected, finding.found) == (f"{'5' * 16}… as in the report of ann", f"{'6' * 16}… in that of bob")
    sample.store.close()


NAMED = "once reports name the settings of their clients, all do"


@pytest.mark.parametrize(("before", "is_found"), [("5" * 64, True), (None, False)])
def test_settings_that_are_not_named_any_more_are_found(sample, before, is_found):
    """A client of an earlier version never named them, which is noted if others do."""
    terms = sample.ledger.state.terms_hash
    bases = {"ann": [basis(1, terms)], "bob": [basis(1, terms, settings=before)]}
    sample.ledger.settle(reported(sample.ledger, bases))
    second = {"opening_model": f"{1:064x}"}
    bases = {"ann": [basis(1, terms, **second)], "bob": [basis(1, terms, settings=None, **second)]}
    settled = reported(sample.ledger, bases, round_number=2)
    if is_found:
        settle_by_force(sample, settled)
        assert [finding.rule for finding in verified(sample.store).findings] == [NAMED]
    else:
        sample.ledger.settle(settled)
        outcome = verified(sample.store)
        assert not outcome.findings
        assert [note.entry for note in outcome.notes if note.rule == NAMED] == [3, 4]


@pytest.mark.parametrize(("settings", "is_noted"), [("5" * 64, False), ("6" * 64, True)])
def test_other_settings_than_in_the_round_before_are_a_note(sample, settings, is_noted):
    terms = sample.ledger.state.terms_hash
    sample.ledger.settle(reported(sample.ledger, {client: [basis(1, terms)] for client in SIGNERS}))
    second = {"opening_model": f"{1:064x}", "settings": settings}
    bases = {client: [basis(1, terms, **second)] for client in SIGNERS}
    sample.ledger.settle(reported(sample.ledger, bases, round_number=2))
    outcome = verified(sample.store)
    assert outcome.findings == ()
    rule = "clients measure by the same settings in all rounds"
    assert [note.found for note in outcome.notes if note.rule == rule] == (
        ["6666666666666666… in the report of ann"] if is_noted else []
    )
