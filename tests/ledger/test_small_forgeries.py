"""Small things that an operator could write into a ledger with terms, and that nobody should take for sound."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from commonweal.errors import InputError, LedgerError
from commonweal.ledger.entries import Posting, postings_of
from commonweal.ledger.rounds import draft_round
from tests.ledger.sample_ledger import CLIENT_KEYS, next_document, sealed, tampering, verified
from tests.ledger.test_terms import AGREED, GAINS, a_round, open_with

FREE = replace(AGREED, round_count=None, grace_rounds=0, profit_bounds={}, most_samples={})


@pytest.fixture
def sample(tmp_path):
    made = open_with(tmp_path, FREE, settlement="accruals")
    yield made
    made.store.close()


def outcome_of(sample, document: dict[str, Any]):
    """The rules that findings and notes name if the operator adds this document."""
    with tampering(sample.store) as forger:
        forger.add(sealed(document, sample.operator))
        outcome = verified(forger)
    return [each.rule for each in outcome.findings], [each.rule for each in outcome.notes]


def forged_round(sample, edit):
    draft = draft_round(a_round(sample.ledger, 1, GAINS, FREE), sample.ledger.identity, sample.ledger.terms)
    body = copy.deepcopy(dict(draft.body))
    edit(body)
    return next_document(sample.entries(), "round", body, draft.postings)


def test_a_signature_of_a_client_that_has_no_key(sample):
    document = forged_round(sample, lambda body: body["inputs"][2].update(signature="ab" * 64))
    assert outcome_of(sample, document) == (["a client without a key signs nothing"], [])
    settled = a_round(sample.ledger, 1, GAINS, FREE)
    with pytest.raises(LedgerError, match="'cyd' was admitted without a key, so its report must not be signed"):
        sample.ledger.settle(replace(settled, signatures={**settled.signatures, "cyd": "ab" * 64}))


def test_evidence_of_one_client_three_times(sample):
    row = {"client": "ann", "profit_error": 0.1, "contribution_error": None, "same_count": 1, "draw_count": 1}
    document = forged_round(sample, lambda body: body.update(evidence=[row] * 3))
    assert outcome_of(sample, document) == (["evidence is about each client once"], [])


def test_a_date_in_the_future(sample):
    document = forged_round(sample, lambda body: None) | {"at": "9999-12-31T23:59:59.999999Z"}
    assert outcome_of(sample, document) == ([], ["dates are not in the future"])


@pytest.mark.parametrize("name", ["", " ann", "a" * 300])
def test_names_that_no_member_can_have(sample, name):
    document = next_document(sample.entries(), "admission", {"members": [{"client": name, "key": None}]})
    findings, notes = outcome_of(sample, document)
    assert (findings, "members have names that can be told apart" in notes) == ([], True)


def test_an_admission_of_nobody(sample):
    document = next_document(sample.entries(), "admission", {"members": []})
    assert outcome_of(sample, document) == (["an admission admits somebody"], [])


@pytest.mark.parametrize("whose", ["ann", "the operator"])
def test_a_key_that_somebody_else_signs_with(sample, whose):
    key = sample.operator.public if whose == "the operator" else CLIENT_KEYS["ann"].public
    document = next_document(sample.entries(), "admission", {"members": [{"client": "zed", "key": key}]})
    findings, notes = outcome_of(sample, document)
    assert not findings
    assert "members have keys of their own" in notes
    with pytest.raises(InputError, match=f"The key of client 'zed' is also that of {whose}"):
        sample.ledger.admit({"zed": key})


@pytest.mark.parametrize(("reference", "is_finding"), [("", True), (" ", True), ("invoice-7 ", False)])
def test_references_that_are_none_or_look_like_another(sample, reference, is_finding):
    sample.ledger.settle(a_round(sample.ledger, 1, GAINS, FREE))
    sample.ledger.realise(1000, "invoice-7")
    with pytest.raises(InputError, match="no spaces around it"):
        sample.ledger.realise(1000, reference)
    parts = sample.ledger.state.divided(1000)
    postings = [Posting("model-income", -1000), *(Posting(f"clients/{name}", part) for name, part in parts.items())]
    document = next_document(sample.entries(), "realisation", {"reference": reference, "amount": "1000"}, postings)
    findings, notes = outcome_of(sample, document)
    assert (findings if is_finding else notes) == ["a reference is a short text"]


def test_a_reversal_without_a_reason(sample):
    entry = sample.ledger.settle(a_round(sample.ledger, 1, GAINS, FREE)).entry
    opposite = [replace(each, amount=-each.amount) for each in postings_of(sample.ledger.document(entry))]
    document = next_document(sample.entries(), "reversal", {"entry": entry, "reason": ""}, opposite)
    assert outcome_of(sample, document)[0] == ["a reversal has a reason"]
