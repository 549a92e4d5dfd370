"""A small ledger with every kind of entry, and ways to forge it: as its operator, or as an attacker."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import Connection, inspect, text
from sqlalchemy.types import TypeEngine

from commonweal.decision.decide import decide_figures
from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import LedgerError
from commonweal.ledger.canonical import canonical, hash_of, parse
from commonweal.ledger.entries import Draft, Posting, StoredEntry, postings_of, signed_message
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import Signer, SigningKey
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.member_documents import WithdrawalNotice
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.rounds import RoundToSettle, draft_round
from commonweal.ledger.sql.store import SqlRows, SqlStore, open_store
from commonweal.ledger.sql.tables import VERSION_TABLE
from commonweal.ledger.terms import SettlementKind, Terms
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.replay import Finding
from commonweal.ledger.verification.verify import Verification, verify_ledger
from commonweal.records import Figures, RoundRecord, Rules

INF = float("inf")
ENTRIES, POSTINGS = "commonweal_entries", "commonweal_postings"
CLIENT_KEYS: dict[str, Signer] = {
    "ann": SigningKey.from_seed(b"ann".ljust(32, b".")),
    "bob": NodeKey(ec.derive_private_key(int.from_bytes(b"bob"), ec.SECP384R1())),  # signs as his Flower node
    "dan": SigningKey.from_seed(b"dan".ljust(32, b".")),
}
MEMBERS: dict[str, str | None] = {"ann": CLIENT_KEYS["ann"].public, "bob": CLIENT_KEYS["bob"].public, "cyd": None}
STRANGER = SigningKey.from_seed(b"a key that nobody here has heard")

# By client: profit, contribution, cost.
FIRST_ROUND = {"ann": (0.31, 0.5, None), "bob": (0.1234, 0.3, None), "cyd": (-0.0507, 0.25, None)}
FIRST_ROUND_AGAIN = {"ann": (0.2907, 0.51, None), "bob": (0.1301, 0.32, None), "cyd": (-0.0411, 0.21, None)}
SECOND_ROUND = {"ann": (0.1777, 0.44, None), "cyd": (-0.3003, 0.07, None)}
THIRD_ROUND = {"ann": (-0.2003, 0.42, 0.35), "bob": (0.0611, 0.37, 0.15), "dan": (-0.0409, 0.11, 0.27)}
LAST_OF_DAN = 9  # the round after which dan leaves
LENIENT, STRICT = Rules(mu=INF), Rules(mu=0.05)
BY_COST = Rules(mu=INF, loss_rule="cost", liability_cap=0.5)


def steady_clock() -> Callable[[], datetime]:
    """A clock that is one second later each time."""
    seconds = itertools.count()
    return lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(seconds))


def signed_round(
    ledger: str,
    number: int,
    figures: Mapping[str, tuple[float, float, float | None]],
    rules: Rules = LENIENT,
    *,
    absent: tuple[str, ...] = (),
) -> RoundToSettle:
    """A round as its clients report it, signed by those who have a key."""
    given = Figures(
        profits={client: row[0] for client, row in figures.items()},
        contributions={client: row[1] for client, row in figures.items()},
        costs={client: row[2] for client, row in figures.items()} if rules.loss_rule == "cost" else None,
    )
    record = RoundRecord(round_number=number, decision=decide_figures(given, rules), absent=absent)
    counts = {client: 100 + place for place, client in enumerate(figures)}
    unsigned = RoundToSettle(
        record=record, rules_version=make_mechanism(rules).version_in_ledgers, sample_counts=counts
    )
    signatures = {
        client: unsigned.report(ledger, client).signed(CLIENT_KEYS[client])
        for client in figures
        if client in CLIENT_KEYS
    }
    return replace(unsigned, signatures=signatures)


def others_absent(settled: RoundToSettle, ledger: Ledger) -> RoundToSettle:
    """The same round, with all other active members listed as absent."""
    ledger.refresh()
    there = settled.record.decision.figures.profits
    absent = tuple(client for client in ledger.state.listed_in(settled.record.round_number) if client not in there)
    return replace(settled, record=replace(settled.record, absent=absent))


def signed_notice(ledger: str, client: str, round_number: int) -> str:
    """The client's withdrawal notice."""
    return WithdrawalNotice(ledger, client, round_number).signed(CLIENT_KEYS[client])


