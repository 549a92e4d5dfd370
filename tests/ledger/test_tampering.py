"""Without the operator's key, nobody can change the database unnoticed, except by removing its last entries."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sqlalchemy import BigInteger

from commonweal.ledger.canonical import canonical, hash_of
from commonweal.ledger.entries import StoredEntry, signed_message
from tests.ledger.sample_ledger import (
    ENTRIES,
    POSTINGS,
    STRANGER,
    make_sample,
    parsed,
    sealed,
    tampering,
    undone,
    verified,
)

KINDS = {"opening", "admission", "round", "realisation", "reversal", "withdrawal", "key-rotation"}


SOAK = pytest.mark.soak
everywhere = pytest.mark.parametrize(  # by default each database and each kind of settlement once
    ("new_location", "settlement"),
    [
        ("sqlite", "accruals"),
        ("postgresql", "transfers"),
        pytest.param("sqlite", "transfers", marks=SOAK),
        pytest.param("postgresql", "accruals", marks=SOAK),
    ],
    indirect=True,
    scope="module",
)
in_one_ledger = pytest.mark.parametrize(
    ("new_location", "settlement"), [("sqlite", "accruals")], indirect=True, scope="module"
)


@pytest.fixture(scope="module")
def settlement(request):
    return request.param


@pytest.fixture(scope="module")
def sample(settlement, new_location, tmp_path_factory):
    made = make_sample(new_location(), tmp_path_factory.mktemp("operator"), settlement)
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def attacker(sample):
    with tampering(sample.store) as attacker:
        assert verified(attacker).findings == ()
        yield attacker


@pytest.fixture(scope="module")
def is_sqlite(sample):
    return sample.store.engine.dialect.name == "sqlite"


def number_of(row):
    """The entry that a row belongs to."""
    return row["number"] if "number" in row else row["entry"]


def named(attacker):
    """The entries that findings name."""
    return {finding.entry for finding in verified(attacker).findings}


def some_rows(attacker, table):
    """All entries; of an entry's postings the first and the last."""
    rows = attacker.rows(table)
    ends = {number_of(row): row for row in rows}
    return [
        row for place, row in enumerate(rows) if number_of(row) != number_of(rows[place - 1]) or row in ends.values()
    ]


def other_value(row, column, rows):
    """In turn a neighbouring value, the value of another row, and NULL."""
    value, turn = row[column], rows.index(row) % 3
    if turn == 0:
        return value + 1 if isinstance(value, int) else value[:-1] + ("1" if value[-1] == "0" else "0")
    return next(other[column] for other in rows if other[column] != value) if turn == 1 else None


@everywhere
def test_the_sample_has_every_kind_of_entry(sample, attacker):
    without = set() if sample.ledger.terms.settlement == "accruals" else {"realisation"}
    assert {parsed(entry)["kind"] for entry in attacker.entries()} == KINDS - without
    assert set(attacker.columns) == {ENTRIES, POSTINGS}
    members = sample.ledger.state.members
    assert None in members.values()
    assert len([key for key in members.values() if key]) >= 2


@everywhere
def test_every_change_of_a_value_is_found(attacker):
    unnoticed = []
    for table, columns in attacker.columns.items():
        rows = attacker.rows(table)
        assert rows
        for row in some_rows(attacker, table):
            for column in columns:
                value = other_value(row, column, rows)
                with undone(attacker):
                    attacker.change(table, row, column, value)
                    # A row that was moved is missing in its old place, or wrong in its new one.
                    places = {number_of(row), number_of(row | {column: value}) or 0}
                    if not places & named(attacker):
                        unnoticed.append((table, row, column, value))
    assert unnoticed == []


@in_one_ledger
def test_values_of_another_type_are_found(attacker):
    """SQLite accepts them."""
    unnoticed = []
    for table, columns in attacker.columns.items():
        row = attacker.rows(table)[-1]
        for column in columns:
            for value in ("seven", 7.25, b"\xff\x00", f"{row[column]}".encode(), "", 2**63 - 1):
                with undone(attacker):
                    attacker.change(table, row, column, value)
                    if not {number_of(row), 2**63 - 1, 0} & named(attacker):
                        unnoticed.append((table, column, value))
    assert unnoticed == []


