"""Entries whose values Python can use, but that other commands cannot read; and keys that come back."""

from __future__ import annotations

import copy
from dataclasses import asdict, replace

import pytest
from sqlalchemy import text

from commonweal.ledger.chain import rotation_message
from commonweal.ledger.entries import Posting
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.money import LARGEST_AMOUNT, in_proportion
from commonweal.ledger.readable import check_readable
from commonweal.ledger.rounds import draft_round
from tests.cli.conftest import run_here
from tests.ledger.sample_ledger import CLIENT_KEYS, ENTRIES, next_document, sealed, tampering, verified
from tests.ledger.test_odd_terms import FREE
from tests.ledger.test_order_of_rounds import FLI, KEYS, by_fli
from tests.ledger.test_terms import GAINS, a_round, open_with

NOT_LATE = "a late report is signed by a client that was silent in its round"
AMENDED = dict.fromkeys(("book", "terms_before"), "") | {"amendment": 1, "first_round": 2, "terms": {}}
AMENDED |= {"members": [], "signatures": []}
TYPES = "values have the types that their readers count on"


@pytest.fixture
def sample(tmp_path):
    made = open_with(tmp_path, FREE, settlement="accruals")
    yield made
    made.store.close()


def rules_found(sample, kind, body, postings=()):
    with tampering(sample.store) as forger:
        forger.add(sealed(next_document(sample.entries(), kind, body, postings), sample.operator))
        return [finding.rule for finding in verified(forger).findings]


@pytest.mark.parametrize("reason", [5, None, ["a", ["b"]], True])
def test_a_reason_that_is_no_text(sample, reason):
    sample.ledger.settle(a_round(sample.ledger, 1, GAINS, FREE))
    postings = [Posting(account, -int(amount)) for account, amount in sample.ledger.document(3)["postings"]]
    assert rules_found(sample, "reversal", {"entry": 3, "reason": "late"}, postings) == []
    assert rules_found(sample, "reversal", {"entry": 3, "reason": reason}, postings) == [TYPES]
    assert rules_found(sample, "reversal", {"entry": 3}, postings) == [TYPES]


def test_amounts_that_no_balance_can_have(sample, tmp_path):
    """Python reads and writes 4,300 digits, but not the sum of two such numbers."""
    document = next_document(sample.entries(), "withdrawal", {"client": "zed", "round": 1, "signature": None})
    document["postings"] = [[account, f"{sign}{'9' * 4300}"] for account, sign in ("a+", "a+", "b-", "b-")]
    entry = sealed(document, sample.operator)
    with sample.store.engine.begin() as connection:
        insert = (
            f"INSERT INTO {ENTRIES} (number, content, hash, signature) VALUES (:number, :content, :hash, :signature)"
        )
        connection.execute(text(insert), asdict(entry))
    assert verified(sample.store).findings
    for command in ("verify", "balances", "show"):
        said = run_here(["ledger", command, sample.location], tmp_path)  # a traceback would raise
        assert said.returncode in (1, 2), said.stdout


@pytest.mark.parametrize("reference", [5, None, True])
def test_a_reference_that_is_no_text(sample, reference):
    sample.ledger.settle(a_round(sample.ledger, 1, GAINS, FREE))
    parts = in_proportion(1000, sample.ledger.state.weights(), turn=0)
    postings = [Posting("model-income", -1000), *(Posting(f"clients/{name}", part) for name, part in parts.items())]
    assert rules_found(sample, "realisation", {"reference": "invoice", "amount": "1000"}, postings) == []
    assert rules_found(sample, "realisation", {"reference": reference, "amount": "1000"}, postings) == [TYPES]


@pytest.mark.parametrize("client", [5, None, True])
def test_a_client_whose_name_is_no_text(sample, client):
    assert rules_found(sample, "admission", {"members": [{"client": client, "key": None}]}) == [TYPES]


