"""A late report comes after its round; a report in time cannot be entered as one to hide its receipt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import canonical
from commonweal.ledger.late_reports import Play
from commonweal.ledger.receipts import RECEIPT_FORMAT, ReportReceipt, receipt_document
from commonweal.ledger.reports import ReportBasis, SignedReport
from commonweal.ledger.rounds import draft_round
from commonweal.ledger.signed_files import signed_content, signed_in
from commonweal.ledger.verification.receipts import disproved_by_receipts
from commonweal.records import Rules
from tests.ledger.sample_ledger import (
    CLIENT_KEYS,
    next_document,
    parsed,
    sealed,
    signed_notice,
    tampering,
    verified,
)
from tests.ledger.test_terms import AGREED, GAINS, a_round, amendment_of, open_with, rules_found, signed_by

FREE = replace(AGREED, round_count=None, grace_rounds=0, profit_bounds={}, most_samples={}, silence_charge=500)
TWO = {client: GAINS[client] for client in ("ann", "cyd")}
NOT_LATE = "a late report is signed by a client that was silent in its round"


@pytest.fixture
def sample(tmp_path):
    made = open_with(tmp_path, FREE)
    yield made
    made.store.close()


def basis(sample, attempt="a/1", number=1, **other):
    terms = sample.ledger.state.terms_of(1).hash
    given = {"model": "m" * 64, "opening_model": "o" * 64, "baseline": 0.5, "terms": terms, "settings": "s" * 64}
    return ReportBasis(number=number, attempt=attempt, **given | other)


def calls_him_silent(sample):
    return sample.ledger.state.plays[1].entry


def settle_without_bob(sample, **options):
    settled = a_round(sample.ledger, 1, TWO, FREE, absent=("bob",), **options)
    sample.ledger.settle(replace(settled, record=replace(settled.record, silent=("bob",))))


def report_of_bob(sample, **options):
    report = a_round(sample.ledger, 1, GAINS, FREE, **options).report(sample.ledger.identity, "bob")
    return report.document(), report.signed(CLIENT_KEYS["bob"])


def refused_and_found(sample, document, signature, match):
    with pytest.raises(LedgerError, match=match):
        sample.ledger.report_late("bob", 1, document, signature)
    body = {"client": "bob", "round": 1, "report": document, "signature": signature}
    assert rules_found(sample, next_document(sample.entries(), "late-report", body)) == [NOT_LATE]


def test_only_a_report_is_a_late_report(sample):
    settle_without_bob(sample)
    notice = {"format": "commonweal.withdrawal/1", "book": sample.ledger.identity, "client": "bob", "round": 1}
    signature = CLIENT_KEYS["bob"].sign(canonical(notice))
    refused_and_found(sample, notice, signature, "it is not a report, but has the format 'commonweal.withdrawal/1'")


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"profit": None}, "it states no profit, but None"),
        ({"profit": "much"}, "it states no profit, but 'much'"),
        ({"model": None}, "its 'model' is missing or another one"),
        ({"remark": "next time"}, "its 'remark' is missing or another one"),
    ],
)
def test_a_late_report_has_the_fields_of_a_report(sample, changed, match):
    """Its member owes the report, not a paper that names the round."""
    settle_without_bob(sample, bases={"ann": basis(sample, "a/2")})
    bases = dict.fromkeys(("ann", "bob"), basis(sample, "a/3", entry=calls_him_silent(sample)))
    document = report_of_bob(sample, bases=bases)[0] | changed
    refused_and_found(sample, document, CLIENT_KEYS["bob"].sign(canonical(document)), match)


@pytest.mark.parametrize(
    ("attempt", "match"),
    [("a/2", "is not after a/2"), ("a/1", "is not after a/2"), ("b/3", "another opening"), ("a/x", "is not after")],
)
def test_a_report_of_the_settled_attempt_is_not_late(sample, attempt, match):
    settle_without_bob(sample, bases={"ann": basis(sample, "a/2")})
    bases = dict.fromkeys(("ann", "bob"), basis(sample, attempt, entry=calls_him_silent(sample)))
    refused_and_found(sample, *report_of_bob(sample, bases=bases), match)
    refused_and_found(sample, *report_of_bob(sample), "does not say what it rests on")


def test_a_report_after_the_settled_attempt_is_late(sample):
    settle_without_bob(sample, bases={"ann": basis(sample, "a/2")})
    bases = dict.fromkeys(("ann", "bob"), basis(sample, "a/3", number=2, entry=calls_him_silent(sample)))
    sample.ledger.report_late("bob", 1, *report_of_bob(sample, bases=bases))
    outcome = verified(sample.store)
    assert not outcome.findings
    assert [note.found for note in outcome.notes] == ["only report 2"], "his first report is nowhere"


@pytest.mark.parametrize(
    ("other", "match"),
    [
        ({"entry": None}, "does not name the entry that calls the client silent"),
        ({"entry": "0" * 64}, r"does not name the entry [0-9a-f]{16}…, which calls the client silent"),
        ({"opening_model": "x" * 64}, "its opening model is not that of the round"),
        ({"terms": "x" * 64}, "its terms is not that of the round"),
    ],
)
def test_a_report_in_time_or_of_another_play_is_not_late(sample, other, match):
    """The operator chooses attempts and dates; the hash of an entry cannot be known before the entry is made."""
    settle_without_bob(sample, bases={"ann": basis(sample, "a/1")})
    given = basis(sample, "a/2", **{"entry": calls_him_silent(sample)} | other)
    refused_and_found(sample, *report_of_bob(sample, bases=dict.fromkeys(("ann", "bob"), given)), match)


@pytest.mark.parametrize("others", ["without settings", "without what they rest on"])
def test_a_report_in_time_is_not_late_whatever_the_others_sign(sample, others):
    """Bob signs his settings, so he would sign the hash of the entry, too; the others sign less, or are made up."""
    settle_without_bob(sample, bases={"ann": basis(sample, settings=None)} if others == "without settings" else {})
    given = basis(sample, "a/2")
    match = "does not name the entry that calls the client silent"
    refused_and_found(sample, *report_of_bob(sample, bases=dict.fromkeys(("ann", "bob"), given)), match)


def test_one_report_without_settings_makes_no_round_of_an_earlier_version(sample):
    """Cyd has no key, so the operator writes his report."""
    no_settings = basis(sample, settings=None)
    settled = a_round(sample.ledger, 1, {"cyd": GAINS["cyd"], **TWO}, FREE, absent=("bob",))
    assert Play.of(draft_of(sample, settled, {"cyd": no_settings, "ann": basis(sample)}), "").settings
    assert not Play.of(draft_of(sample, settled, {"cyd": no_settings, "ann": no_settings}), "").settings


def draft_of(sample, settled, bases):
    return draft_round(replace(settled, bases=bases), sample.ledger.identity, sample.ledger.terms).body


def test_who_signed_settings_before_names_the_entry(sample):
    """In the round itself nobody signs anything; of bob it is known that he can."""
    sample.ledger.settle(a_round(sample.ledger, 1, GAINS, FREE, bases=dict.fromkeys(("ann", "bob"), basis(sample))))
    settled = a_round(sample.ledger, 2, {"cyd": GAINS["cyd"]}, FREE, absent=("ann", "bob"))
    sample.ledger.settle(replace(settled, record=replace(settled.record, silent=("bob",))))
    report = a_round(sample.ledger, 2, GAINS, FREE).report(sample.ledger.identity, "bob")
    document, signature = report.document(), report.signed(CLIENT_KEYS["bob"])
    rule = "a late report names the entry that calls its client silent"
    with pytest.raises(LedgerError, match=rule):
        sample.ledger.report_late("bob", 2, document, signature)
    body = {"client": "bob", "round": 2, "report": document, "signature": signature}
    assert rules_found(sample, next_document(sample.entries(), "late-report", body)) == [rule]


def test_a_late_report_of_an_earlier_version_is_noted(sample):
    """It signs no settings and no entry; of the round, neither do the others."""
    settle_without_bob(sample, bases={"ann": basis(sample, "a/1", settings=None)})
    document, signature = report_of_bob(
        sample, bases=dict.fromkeys(("ann", "bob"), basis(sample, "a/2", settings=None))
    )
    with pytest.raises(LedgerError, match="Update commonweal at the client"):
        sample.ledger.report_late("bob", 1, document, signature)
    body = {"client": "bob", "round": 1, "report": document, "signature": signature}
    with tampering(sample.store) as operator:
        operator.add(sealed(next_document(operator.entries(), "late-report", body), sample.operator))
        outcome = verified(operator)
    assert not outcome.findings
    assert "a late report names the entry that calls its client silent" in [note.rule for note in outcome.notes]


@pytest.mark.parametrize("is_played_again", [True, False])
def test_a_late_report_counts_whenever_its_round_is_settled_again(sample, is_played_again):
    first = basis(sample, "a/1")
    settle_without_bob(sample, bases={"ann": first})
    late = basis(sample, "a/2", entry=calls_him_silent(sample))
    sample.ledger.report_late("bob", 1, *report_of_bob(sample, bases=dict.fromkeys(("ann", "bob"), late)))
    sample.ledger.reverse_round(1, "an error")
    if is_played_again:
        earlier = a_round(sample.ledger, 1, TWO, FREE, bases={"ann": first}).report(sample.ledger.identity, "ann")
        signed = SignedReport(document=earlier.document(), signature=earlier.signed(CLIENT_KEYS["ann"]))
        first = basis(sample, "b/1", number=2, model="n" * 64, earlier=(signed,))
    settle_without_bob(sample, bases={"ann": first})
    with pytest.raises(LedgerError, match="'bob' has reported round 1 late, so it is not charged"):
        sample.ledger.charge("bob", 1)
    second = basis(sample, "c/1", opening_model=first.model)
    sample.ledger.settle(a_round(sample.ledger, 2, GAINS, FREE, bases=dict.fromkeys(("ann", "bob"), second)))
    assert not verified(sample.store).findings


@pytest.mark.parametrize(
    ("number", "attempt", "is_found"), [(1, "a/2", True), (1, "a/3", True), (2, "a/2", True), (2, "a/3", False)]
)
def test_two_late_reports_under_one_number_or_attempt_contradict_each_other(sample, number, attempt, is_found):
    """Also if the round was reversed and settled in the same way between them."""
    bases = {"ann": basis(sample, "a/1")}
    settle_without_bob(sample, bases=bases)
    late = basis(sample, "a/2", entry=calls_him_silent(sample))
    sample.ledger.report_late("bob", 1, *report_of_bob(sample, bases={"bob": late}))
    sample.ledger.reverse_round(1, "an error")
    settle_without_bob(sample, bases=bases)
    second = basis(sample, attempt, number, entry=calls_him_silent(sample))
    others = GAINS | {"bob": (0.07, *GAINS["bob"][1:])}
    report = a_round(sample.ledger, 1, others, FREE, bases={"bob": second}).report(sample.ledger.identity, "bob")
    document, signature = report.document(), report.signed(CLIENT_KEYS["bob"])
    assert not sample.ledger.report_late("bob", 1, document, signature).fresh
    body = {"client": "bob", "round": 1, "report": document, "signature": signature}
    found = rules_found(sample, next_document(sample.entries(), "late-report", body))
    assert found == ["a client signs one report per number and attempt of a round"] * is_found


@pytest.mark.parametrize("at", ["2026-01-01T00:00:00.000000Z", "2026-03-01T00:00:00.000000Z"])
def test_dates_that_the_operator_chooses_prove_nothing(sample, at):
    settle_without_bob(sample, bases={"ann": basis(sample, "a/1")})
    late = basis(sample, "a/2", entry=calls_him_silent(sample))
    document, signature = report_of_bob(sample, bases=dict.fromkeys(("ann", "bob"), late))
    sample.ledger.report_late("bob", 1, document, signature)
    assert not receipt_findings(sample, signature, at)


@pytest.mark.parametrize("in_time", [True, False])
def test_a_late_report_does_not_cancel_the_receipt_of_one_in_time(sample, in_time):
    settle_without_bob(sample)
    document, signature = report_of_bob(sample)
    sample.ledger.report_late("bob", 1, document, signature)
    settled, late = (parsed(entry)["at"] for entry in sample.entries()[-2:])
    found = receipt_findings(sample, signature, "2026-01-01T00:00:00.000000Z" if in_time else late)
    assert found == (["silent"] if in_time else [])
    assert settled < late


def receipt_findings(sample, signature, at):
    """What a receipt for bob's report of round 1 disproves."""
    return [finding.found for finding in said_by_receipt(sample, signature, at)[0]]


