"""The ledger for other programs and other people: spreadsheets, plain-text accounting, and a copy to verify.

The first three read what entries state, and refuse a ledger whose entries were changed. A copy takes everything as it
is, so that verifying it finds whatever is wrong with the ledger.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from decimal import Decimal
from pathlib import Path

from commonweal.atomic_write import UNFINISHED
from commonweal.errors import LedgerError
from commonweal.ledger.export.beancount import to_beancount
from commonweal.ledger.export.hledger import to_hledger
from commonweal.ledger.export.journal import client_of, read_journal
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.sql.tables import entries, postings
from commonweal.ledger.store import BEFORE_ALL, Store
from commonweal.records.statement import amount_text, csv_text

_HEADINGS = ("entry", "at", "kind", "round", "account", "client", "amount", "currency", "text")


def csv_content(store: Store) -> bytes:
    """A row for each posting, for spreadsheets.

    They would run text that starts with = + - or @ as a formula, so a client's name that does, or that starts with an
    apostrophe, has an apostrophe in front.
    """
    journal = read_journal(store)
    rows = [
        (
            entry.number,
            entry.at,
            entry.kind,
            entry.round_number,
            posting.account,
            client_of(posting.account),
            Decimal(amount_text(posting.amount, journal.terms.minor_digits)),
            journal.terms.currency,
            f"{entry.words}: {entry.note}" if entry.note else entry.words,
        )
        for entry in journal.entries
        for posting in entry.postings
    ]
    return csv_text([_HEADINGS, *rows]).encode()


def hledger_content(store: Store) -> bytes:
    """A journal for hledger."""
    return to_hledger(read_journal(store)).encode()


def beancount_content(store: Store) -> bytes:
    """A ledger for beancount."""
    return to_beancount(read_journal(store)).encode()


def copy_ledger(store: Store, path: Path) -> None:
    """The whole ledger, sound or not, in a new SQLite file: for members who do not get at the operator's database."""
    _check_new(path)
    try:
        with tempfile.TemporaryDirectory(prefix=".", suffix=UNFINISHED, dir=path.parent) as folder:
            unfinished = Path(folder) / "book"
            open_store(str(unfinished), create=True).close()
            _copy_rows(store, unfinished)
            _check_new(path)
            unfinished.rename(path)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from None
    except sqlite3.Error as error:
        raise _unwritable(path, str(error)) from None


def _copy_rows(store: Store, file: Path) -> None:
    with store.reading() as reading, closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")  # postings without an entry are for the auditor to find
        connection.executemany(
            f"INSERT INTO {entries.name} (number, content, hash, signature) VALUES (?, ?, ?, ?)",
            ((entry.number, entry.content, entry.hash, entry.signature) for entry in reading.entries(after=BEFORE_ALL)),
        )
        connection.executemany(
            f"INSERT INTO {postings.name} (entry, position, account, amount) VALUES (?, ?, ?, ?)",
            (
                (stored.entry, stored.position, stored.posting.account, stored.posting.amount)
                for stored in reading.postings(after=BEFORE_ALL)
            ),
        )


def _check_new(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise LedgerError(f"a copy of a ledger is a new file, got {str(path)!r}, which exists; name another")


def _unwritable(path: Path, why: str) -> LedgerError:
    return LedgerError(f"the copy must be writable, got {why} for {str(path)!r}; choose another place")