@everywhere
@given(data=st.data())
def test_every_changed_byte_is_found(attacker, is_sqlite, data):
    table = data.draw(st.sampled_from(sorted(attacker.columns)))
    row = data.draw(st.sampled_from(attacker.rows(table)))
    column = data.draw(st.sampled_from(sorted(attacker.columns[table])))
    value = row[column]
    width = 8 if isinstance(attacker.columns[table][column], BigInteger) else 4
    old = value.encode() if isinstance(value, str) else value.to_bytes(width, "big", signed=True)
    place, byte = data.draw(st.integers(0, len(old) - 1)), data.draw(st.binary(min_size=1, max_size=1))
    new = old[:place] + byte + old[place + 1 :]
    assume(new != old)
    with undone(attacker):
        if isinstance(value, int):
            changed = int.from_bytes(new, "big", signed=True)
            attacker.change(table, row, column, changed)
            places = {number_of(row), number_of(row | {column: changed}), 0}
        else:
            if is_sqlite:
                attacker.change(table, row, column, new, "CAST(:value AS TEXT)")
            else:  # a UTF-8 database accepts nothing else
                assume(b"\0" not in new)
                attacker.change(table, row, column, decoded(new))
            places = {number_of(row)}
        assert places & named(attacker)


def decoded(value):
    try:
        return value.decode()
    except UnicodeDecodeError:
        assume(False)


@everywhere
def test_every_removed_row_is_found(attacker):
    unnoticed = []
    for table in attacker.columns:
        for row in attacker.rows(table):
            with undone(attacker):
                attacker.remove(table, row)
                if number_of(row) not in named(attacker):
                    unnoticed.append((table, row))
    assert unnoticed == []


@everywhere
def test_every_added_row_is_found(attacker):
    """Even where reading the ledger from entry 1 on would not reach them."""
    last = attacker.rows(ENTRIES)[-1]["number"]
    places = (last + 1, last + 1000, last, 1, 0, -1, -(2**63), None)
    unnoticed = []
    for table in attacker.columns:
        key = "number" if table == ENTRIES else "entry"
        for row in (attacker.rows(table)[0], attacker.rows(table)[-1]):
            for place in places:
                with undone(attacker):
                    attacker.insert(table, row | {key: place})
                    # 0 stands for rows that cannot belong to any entry.
                    if not {place, 0 if place in (None, -(2**63)) else place} & named(attacker):
                        unnoticed.append((table, place))
    assert unnoticed == []


@in_one_ledger
@pytest.mark.parametrize("place", [0, -1])
def test_an_entry_before_the_first_is_the_only_finding(attacker, place):
    with undone(attacker):
        attacker.insert(ENTRIES, attacker.rows(ENTRIES)[-1] | {"number": place})
        (finding,) = verified(attacker).findings
    assert (finding.entry, finding.rule) == (place, "entries are numbered without gaps")
    assert (finding.expected, finding.found) == ("entry 1", f"entry {place}")


@everywhere
def test_an_added_posting_is_found_at_any_position(attacker):
    for row in some_rows(attacker, POSTINGS):
        for position, amount in ((row["position"], row["amount"]), (2**31 - 1, 0)):
            with undone(attacker):
                attacker.insert(POSTINGS, row | {"position": position, "amount": amount})
                assert row["entry"] in named(attacker)


@in_one_ledger
def test_a_posting_moved_to_another_account_and_back_elsewhere_is_found(attacker):
    """Balances and sums stay as they are; the entries do not."""
    rows = attacker.rows(POSTINGS)
    one, other = next(
        (one, other)
        for one in rows
        for other in rows
        if one["entry"] < other["entry"] and one["account"] == other["account"] and one["amount"] != other["amount"]
    )
    with undone(attacker):
        attacker.change(POSTINGS, one, "amount", other["amount"])
        attacker.change(POSTINGS, other, "amount", one["amount"])
        assert named(attacker) == {one["entry"], other["entry"]}