def said_by_receipt(sample, signature, at):
    receipt = receipt_document(ledger=sample.ledger.identity, round_number=1, client="bob", signature=signature, at=at)
    signed = signed_in(signed_content(receipt, sample.operator), "receipt", (RECEIPT_FORMAT,))
    outcome = verified(sample.store)
    receipts = [ReportReceipt.of(signed, "receipt")]
    return disproved_by_receipts(sample.store, outcome.state, receipts, outcome.operators)


ALL_DAY = "2025-12-31T23:59:59.000000Z", "2027-01-01T00:00:00.000000Z"  # before and after all entries


@pytest.mark.parametrize("has_consequences", [False, True])
@pytest.mark.parametrize("at", ALL_DAY)
def test_a_receipt_speaks_of_a_settlement_that_was_reversed(sample, at, has_consequences):
    """The round was corrected with bob's report; but while it called him absent, something was entered that stands."""
    on = basis(sample, "a/1")
    sample.ledger.settle(a_round(sample.ledger, 1, TWO, FREE, absent=("bob",), bases={"ann": on}))
    if has_consequences:
        amendment = amendment_of(sample.ledger.state, rules=Rules(mu=1.0))
        sample.ledger.amend(amendment, signed_by(amendment, "ann", "bob"))
    sample.ledger.reverse_round(1, "bob's report was overlooked")
    sample.ledger.settle(a_round(sample.ledger, 1, GAINS, FREE, bases=dict.fromkeys(("ann", "bob"), on)))
    signature = parsed(sample.entries()[-1])["body"]["inputs"][1]["signature"]
    findings, notes = said_by_receipt(sample, signature, at)
    said = [(each.entry, each.found) for each in (findings if has_consequences else notes)]
    assert said == [(3, "absent")]
    assert not (notes if has_consequences else findings)