ODD_INPUTS = [("profit", "0.1"), ("contribution", "0.2"), ("contribution", " 2e-1 ")]
ODD_INPUTS += [("sample_count", "many"), ("sample_count", -5), ("sample_count", True)]


@pytest.mark.parametrize(("name", "value"), ODD_INPUTS)
def test_a_figure_that_is_no_number(sample, name, value):
    """Of a client without a key, whose figures no signature covers."""
    draft = draft_round(a_round(sample.ledger, 1, GAINS, FREE), sample.ledger.identity, sample.ledger.terms)
    body = copy.deepcopy(dict(draft.body))
    assert rules_found(sample, "round", body, draft.postings) == []
    body["inputs"][2][name] = value
    assert TYPES in rules_found(sample, "round", body, draft.postings)


def test_absent_is_a_list(sample):
    draft = draft_round(a_round(sample.ledger, 1, GAINS, FREE), sample.ledger.identity, sample.ledger.terms)
    assert rules_found(sample, "round", {**draft.body, "absent": ""}, draft.postings) == [TYPES]


def test_silent_is_a_list(tmp_path):
    """Python also reads a text as the list of its letters."""
    sample = open_with(tmp_path, FREE, members={"a": None, "b": None, "c": None})
    settled = a_round(sample.ledger, 1, {"a": (0.3, 0.5, None)}, FREE, absent=("b", "c"))
    draft = draft_round(settled, sample.ledger.identity, sample.ledger.terms)
    assert rules_found(sample, "round", {**draft.body, "silent": ["b", "c"]}, draft.postings) == []
    assert rules_found(sample, "round", {**draft.body, "silent": "bc"}, draft.postings) == [TYPES]
    sample.store.close()


def test_a_retired_key_does_not_come_back(sample):
    first, second = sample.operator, SigningKey.from_seed(b"the operator's next signing key.")
    entries, told = sample.entries(), []
    for key, signer in ((second, first), (first, second)):
        proof = key.sign(rotation_message(sample.ledger.identity, key.public))
        document = next_document([*entries, *told], "key-rotation", {"operator": key.public, "proof": proof})
        told.append(sealed(document, signer))
    with tampering(sample.store) as forger:
        forger.add(told[0])
        assert verified(forger).findings == ()
        forger.add(told[1])
        assert [each.rule for each in verified(forger).findings] == ["a key that was retired stays retired"]


def test_a_key_is_not_changed_to_itself(sample):
    key = sample.operator
    proof = key.sign(rotation_message(sample.ledger.identity, key.public))
    found = rules_found(sample, "key-rotation", {"operator": key.public, "proof": proof})
    assert found == ["a key that was retired stays retired"]