@in_one_ledger
def test_swapped_entries_are_found(attacker):
    rows = attacker.rows(ENTRIES)
    for columns in (["content"], ["content", "hash"], ["content", "hash", "signature"], ["hash"], ["signature"]):
        for one, other in ((1, 2), (2, 4), (2, len(rows) - 1)):
            with undone(attacker):
                for row, source in ((rows[one], rows[other]), (rows[other], rows[one])):
                    for column in columns:
                        attacker.run(
                            f"UPDATE {ENTRIES} SET {column} = :value WHERE number = :number",
                            value=source[column],
                            number=row["number"],
                        )
                assert {rows[one]["number"], rows[other]["number"]} <= named(attacker)


# Changes inside the content of an entry.


def a_figure(document):
    document["body"]["inputs"][0]["profit"] += 1e-9


def a_contribution(document):
    document["body"]["inputs"][1]["contribution"] *= 2


def a_sample_count(document):
    document["body"]["inputs"][0]["sample_count"] += 1


def an_amount(document):
    document["postings"][0][1] = str(int(document["postings"][0][1]) + 1)
    document["postings"][-1][1] = str(int(document["postings"][-1][1]) - 1)


def a_name(document):
    document["body"]["inputs"][0]["client"] = "eve"


def the_leniency(document):
    document["body"]["rules"]["mu"] = 7.0


def the_absent(document):
    document["body"]["absent"] = [] if document["body"]["absent"] else ["cyd"]


def the_time(document):
    document["at"] = document["at"].replace("2026", "2025")


def the_number(document):
    document["number"] += 1


def the_format(document):
    document["format"] = "commonweal.entry/2"


def the_predecessor(document):
    document["previous"] = "0" * 64


def something_more(document):
    document["note"] = "approved by the board"


CHANGES = [
    a_figure,
    a_contribution,
    a_sample_count,
    an_amount,
    a_name,
    the_leniency,
    the_absent,
    the_time,
    the_number,
    the_format,
    the_predecessor,
    something_more,
]


def with_content(entry, content):
    return replace(entry, content=content)


def with_its_hash(entry, content):
    return replace(entry, content=content, hash=hash_of(content.encode()))


def signed_by_a_stranger(entry, content):
    digest = hash_of(content.encode())
    return StoredEntry(
        number=entry.number, content=content, hash=digest, signature=STRANGER.sign(signed_message(digest))
    )


FORGERIES = [with_content, with_its_hash, signed_by_a_stranger]


def rounds_in(attacker):
    return [entry for entry in attacker.entries() if parsed(entry)["kind"] == "round"]


@in_one_ledger
@pytest.mark.parametrize("forge", FORGERIES)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_inside_an_entry_is_found(attacker, change, forge):
    for entry in (rounds_in(attacker)[0], rounds_in(attacker)[-1]):
        document = parsed(entry)
        change(document)
        with undone(attacker):
            attacker.put(forge(entry, canonical(document).decode()))
            assert entry.number in named(attacker)


def who_leaves(document):
    document["body"]["client"] = "ann"


def when_it_leaves(document):
    document["body"]["round"] -= 1


def its_signature(document):
    document["body"]["signature"] = None


def something_more_of_it(document):
    document["body"]["reason"] = "tired"


@everywhere
@pytest.mark.parametrize("forge", FORGERIES)
@pytest.mark.parametrize(
    "change", [who_leaves, when_it_leaves, its_signature, something_more_of_it, the_time, the_number, the_format]
)
def test_a_change_inside_a_withdrawal_is_found(attacker, change, forge):
    entry = next(entry for entry in attacker.entries() if parsed(entry)["kind"] == "withdrawal")
    document = parsed(entry)
    change(document)
    with undone(attacker):
        attacker.put(forge(entry, canonical(document).decode()))
        assert entry.number in named(attacker)


def other_forms(content):
    """Texts that JSON parsers read as the same document, or as different ones."""
    document = json.loads(content)
    yield content.replace('{"absent":[', '{"absent":["cyd"],"absent":[', 1)
    yield content.replace('"round":', '"round":99,"round":', 1)
    yield content.replace('"kind":"round"', '"kind": "round"', 1)
    yield content + "\n"
    yield "\ufeff" + content
    yield content.replace("round", "\\u0072ound", 1)
    yield content.replace("0.", "0.0e1+0.", 1)
    yield content.replace("0.1", "1e-1", 1) if "0.1" in content else content + " "
    yield json.dumps(document, indent=1)
    yield json.dumps(dict(reversed(document.items())), separators=(",", ":"))