@dataclass
class SampleLedger:
    """A ledger with its database and its operator's keys."""

    location: str
    store: SqlStore
    ledger: Ledger
    keys: KeyDirectory

    @property
    def operator(self) -> SigningKey:
        """The current key."""
        return self.keys.key_of(self.ledger.state.operator)

    def entries(self) -> list[StoredEntry]:
        with self.store.reading() as reading:
            return list(reading.entries())


def open_ledger(location: str, folder: Path, settlement: SettlementKind = "transfers") -> SampleLedger:
    """A new ledger, with an opening and nothing else."""
    keys = KeyDirectory(folder)
    keys.add(SigningKey.from_seed(b"the operator's first signing key"))
    keys.make_current(SigningKey.from_seed(b"the operator's first signing key").public)
    store = open_store(location, create=True)
    terms = Terms(name="five banks", currency="EUR", settlement=settlement)
    return SampleLedger(location, store, Ledger.start(store, terms, keys, clock=steady_clock()), keys)


def make_sample(location: str, folder: Path, settlement: SettlementKind) -> SampleLedger:
    """A ledger with every kind of entry; realisations only if payoffs accrue."""
    sample = open_ledger(location, folder, settlement)
    ledger = sample.ledger
    ledger.admit(MEMBERS)
    ledger.settle(signed_round(ledger.identity, 1, FIRST_ROUND))
    if settlement == "accruals":
        ledger.realise(123_457, "invoice 1")
    ledger.reverse_round(1, "figures came late")
    ledger.settle(signed_round(ledger.identity, 1, FIRST_ROUND_AGAIN))
    ledger.rotate_key()
    ledger.settle(signed_round(ledger.identity, 2, SECOND_ROUND, STRICT, absent=("bob",)))
    ledger.admit({"dan": CLIENT_KEYS["dan"].public})
    ledger.withdraw("dan", LAST_OF_DAN, signed_notice(ledger.identity, "dan", LAST_OF_DAN))
    ledger.settle(signed_round(ledger.identity, 3, THIRD_ROUND, BY_COST))
    if settlement == "accruals":
        ledger.realise(99_999, "invoice 2")
    ledger.reverse(len(sample.entries()), "booked too early")
    return sample


def verified(store: Any, **options: Any) -> Verification:
    return verify_ledger(store, recompute, **options)


def odd_notes(outcome: Verification) -> tuple[Finding, ...]:
    """The notes, except that the ledger was opened without agreed rules."""
    return tuple(note for note in outcome.notes if note.rule != "rules are agreed on before the first round")


# What an attacker with access to the database can do: anything to the rows, but no signatures.


class TamperedStore:
    """A store's database without constraints, in a transaction that is never committed."""

    def __init__(self, connection: Connection, columns: Mapping[str, Mapping[str, TypeEngine[Any]]]) -> None:
        self.connection = connection
        self.columns = columns  # by table, with their types

    @contextmanager
    def reading(self) -> Iterator[SqlRows]:
        yield SqlRows(self.connection)

    def entries(self) -> list[StoredEntry]:
        return list(SqlRows(self.connection).entries())

    def run(self, statement: str, **values: Any) -> None:
        self.connection.execute(text(statement), values)

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [dict(row._mapping) for row in self.connection.execute(text(f"SELECT * FROM {table}"))]

    def change(self, table: str, row: Mapping[str, Any], column: str, value: Any, expression: str = ":value") -> None:
        self.run(f"UPDATE {table} SET {column} = {expression} WHERE {_same(row)}", value=value, **_prefixed(row))

    def remove(self, table: str, row: Mapping[str, Any]) -> None:
        self.run(f"DELETE FROM {table} WHERE {_same(row)}", **_prefixed(row))

    def insert(self, table: str, row: Mapping[str, Any]) -> None:
        self.run(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(f':{name}' for name in row)})", **row)

    def put(self, entry: StoredEntry) -> None:
        """Replace an existing entry and its postings."""
        self.run(f"DELETE FROM {ENTRIES} WHERE number = :number", number=entry.number)
        self.run(f"DELETE FROM {POSTINGS} WHERE entry = :number", number=entry.number)
        self.add(entry)

    def add(self, entry: StoredEntry) -> None:
        self.insert(
            ENTRIES,
            {"number": entry.number, "content": entry.content, "hash": entry.hash, "signature": entry.signature},
        )
        with suppress(KeyError, TypeError, ValueError, OverflowError):  # a forgery may have none, or impossible ones
            for position, posting in enumerate(postings_of(parsed(entry))):
                row = {"entry": entry.number, "position": position, "amount": posting.amount}
                self.insert(POSTINGS, row | {"account": str(posting.account)})


