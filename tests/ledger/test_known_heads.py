"""What only a known head shows: that the end of a ledger is missing, or that its operator rewrote history."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from commonweal.ledger.chain import key_rotations, rotation_message
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.signed_files import head_document, read_known_head, signed_content
from commonweal.ledger.statements import make_statement, statement_document
from tests.ledger.sample_ledger import (
    ENTRIES,
    FIRST_ROUND,
    POSTINGS,
    STRANGER,
    make_sample,
    open_ledger,
    parsed,
    rewritten,
    sealed,
    signed_round,
    tampering,
    undone,
    verified,
)

AT = "2026-03-01T00:00:00.000000Z"
OTHER_KEY = SigningKey.from_seed(b"the key of a history told anew..")


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledger")
    made = make_sample(str(folder / "ledger.db"), folder / "keys", "accruals")
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def known_heads(sample, tmp_path_factory):
    """What two members keep: a statement, and an exported head."""
    folder = tmp_path_factory.mktemp("members")
    statement = statement_document(make_statement(sample.store, "ann", at=AT), sample.store)
    head = head_document(sample.ledger.state, AT, key_rotations(sample.store, "a head"))
    for name, document in (("statement.json", statement), ("head.json", head)):
        (folder / name).write_bytes(signed_content(document, sample.operator))
    return {name: read_known_head(folder / name) for name in ("statement.json", "head.json")}


@pytest.fixture(params=["statement.json", "head.json"])
def known(request, known_heads):
    return known_heads[request.param]


@pytest.fixture(scope="module")
def inside(sample, known_heads):
    with tampering(sample.store) as attacker:
        yield attacker


def findings(store, *known_heads, **options):
    return verified(store, known_heads=known_heads, **options).findings


def replace_all(inside, entries):
    inside.run(f"DELETE FROM {ENTRIES}")
    inside.run(f"DELETE FROM {POSTINGS}")
    for entry in entries:
        inside.add(entry)


def private_half(sample):
    others = {OTHER_KEY.public: OTHER_KEY, STRANGER.public: STRANGER}
    return lambda public: others.get(public) or sample.keys.key_of(public)


def tell_another_time(document):
    """Rewrite the one thing that nobody can check."""
    document["at"] = document["at"].replace(".000000", ".000001")


def test_a_known_head_that_agrees_gives_no_finding(inside, known):
    assert findings(inside, known) == ()


def test_a_missing_end_is_found_only_by_a_known_head(sample, inside, known):
    last = inside.entries()[-1].number
    with undone(inside):
        inside.run(f"DELETE FROM {ENTRIES} WHERE number = :number", number=last)
        inside.run(f"DELETE FROM {POSTINGS} WHERE entry = :number", number=last)
        assert findings(inside, operator=sample.operator.public) == ()
        (finding,) = findings(inside, known)
        assert finding.entry == last
        assert finding.rule == f"the ledger has the entry that {known.source} names"
        assert finding.expected == f"hash {sample.ledger.state.head[:16]}…"
        assert finding.found == "no such entry"


def test_rewritten_history_is_found_only_by_a_known_head(sample, inside, known):
    entries = inside.entries()
    last = entries[-1].number
    for first in range(2, last + 1):
        story = rewritten(entries, tell_another_time, first, private_half(sample))
        assert [entry.hash for entry in story[: first - 1]] == [entry.hash for entry in entries[: first - 1]]
        with undone(inside):
            replace_all(inside, story)
            assert findings(inside, operator=sample.operator.public) == ()
            (finding,) = findings(inside, known)
            assert finding.entry == last
            assert finding.rule == f"the entry has the hash that {known.source} names"
            assert (finding.expected, finding.found) == (f"hash {entries[-1].hash[:16]}…", f"{story[-1].hash[:16]}…")


def test_history_rewritten_with_another_key_rotation(sample, inside, known):
    """The head is signed with a key that the new history does not have, and includes proof of whose key it is."""
    entries = inside.entries()
    rotation = next(entry.number for entry in entries if parsed(entry)["kind"] == "key-rotation")

    def take_another_key(document):
        proof = OTHER_KEY.sign(rotation_message(sample.ledger.identity, OTHER_KEY.public))
        document["body"] = {"operator": OTHER_KEY.public, "proof": proof}

    story = rewritten(entries, take_another_key, rotation, private_half(sample))
    with undone(inside):
        replace_all(inside, story)
        assert findings(inside) == ()
        (finding,) = findings(inside, known)
        assert finding.rule == f"the entry has the hash that {known.source} names"


def test_a_known_head_says_nothing_about_later_entries(sample, inside, tmp_path_factory):
    """So members should keep their newest statement."""
    entries = inside.entries()
    state = replace(sample.ledger.state, number=5, head=entries[4].hash)
    path = tmp_path_factory.mktemp("early") / "early.json"
    path.write_bytes(
        signed_content(head_document(state, AT), sample.keys.key_of(parsed(entries[0])["body"]["operator"]))
    )
    early = read_known_head(path)
    for first, seen in ((5, True), (6, False)):
        with undone(inside):
            replace_all(inside, rewritten(entries, tell_another_time, first, private_half(sample)))
            assert bool(findings(inside, early)) == seen


# A whole ledger rewritten, by the same operator or another.


@pytest.fixture(scope="module")
def unsigned(tmp_path_factory):
    """A ledger in which no client signs: the operator vouches for all figures."""
    folder = tmp_path_factory.mktemp("unsigned")
    made = open_ledger(str(folder / "ledger.db"), folder / "keys")
    made.ledger.admit(dict.fromkeys(FIRST_ROUND))
    made.ledger.settle(replace(signed_round(made.ledger.identity, 1, FIRST_ROUND), signatures={}))
    made.ledger.settle(replace(signed_round(made.ledger.identity, 2, FIRST_ROUND), signatures={}))
    yield made
    made.store.close()


def with_another_key(document):
    document["body"]["operator"] = OTHER_KEY.public


def with_another_name(document):
    document["body"]["terms"]["name"] = "six banks"


@pytest.mark.parametrize("edit", [with_another_key, with_another_name])
def test_a_whole_ledger_rewritten(unsigned, tmp_path, edit):
    path = tmp_path / "head.json"
    path.write_bytes(signed_content(head_document(unsigned.ledger.state, AT), unsigned.operator))
    kept = read_known_head(path)
    with tampering(unsigned.store) as inside:
        replace_all(inside, rewritten(inside.entries(), edit, 1, private_half(unsigned)))
        assert findings(inside) == ()
        (finding,) = findings(inside, kept)
        assert (finding.entry, finding.rule) == (1, "head.json is about this ledger")
        assert finding.expected == f"ledger {unsigned.ledger.identity[:16]}…"
        # With the operator's key, no known head is needed to recognise another operator's ledger.
        owner = {finding.rule for finding in findings(inside, operator=unsigned.operator.public)}
        assert owner == ({"the operator signed the ledger"} if edit is with_another_key else set())


def test_a_report_is_valid_for_one_ledger(sample, inside):
    """If clients sign, a ledger that was rewritten from its first entry is found without a known head."""
    with undone(inside):
        replace_all(inside, rewritten(inside.entries(), with_another_key, 1, private_half(sample)))
        rules = {finding.rule for finding in findings(inside)}
    assert "a report is signed by its client" in rules


# Forged heads.


def forged(known, tmp_path, *, edit=lambda document: None, key=None, **parts):
    """The file of a head, changed and signed again."""
    document = json.loads(json.dumps(known.signed.document))
    edit(document)
    content = json.loads(signed_content(document, key or STRANGER))
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(content | parts))
    return read_known_head(path)


def another_hash(document):
    document["head"]["hash"] = "ab" * 32


def a_later_entry(document):
    document["head"]["number"] += 1


@pytest.mark.parametrize("edit", [another_hash, a_later_entry])
def test_a_head_signed_with_an_unknown_key_is_a_finding_about_the_head(sample, inside, known, tmp_path, edit):
    operator = sample.operator.public
    for parts in ({}, {"signer": operator}, {"signer": operator, "signature": known.signed.signature}):
        false = forged(known, tmp_path, edit=edit, **parts)
        (finding,) = findings(inside, false, operator=operator)
        assert finding.entry == false.number
        assert finding.rule == "the operator signed forged.json"
        assert finding.found == (f"{STRANGER.public[:16]}…" if not parts else "an invalid signature")


def test_a_stranger_cannot_become_the_operators_next_key(sample, inside, known, tmp_path):
    rotation = known.signed.document["key_rotations"][0]
    content = json.loads(rotation["content"])
    proof = STRANGER.sign(rotation_message(sample.ledger.identity, STRANGER.public))
    content["body"] = {"operator": STRANGER.public, "proof": proof}
    own = {"content": json.dumps(content), "signature": STRANGER.sign(b"x")}
    for rotations in ([own], [rotation, own], [rotation, rotation | {"content": own["content"]}], ["x"], [{}], "x", 5):

        def claim(document, rotations=rotations):
            another_hash(document)
            document["key_rotations"] = rotations

        (finding,) = findings(inside, forged(known, tmp_path, edit=claim))
        assert finding.rule == "the operator signed forged.json"


def test_a_head_of_another_ledger_is_recognised(sample, inside, known, tmp_path):
    def another_ledger(document):
        document["book"] = "cd" * 32

    (finding,) = findings(inside, forged(known, tmp_path, edit=another_ledger, key=sample.operator))
    assert finding.rule == "forged.json is about this ledger"


def test_a_forged_head_does_not_hide_a_genuine_one(sample, inside, known, tmp_path):
    false = forged(known, tmp_path, edit=another_hash)
    story = rewritten(inside.entries(), tell_another_time, 3, private_half(sample))
    with undone(inside):
        replace_all(inside, story)
        assert [finding.rule for finding in findings(inside, false, known)] == [
            "the operator signed forged.json",
            f"the entry has the hash that {known.source} names",
        ]


def test_a_known_head_is_not_checked_with_an_attackers_key(inside, known, tmp_path):
    """A key rotation that the operator did not sign is a finding, and its key does not make a head valid."""
    entries = inside.entries()
    ledger = entries[0].hash
    document = parsed(entries[-1]) | {
        "number": len(entries) + 1,
        "previous": entries[-1].hash,
        "kind": "key-rotation",
        "body": {"operator": STRANGER.public, "proof": STRANGER.sign(rotation_message(ledger, STRANGER.public))},
        "postings": [],
    }
    with undone(inside):
        inside.add(sealed(document, STRANGER))
        rules = {finding.rule for finding in findings(inside, forged(known, tmp_path, edit=another_hash))}
    assert rules == {"the operator signed the entry", "the operator signed forged.json"}