@in_one_ledger
@pytest.mark.parametrize("forge", FORGERIES)
def test_another_form_of_the_same_content_is_found(attacker, forge):
    for entry in rounds_in(attacker)[:2]:
        for form in other_forms(entry.content):
            assert form != entry.content
            with undone(attacker):
                attacker.run(f"DELETE FROM {ENTRIES} WHERE number = :number", number=entry.number)
                forged = forge(entry, form)
                attacker.insert(
                    ENTRIES,
                    {
                        "number": forged.number,
                        "content": forged.content,
                        "hash": forged.hash,
                        "signature": forged.signature,
                    },
                )
                assert entry.number in named(attacker)


@in_one_ledger
def test_another_form_is_found_even_if_the_operator_signed_it(sample, attacker):
    """Two parsers may read one signed text differently, so only one form is allowed."""
    entry = attacker.entries()[-1]
    forms = [
        entry.content.replace('"reason":', '"reason":"none","reason":', 1),
        entry.content.replace(":{", ": {", 1),
        json.dumps(json.loads(entry.content), indent=1),
    ]
    for form in forms:
        digest = hash_of(form.encode())
        signature = sample.operator.sign(signed_message(digest))
        with undone(attacker):
            attacker.put(StoredEntry(number=entry.number, content=form, hash=digest, signature=signature))
            (finding,) = verified(attacker).findings
            assert (finding.entry, finding.rule) == (entry.number, "the content is canonical JSON (RFC 8785)")


@in_one_ledger
def test_an_entry_that_a_stranger_adds_is_found(attacker):
    """Hashed, chained and balanced, but not signed by the operator."""
    entries = attacker.entries()
    rotation = next(parsed(entry) for entry in entries if parsed(entry)["kind"] == "key-rotation")
    last = parsed(entries[-1])
    extra = {
        "admission": {"members": [{"client": "eve", "key": STRANGER.public}]},
        "key-rotation": rotation["body"],
    }
    for kind, body in extra.items():
        document = last | {"number": last["number"] + 1, "previous": entries[-1].hash, "kind": kind, "body": body}
        with undone(attacker):
            attacker.add(sealed(document | {"postings": []}, STRANGER))
            assert "the operator signed the entry" in {finding.rule for finding in verified(attacker).findings}


@in_one_ledger
def test_findings_have_a_rule_and_what_was_expected_and_found(attacker):
    row = next(
        row for row in attacker.rows(POSTINGS) if row["account"] == "clients/ann" or row["account"] == "accrued/ann"
    )
    with undone(attacker):
        attacker.change(POSTINGS, row, "amount", row["amount"] + 1)
        findings = verified(attacker).findings
    first, balance = findings
    assert first.entry == row["entry"]
    assert first.rule == "the table of postings matches the entry"
    assert first.expected == f"[{row['position']}] {row['account']} {row['amount']}"
    assert first.found == f"[{row['position']}] {row['account']} {row['amount'] + 1}"
    assert balance.rule == f"the balance of {row['account']} follows from the entries"
    assert int(balance.found) == int(balance.expected) + 1
    assert str(first) == f"entry {first.entry}: {first.rule}: expected {first.expected}, found {first.found}"


@in_one_ledger
def test_findings_contain_no_terminal_control_characters(attacker):
    with undone(attacker):
        attacker.change(POSTINGS, attacker.rows(POSTINGS)[0], "account", "clients/\x1b[2J\u202eann")
        findings = verified(attacker).findings
    assert findings
    assert all(str(finding).isprintable() for finding in findings)


@in_one_ledger
def test_many_missing_entries_do_not_hide_other_findings(attacker):
    last = attacker.rows(ENTRIES)[-1]
    with undone(attacker):
        attacker.change(ENTRIES, last, "number", 2**40)
        findings = verified(attacker).findings
    assert 2**40 in {finding.entry for finding in findings}
    assert len(findings) < 150