def test_an_income_that_no_ledger_takes(sample):
    """Each part of it is small enough for a posting."""
    sample.ledger.settle(a_round(sample.ledger, 1, GAINS, FREE))
    for amount, rules in ((LARGEST_AMOUNT, []), (3 * LARGEST_AMOUNT // 2, ["an income is at most 10^15 minor units"])):
        parts = sample.ledger.state.divided(amount)
        assert max(parts.values()) <= LARGEST_AMOUNT
        postings = [
            Posting("model-income", -amount),
            *(Posting(f"clients/{each}", part) for each, part in parts.items()),
        ]
        body = {"reference": "invoice", "amount": str(amount)}
        assert rules_found(sample, "realisation", body, postings) == rules


@pytest.mark.parametrize("agreed", [FLI, None])
def test_a_parameter_that_is_no_number(tmp_path, agreed):
    """Python takes true for 1; people who read the rules may not."""
    sample = open_with(tmp_path, agreed, members=KEYS)
    made, _ = by_fli(sample, 1, (0.9, 0.01, 0.01), {})
    if agreed is None:
        made = replace(made, measured_by=None)
    draft = draft_round(made, sample.ledger.identity, sample.ledger.terms)
    body = copy.deepcopy(dict(draft.body))
    assert rules_found(sample, "round", body, draft.postings) == []
    body["rules"]["parameters"]["omega"] = True
    found = rules_found(sample, "round", body, draft.postings)
    assert "rules are written in one way only" in found
    assert ("rounds keep to the terms: parameters" in found) == (agreed is not None)
    sample.store.close()


def test_further_figures_of_nothing_are_not_there(sample):
    draft = draft_round(a_round(sample.ledger, 1, GAINS, FREE), sample.ledger.identity, sample.ledger.terms)
    body = copy.deepcopy(dict(draft.body))
    body["inputs"][0]["further"] = {}
    assert rules_found(sample, "round", body, draft.postings) == ["further figures are stated only where there are any"]


@pytest.mark.parametrize(("name", "value"), [("round", True), ("client", None), ("report", None), ("signature", 5)])
def test_a_late_report_whose_fields_are_of_other_types(sample, name, value):
    """Python takes true for the number 1, and a statement would tell of round True."""
    settled = a_round(sample.ledger, 1, {c: GAINS[c] for c in ("ann", "cyd")}, FREE, absent=("bob",))
    sample.ledger.settle(replace(settled, record=replace(settled.record, silent=("bob",))))
    report = a_round(sample.ledger, 1, GAINS, FREE).report(sample.ledger.identity, "bob")
    body = {"client": "bob", "round": 1, "report": report.document(), "signature": report.signed(CLIENT_KEYS["bob"])}
    assert rules_found(sample, "late-report", body) == []
    found = rules_found(sample, "late-report", {**body, name: value})
    assert found == ([TYPES] if name == "round" else [NOT_LATE])


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("late-report", {"client": "bob", "round": True, "report": {}, "signature": ""}),
        ("charge", {"client": "bob", "round": True, "amount": "5"}),
        ("charge", {"client": "bob", "round": 1, "amount": 5}),
        ("exclusion", {"client": 5, "rounds": [1]}),
        ("exclusion", {"client": "bob", "rounds": [True]}),
        ("terms", {"terms": None}),
        ("amendment", {**AMENDED, "first_round": True}),
        ("amendment", {**AMENDED, "signatures": [{"client": "ann", "signature": None}]}),
        ("amendment", {**AMENDED, "members": [{"client": None, "key": None}]}),
    ],
)
def test_every_kind_of_entry_is_refused_if_its_fields_are_of_other_types(kind, body):
    document = {"number": 5, "at": "", "kind": kind, "body": body, "postings": []}
    with pytest.raises(TypeError):
        check_readable(document)


ODD_LISTS = [("evidence", ""), ("evidence", {}), ("harm", ""), ("harm", {})]


@pytest.mark.parametrize(("name", "odd"), ODD_LISTS)
def test_evidence_of_nothing_is_not_there(sample, name, odd):
    draft = draft_round(a_round(sample.ledger, 1, GAINS, FREE), sample.ledger.identity, sample.ledger.terms)
    for value in (odd, []):
        stated = value if name == "evidence" else {"version": "harm/2", "found": value}
        assert rules_found(sample, "round", {**draft.body, name: stated}, draft.postings) != []


@pytest.mark.parametrize("name", ["similarity:bob agreed to pay", "similarity:ann", "utility", "remark", "gain"])
def test_figures_that_nothing_reads_are_found(sample, name):
    """Nobody signs similarities, and nobody anything of a client without a key."""
    draft = draft_round(a_round(sample.ledger, 1, GAINS, FREE), sample.ledger.identity, sample.ledger.terms)
    body = copy.deepcopy(dict(draft.body))
    body["inputs"][2]["further"] = {name: 1.0}
    assert body["inputs"][2]["signature"] is None
    found = rules_found(sample, "round", body, draft.postings)
    assert found == ([] if name == "gain" else ["the decision can be recomputed from its inputs"])
