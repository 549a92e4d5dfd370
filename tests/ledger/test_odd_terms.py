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
    return plain(amendment_body(amendment, signed_by(amendment, "ann", "bob"), sample.ledger.state))


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