@contextmanager
def tampering(store: SqlStore) -> Iterator[TamperedStore]:
    """Remove all constraints for the duration of the block: primary keys, foreign keys, NOT NULL."""
    with store.engine.connect() as connection, connection.begin() as transaction:
        schema = inspect(connection)  # read from the database, so that new tables and columns are tampered with too
        columns = {
            table: {column["name"]: column["type"] for column in schema.get_columns(table)}
            for table in sorted(schema.get_table_names(), reverse=True)  # postings refer to entries
            if table != VERSION_TABLE
        }
        for table in columns:
            connection.execute(text(f"CREATE TABLE loose_{table} AS SELECT * FROM {table}"))
            connection.execute(text(f"DROP TABLE {table}"))
            connection.execute(text(f"ALTER TABLE loose_{table} RENAME TO {table}"))
        yield TamperedStore(connection, columns)
        transaction.rollback()


@contextmanager
def undone(attacker: TamperedStore) -> Iterator[None]:
    """Undo all changes at the end of the block."""
    with attacker.connection.begin_nested() as savepoint:
        yield
        savepoint.rollback()


def _same(row: Mapping[str, Any]) -> str:
    return " AND ".join(f"{name} = :row_{name}" for name in row)


def _prefixed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {f"row_{name}": value for name, value in row.items()}


# What a dishonest operator can do: sign anything.


def parsed(entry: StoredEntry) -> dict[str, Any]:
    document = parse(entry.content)
    assert document is not None
    return document


def sealed(document: Mapping[str, Any], key: SigningKey) -> StoredEntry:
    """Any document, hashed and signed like an entry."""
    content = canonical(document)
    digest = hash_of(content)
    return StoredEntry(
        number=document["number"],
        content=content.decode(),
        hash=digest,
        signature=key.sign(signed_message(digest)),
    )


def next_document(
    entries: Sequence[StoredEntry], kind: str, body: Mapping[str, Any], postings: Sequence[Posting] = ()
) -> dict[str, Any]:
    """The content of an entry that follows the last one."""
    return copy.deepcopy(
        {
            "format": parsed(entries[-1])["format"],
            "number": entries[-1].number + 1,
            "previous": entries[-1].hash,
            "at": "2026-02-01T00:00:00.000000Z",
            "kind": kind,
            "body": dict(body),
            "postings": [[posting.account, str(posting.amount)] for posting in postings],
        }
    )


def settle_by_force(sample: SampleLedger, settled: RoundToSettle) -> None:
    """Write a round that the ledger refuses, as an operator can that signs anything."""
    with pytest.raises(LedgerError, match="the ledger would not be sound with it"):
        sample.ledger.settle(settled)
    terms = sample.ledger.state.terms_of(settled.record.round_number).terms
    enter_by_force(sample.store, sample.operator, draft_round(settled, sample.ledger.identity, terms))


def enter_by_force(store: SqlStore, key: SigningKey, draft: Draft) -> None:
    """Write any entry, with the date of the one before it."""
    with store.writing() as writing:
        entries = list(writing.entries())
        document = next_document(entries, draft.kind, draft.body, draft.postings) | {"at": parsed(entries[-1])["at"]}
        writing.add(sealed(document, key), draft.postings)


def rewritten(
    entries: Sequence[StoredEntry],
    edit: Callable[[dict[str, Any]], None],
    first: int,
    keys: Callable[[str], SigningKey],
) -> list[StoredEntry]:
    """Rewrite history from entry `first` on, with one change in it; every entry is chained and signed again.

    `keys` returns the private half of each key that signed the ledger.
    """
    told = [entry for entry in entries if entry.number < first]
    operator = next((parsed(entry)["body"]["operator"] for entry in reversed(told) if _names_a_key(entry)), "")
    for entry in entries[len(told) :]:
        document = parsed(entry)
        if document["number"] == first:
            edit(document)
        document["previous"] = told[-1].hash if told else document["previous"]
        if document["kind"] == "opening":
            operator = document["body"]["operator"]
        told.append(sealed(document, keys(operator)))
        if document["kind"] == "key-rotation":
            operator = document["body"]["operator"]
    return told


def _names_a_key(entry: StoredEntry) -> bool:
    return parsed(entry)["kind"] in ("opening", "key-rotation")
