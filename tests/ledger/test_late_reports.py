"""A late report comes after its round; a report in time cannot be entered as one to hide its receipt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import canonical
from commonweal.ledger.receipts import RECEIPT_FORMAT, ReportReceipt, receipt_document
from commonweal.ledger.reports import ReportBasis
from commonweal.ledger.signed_files import signed_content, signed_in
from commonweal.ledger.verification.receipts import disproved_by_receipts
from tests.ledger.sample_ledger import CLIENT_KEYS, next_document, parsed, verified
from tests.ledger.test_terms import AGREED, GAINS, a_round, open_with, rules_found

FREE = replace(AGREED, round_count=None, grace_rounds=0, profit_bounds={}, most_samples={}, silence_charge=500)
TWO = {client: GAINS[client] for client in ("ann", "cyd")}
NOT_LATE = "a late report is signed by a client that was silent in its round"


@pytest.fixture
def sample(tmp_path):
    made = open_with(tmp_path, FREE)
    yield made
    made.store.close()


def basis(sample, attempt="a/1", number=1):
    terms = sample.ledger.state.terms_hash
    return ReportBasis(
        number=number, attempt=attempt, model="m" * 64, opening_model="o" * 64, baseline=0.5, terms=terms
    )


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
    ("attempt", "match"),
    [("a/2", "is not after a/2"), ("a/1", "is not after a/2"), ("b/3", "another opening"), ("a/x", "is not after")],
)
def test_a_report_of_the_settled_attempt_is_not_late(sample, attempt, match):
    settle_without_bob(sample, bases={"ann": basis(sample, "a/2")})
    bases = {client: basis(sample, attempt) for client in ("ann", "bob")}
    refused_and_found(sample, *report_of_bob(sample, bases=bases), match)
    refused_and_found(sample, *report_of_bob(sample), "does not say what it rests on")


def test_a_report_after_the_settled_attempt_is_late(sample):
    settle_without_bob(sample, bases={"ann": basis(sample, "a/2")})
    bases = {client: basis(sample, "a/3", number=2) for client in ("ann", "bob")}
    sample.ledger.report_late("bob", 1, *report_of_bob(sample, bases=bases))
    outcome = verified(sample.store)
    assert not outcome.findings
    assert [note.found for note in outcome.notes] == ["only report 2"], "his first report is nowhere"


@pytest.mark.parametrize("in_time", [True, False])
def test_a_late_report_does_not_cancel_the_receipt_of_one_in_time(sample, in_time):
    settle_without_bob(sample)
    document, signature = report_of_bob(sample)
    sample.ledger.report_late("bob", 1, document, signature)
    settled, late = (parsed(entry)["at"] for entry in sample.entries()[-2:])
    receipt = receipt_document(
        ledger=sample.ledger.identity,
        round_number=1,
        client="bob",
        signature=signature,
        at="2026-01-01T00:00:00.000000Z" if in_time else late,
    )
    signed = signed_in(signed_content(receipt, sample.operator), "receipt", (RECEIPT_FORMAT,))
    outcome = verified(sample.store)
    receipts = [ReportReceipt.of(signed, "receipt")]
    findings, _ = disproved_by_receipts(sample.store, outcome.state, receipts, outcome.operators)
    assert [finding.found for finding in findings] == (["silent"] if in_time else [])
    assert settled < late
