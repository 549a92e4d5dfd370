"""Terms that are written in another way than commonweal writes them, and ledgers that are damaged in their terms."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from commonweal.ledger.amendments import amendment_body
from commonweal.ledger.canonical import canonical, parse
from commonweal.records import Rules
from tests.ledger.sample_ledger import next_document, rewritten, sealed, tampering, verified
from tests.ledger.test_terms import AGREED, GAINS, a_round, amendment_of, open_with, signed_by

FREE = replace(AGREED, round_count=None, grace_rounds=0, profit_bounds={}, most_samples={})


@pytest.fixture
def sample(tmp_path):
    made = open_with(tmp_path, replace(FREE, silence_charge=777))
    yield made
    made.store.close()


def plain(document: Any) -> dict[str, Any]:
    """The document as JSON reads it."""
    read = parse(canonical(document).decode())
    assert read is not None
    return read


def rules_found(sample, *documents):
    with tampering(sample.store) as forger:
        for document in documents:
            forger.add(sealed(document, sample.operator))
        return [finding.rule for finding in verified(forger).findings]


def amendment_body_of(sample):
    amendment = amendment_of(sample.ledger.state, rules=Rules(mu=0.2))
    return plain(amendment_body(amendment, signed_by(amendment, "ann", "bob")))


# Damage that led to a traceback.


@pytest.mark.parametrize("first_round", ["2", None, 2.5, True, [2]])
def test_an_amendment_from_a_round_that_is_no_number(sample, first_round):
    sample.ledger.settle(a_round(sample.ledger, 1, GAINS, FREE))
    body = amendment_body_of(sample) | {"first_round": first_round}
    found = rules_found(sample, next_document(sample.entries(), "amendment", body))
    assert "the entry has everything that its kind needs" in found


def test_a_charge_in_a_ledger_with_a_damaged_opening(sample):
    settled = a_round(sample.ledger, 1, {client: GAINS[client] for client in ("ann", "cyd")}, FREE, absent=("bob",))
    sample.ledger.settle(replace(settled, record=replace(settled.record, silent=("bob",))))
    sample.ledger.charge("bob", 1)
    told = rewritten(
        sample.entries(), lambda document: document["body"]["terms"].update(currency="eur"), 1, sample.keys.key_of
    )
    with tampering(sample.store) as forger:
        for entry in told:
            forger.put(entry)
        findings = verified(forger).findings
    assert "the entry has everything that its kind needs" in {each.rule for each in findings if each.entry == 1}


# Terms that Python reads, and that nobody would.

ODD_TERMS = {
    "worth": (100000.9, "1_000", "\u0661\u0660\u0660", "0100", " 100", True),
    "minor_digits": (True, 1.5, "2"),
    "largest_share": (True, "2"),
    "currency": (None,),
}
ODD_AGREED = {
    "silence_charge": ("1_00", 99.9, 777, True),
    "quorum": (True,),
    "grace_rounds": (True, 0.5),
}
ODD_RULES = {
    "mu": ("0.05", True, "Infinity", "5e-2"),
    "version": (7,),
    "parameters": ({"note": "the operator may choose mu"}, {}),
    "mechanism": ("paper",),
    "contribution_rule": ("none of these", None),
    "loss_rule": ("none of these",),
    "liability_cap": ("0.5", False),
}
LEFT_OUT = ["currency", "minor_digits", "settlement", "largest_share"]
LEFT_OUT_OF_AGREED = ["quorum", "grace_rounds", "settlement_version", "silence_limit"]


def edits():
    for path, odd in (((), ODD_TERMS), (("agreed",), ODD_AGREED), (("agreed", "rules"), ODD_RULES)):
        for name, values in odd.items():
            for value in values:
                yield pytest.param(path, {name: value}, (), id=f"{name} {value!a}")
    for path, names in (((), LEFT_OUT), (("agreed",), LEFT_OUT_OF_AGREED)):
        for name in names:
            yield pytest.param(path, {}, (name,), id=f"no {name}")


def edit_terms(terms, path, changed, left_out):
    for name in path:
        terms = terms[name]
    terms.update(copy.deepcopy(changed))
    for name in left_out:
        del terms[name]


@pytest.mark.parametrize(("path", "changed", "left_out"), list(edits()))
def test_an_opening_in_other_words(sample, path, changed, left_out):
    told = rewritten(
        sample.entries(),
        lambda document: edit_terms(document["body"]["terms"], path, changed, left_out),
        1,
        sample.keys.key_of,
    )
    with tampering(sample.store) as forger:
        for entry in told:
            forger.put(entry)
        assert {finding.entry for finding in verified(forger).findings} >= {1}


@pytest.mark.parametrize(("path", "changed", "left_out"), list(edits()))
def test_an_amendment_in_other_words(sample, path, changed, left_out):
    """Members signed the terms as commonweal writes them, so the signatures fit the entry all the same."""
    body = amendment_body_of(sample)
    assert rules_found(sample, next_document(sample.entries(), "amendment", body)) == []
    edit_terms(body["terms"], path, changed, left_out)
    assert rules_found(sample, next_document(sample.entries(), "amendment", body))


def test_an_amendment_whose_number_is_true(sample):
    body = amendment_body_of(sample) | {"amendment": True}
    assert rules_found(sample, next_document(sample.entries(), "amendment", body))


def test_terms_in_other_words_where_there_were_none(tmp_path):
    sample = open_with(tmp_path, None)
    terms = plain(replace(sample.ledger.terms, agreed=FREE).to_document())
    assert rules_found(sample, next_document(sample.entries(), "terms", {"terms": terms})) == []
    terms["agreed"]["rules"]["version"] = 7
    found = rules_found(sample, next_document(sample.entries(), "terms", {"terms": terms}))
    assert found == ["terms are written in one way only"]
    sample.store.close()


@pytest.mark.parametrize("limit", ["profit_bounds", "most_samples"])
def test_a_limit_for_a_name_that_nobody_has_is_noted(tmp_path, limit):
    """This one has a Cyrillic a: people would take it for that of ann."""
    value = {"profit_bounds": (-0.1, 0.1), "most_samples": 5}[limit]
    sample = open_with(tmp_path, replace(FREE, **{limit: {"\u0430nn": value}}))
    sample.ledger.settle(a_round(sample.ledger, 1, GAINS, FREE))
    result = verified(sample.store)
    assert not result.findings
    (note,) = result.notes
    assert (note.rule, note.expected) == ("terms name members", f"a member in {limit}")
    assert note.found == r"'\u0430nn', which is none"
    sample.store.close()