@pytest.mark.parametrize("at", ALL_DAY)
def test_a_receipt_does_not_speak_of_a_settlement_before_it(sample, at):
    """Bob was absent, the round was reversed, and he reported another attempt."""
    first = basis(sample, "a/1")
    before = a_round(sample.ledger, 1, TWO, FREE, absent=("bob",), bases={"ann": first})
    sample.ledger.settle(before)
    amendment = amendment_of(sample.ledger.state, rules=Rules(mu=1.0))
    sample.ledger.amend(amendment, signed_by(amendment, "ann", "bob"))
    sample.ledger.reverse_round(1, "bob can report now")
    earlier = SignedReport(
        document=before.report(sample.ledger.identity, "ann").document(), signature=before.signatures["ann"]
    )
    bases = {"ann": basis(sample, "b/1", number=2, earlier=(earlier,)), "bob": basis(sample, "b/1")}

    sample.ledger.settle(a_round(sample.ledger, 1, GAINS, FREE, bases=bases))
    signature = parsed(sample.entries()[-1])["body"]["inputs"][1]["signature"]
    assert len(said_by_receipt(sample, signature, at)[0]) == (at == ALL_DAY[0]), "unless it is dated before it"


# What is decided between a late report and its entry. Entries are dated one second apart, from 00:00:02 on.

