"""After a key rotation the retired key signs nothing new that is accepted, where the rotation is known."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from commonweal.ledger.canonical import hash_of
from commonweal.ledger.chain import key_rotations, keys_since, rotation_message
from commonweal.ledger.entries import signed_message
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.receipts import read_receipt, receipt_document
from commonweal.ledger.signed_files import head_document, read_known_head, signed_content
from commonweal.ledger.statements import (
    faults_of,
    make_statement,
    read_statement,
    statement_document,
)
from commonweal.ledger.verification.receipts import disproved_by_receipts
from tests.ledger.sample_ledger import make_sample, parsed, rewritten, tampering, verified

AT = "2026-03-01T00:00:00.000000Z"


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledger")
    made = make_sample(str(folder / "ledger.db"), folder / "keys", "transfers")
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def retired(sample):
    """The first key, whose private half somebody still has."""
    return sample.keys.key_of(parsed(sample.entries()[0])["body"]["operator"])


@pytest.fixture(scope="module")
def rotation(sample):
    return next(entry.number for entry in sample.entries() if parsed(entry)["kind"] == "key-rotation")


@pytest.fixture
def write(sample, tmp_path):
    """Writes the statement or head at an entry, signed with a key, with or without the rotations."""

    def written(name, kind, number, key, *, with_rotations, edit=None):
        rotations = key_rotations(sample.store, "a test") if with_rotations else []
        if kind == "statement":
            document = dict(statement_document(make_statement(sample.store, "ann", at=AT, last=number), sample.store))
        else:
            head = next(entry.hash for entry in sample.entries() if entry.number == number)
            document = dict(head_document(replace(sample.ledger.state, number=number, head=head), AT))
        document["key_rotations"] = list(rotations)
        if edit is not None:
            edit(document)
        (tmp_path / name).write_bytes(signed_content(json.loads(json.dumps(document)), key))
        return tmp_path / name

    return written


@pytest.mark.parametrize("kind", ["statement", "head"])
@pytest.mark.parametrize("with_rotations", [True, False])
def test_verify_finds_what_the_retired_key_signed_later(sample, retired, rotation, write, kind, with_rotations):
    last = sample.ledger.state.number
    for number in range(2, last + 1):
        path = write("kept.json", kind, number, retired, with_rotations=with_rotations)
        found = verified(sample.store, known_heads=[read_known_head(path)]).findings
        assert [finding.rule for finding in found] == (
            ["kept.json is signed with a key that was in use"] if number >= rotation else []
        )
        assert all(f"entry {rotation} retired" in finding.found for finding in found)
        path = write("kept.json", kind, number, sample.operator, with_rotations=with_rotations)
        assert verified(sample.store, known_heads=[read_known_head(path)]).findings == ()


def test_another_head_knows_of_the_rotation_if_the_ledger_does_not(sample, retired, rotation, write):
    """The ledger was rewritten without the rotation, by whoever has the retired key."""
    genuine = write("genuine.json", "head", rotation, sample.operator, with_rotations=True)
    later = write("later.json", "head", rotation + 1, retired, with_rotations=False)

    def without_rotation(document):
        document["kind"], document["body"] = "admission", {"members": []}

    with tampering(sample.store) as inside:
        story = rewritten(inside.entries(), without_rotation, rotation, lambda public: retired)
        for entry in story:
            inside.put(entry)
        known = [read_known_head(genuine), read_known_head(later)]
        rules = [finding.rule for finding in verified(inside, known_heads=known).findings]
    assert "later.json is signed with a key that was in use" in rules
    assert "genuine.json is signed with a key that was in use" not in rules


def test_a_statement_is_at_fault_if_its_signer_was_retired(sample, retired, rotation, write, tmp_path):
    earlier = write("earlier.json", "statement", rotation, sample.operator, with_rotations=True)
    assert faults_of(*read_statement(earlier), retired.public) == []
    known = read_known_head(earlier).key_rotations
    for number, with_rotations in ((rotation, False), (rotation + 1, False), (rotation, True)):
        late = write("late.json", "statement", number, retired, with_rotations=with_rotations)
        told = faults_of(*read_statement(late), retired.public, known_rotations=known)
        assert told == [f"it is signed with the key {retired.public[:16]}…, which entry {rotation} retired"]
    for number in range(2, rotation):
        early = write("early.json", "statement", number, retired, with_rotations=False)
        assert faults_of(*read_statement(early), retired.public, known_rotations=known) == []


def test_a_stranger_cannot_retire_a_key(sample, rotation, write, tmp_path):
    """A rotation counts only if the retired key signed it."""

    def claim(document):
        content = json.loads(document["key_rotations"][0]["content"])
        content["number"] = 2
        document["key_rotations"] = [{"content": json.dumps(content), "signature": "00" * 64}, "x", {"content": 5}, 7]

    claimed = write("claim.json", "statement", rotation, sample.operator, with_rotations=True, edit=claim)
    late = write("late.json", "statement", rotation + 1, sample.operator, with_rotations=True)
    assert (
        faults_of(*read_statement(late), sample.operator.public, known_rotations=read_known_head(claimed).key_rotations)
        == []
    )


BEFORE, LATER = "2026-01-01T00:00:00.000000Z", "2026-01-01T01:00:00.000000Z"  # the rotation is between them


def receipt_faults(sample, path, known_rotations=()):
    outcome = verified(sample.store)
    receipts = [read_receipt(path)]
    findings, notes = disproved_by_receipts(sample.store, outcome.state, receipts, outcome.operators, known_rotations)
    return [finding.rule for finding in findings], [note.found for note in notes]


@pytest.mark.parametrize("with_rotations", [True, False])
@pytest.mark.parametrize(
    ("round_number", "at", "is_in_use"),
    [
        (1, BEFORE, True),  # settled before the rotation
        (2, BEFORE, True),  # under way when the key was changed
        (3, BEFORE, False),  # the date is the word of whoever has the key
        (4, BEFORE, False),
        (1, LATER, True),  # and so is the date of the rotation the word of the operator, who could date it back
        (2, LATER, True),
        (2, "now", True),
    ],
)
def test_a_receipt_of_a_later_round_by_the_retired_key_is_found(
    sample, retired, tmp_path, round_number, at, is_in_use, with_rotations
):
    """Nothing follows from it: whoever has the retired key could disprove what the operator settled.

    Dates decide nothing, and are noted.
    """
    rotations = key_rotations(sample.store, "a test") if with_rotations else []
    document = receipt_document(
        ledger=sample.ledger.identity,
        round_number=round_number,
        client="ann",
        signature="00",
        at=at,
        key_rotations=rotations,
    )
    path = tmp_path / "receipt.json"
    path.write_bytes(signed_content(document, retired))
    found, notes = receipt_faults(sample, path)
    assert (at in notes) == (is_in_use and at != BEFORE)
    assert found == [
        "the round has the report that receipt.json acknowledges"
        if is_in_use
        else "receipt.json is signed with a key that was in use"
    ]
    path.write_bytes(signed_content(document, sample.operator))
    if with_rotations:
        found, notes = receipt_faults(sample, path)
        assert "in use" not in "".join(found)
        assert found or "not in the ledger" in notes


def rotation_to_a_new_key(sample, number):
    """A change of key that the operator signed, and that no ledger has."""
    key, ledger = SigningKey.new(), sample.ledger.identity
    body = {"operator": key.public, "proof": key.sign(rotation_message(ledger, key.public))}
    content = json.dumps({"kind": "key-rotation", "number": number, "at": BEFORE, "body": body})
    return {"content": content, "signature": sample.operator.sign(signed_message(hash_of(content.encode())))}


@pytest.mark.parametrize("number", [0, 2])
def test_a_receipt_does_not_retire_the_key_that_signed_it(sample, tmp_path, number):
    """Or an operator could hand out receipts that prove nothing."""
    rotations = [*key_rotations(sample.store, "a test"), rotation_to_a_new_key(sample, number)]
    document = receipt_document(
        ledger=sample.ledger.identity, round_number=2, client="ann", signature="00", at=LATER, key_rotations=rotations
    )
    path = tmp_path / "receipt.json"
    path.write_bytes(signed_content(document, sample.operator))
    found, _ = receipt_faults(sample, path)
    assert "the round has the report that receipt.json acknowledges" in found
    assert "receipt.json is signed with a key that was in use" not in found


@pytest.mark.parametrize(("number", "is_change"), [(-1, False), (0, False), (1, False), (2, True)])
def test_the_first_entry_of_a_ledger_and_what_is_before_it_change_no_key(sample, number, is_change):
    rotations = [rotation_to_a_new_key(sample, number)]
    assert len(keys_since(sample.operator.public, sample.ledger.identity, rotations)) == 1 + is_change


def test_another_file_knows_of_the_rotation_if_the_ledger_does_not(sample, retired, rotation, tmp_path):
    document = receipt_document(ledger=sample.ledger.identity, round_number=3, client="ann", signature="00", at=BEFORE)
    path = tmp_path / "receipt.json"
    path.write_bytes(signed_content(document, retired))

    def without_rotation(document):
        document["kind"], document["body"] = "admission", {"members": []}

    known = key_rotations(sample.store, "a test")
    with tampering(sample.store) as inside:
        for entry in rewritten(inside.entries(), without_rotation, rotation, lambda public: retired):
            inside.put(entry)
        outcome = verified(inside)
        for rotations, expected in ((known, True), ([], False)):
            found, _ = disproved_by_receipts(inside, outcome.state, [read_receipt(path)], outcome.operators, rotations)
            assert ("receipt.json is signed with a key that was in use" in [each.rule for each in found]) == expected