CHARGED_BEFORE = "who reports late is not charged"
SETTLED, CHARGED = "2026-01-01T00:00:02.500000Z", "2026-01-01T00:00:03.000000Z"


def reported_late(sample):
    """Bob is silent in round 1, and his late report is in the operator's hands."""
    settle_without_bob(sample, bases={"ann": basis(sample, "a/1")})
    late = basis(sample, "a/2", entry=calls_him_silent(sample))
    return report_of_bob(sample, bases=dict.fromkeys(("ann", "bob"), late))


@pytest.mark.parametrize("at", [SETTLED, CHARGED, "in the morning"])
def test_who_reported_late_is_not_charged_before_the_report_is_entered(sample, at):
    document, signature = reported_late(sample)
    entry = sample.ledger.charge("bob", 1).entry
    assert parsed(sample.entries()[-1])["at"] == CHARGED
    late = sample.ledger.report_late("bob", 1, document, signature).entry
    findings, notes = said_by_receipt(sample, signature, at)
    assert [(each.entry, each.found) for each in findings] == [(entry, f"a charge of {CHARGED}")] * (at != CHARGED)
    assert not notes
    noted = [(note.entry, note.found) for note in verified(sample.store).notes if note.rule == CHARGED_BEFORE]
    assert noted == [(late, "its report after that, which may have come before the charge")]


def test_a_charge_that_is_taken_back_leaves_nothing_to_say_of_the_late_report(sample):
    document, signature = reported_late(sample)
    entry = sample.ledger.charge("bob", 1).entry
    sample.ledger.report_late("bob", 1, document, signature)
    sample.ledger.reverse(entry, "the report had come before")
    assert said_by_receipt(sample, signature, SETTLED) == ((), ())
    assert CHARGED_BEFORE not in [note.rule for note in verified(sample.store).notes]


@pytest.mark.parametrize("at", [SETTLED, "2026-01-01T00:00:03.500000Z"])
def test_a_round_without_a_member_that_had_reported_late_is_noted(sample, at):
    """It is kept out until its report is entered; the coordinator may have been interrupted, and the member away."""
    document, signature = reported_late(sample)
    for number in (2, 3):
        on = basis(sample, f"{number}/1", opening_model="m" * 64)
        sample.ledger.settle(a_round(sample.ledger, number, TWO, FREE, absent=("bob",), bases={"ann": on}))
    sample.ledger.report_late("bob", 1, document, signature)
    findings, notes = said_by_receipt(sample, signature, at)
    assert not findings
    told = [(note.entry, note.found) for note in notes]
    first = 2 if at == SETTLED else 3
    assert told == [(sample.ledger.state.rounds[first], f"bob absent from round {first}, and its report entered later")]


def test_an_old_notice_does_not_hide_a_report_of_a_later_round(sample):
    """Bob gave notice, stayed and reported; the operator enters the notice before it settles the round."""
    report = a_round(sample.ledger, 1, GAINS, FREE).report(sample.ledger.identity, "bob")
    sample.ledger.withdraw("bob", 0, signed_notice(sample.ledger.identity, "bob", 0))
    sample.ledger.settle(a_round(sample.ledger, 1, TWO, FREE))
    assert not verified(sample.store).findings
    signature = report.signed(CLIENT_KEYS["bob"])
    assert receipt_findings(sample, signature, "2026-01-01T00:00:01.500000Z") == ["another report, or none"]
