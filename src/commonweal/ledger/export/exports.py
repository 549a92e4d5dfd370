"""Exports of a ledger: for spreadsheets, for plain-text accounting, and as a copy to verify.

The first two refuse a ledger whose entries were changed. A copy takes everything as it is, so that verifying the copy
finds whatever is wrong with the ledger.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from decimal import Decimal
from pathlib import Path

from commonweal.atomic_write import UNFINISHED, sync_directory
from commonweal.errors import StorageError, os_reason
from commonweal.ledger.export.beancount import to_beancount
from commonweal.ledger.export.hledger import to_hledger
from commonweal.ledger.export.journal import client_of, read_journal
from commonweal.ledger.printable import printable
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.sql.tables import entries, postings
from commonweal.ledger.store import BEFORE_ALL, Store
from commonweal.records.statement import amount_text, csv_text

_HEADINGS = ("entry", "at", "kind", "round", "account", "client", "amount", "currency", "text")


def csv_content(store: Store) -> bytes:
    """One row per posting, for spreadsheets; `csv_text` keeps a client's name from being run as a formula."""
    journal = read_journal(store)
    rows = [
        (
            entry.number,
            printable(entry.at),
            entry.kind,
            entry.round_number,
            printable(posting.account),
            printable(client_of(posting.account) or ""),
            Decimal(amount_text(posting.amount, journal.terms.minor_digits)),
            journal.terms.currency,
            printable(f"{entry.words}: {entry.note}" if entry.note else entry.words),
        )
        for entry in journal.entries
        for posting in entry.postings
    ]
    return csv_text([_HEADINGS, *rows]).encode()


def hledger_content(store: Store) -> bytes:
    """An hledger journal."""
    return to_hledger(read_journal(store)).encode()


def beancount_content(store: Store) -> bytes:
    """A beancount file."""
    return to_beancount(read_journal(store)).encode()


def copy_ledger(store: Store, path: Path) -> None:
    """Copy the whole ledger, sound or not, into a new SQLite file, for members without access to the database."""
    _check_new(path)
    try:
        with tempfile.TemporaryDirectory(prefix=".", suffix=UNFINISHED, dir=path.parent) as folder:
            unfinished = Path(folder) / "ledger"
            open_store(str(unfinished), create=True).close()
            _copy_rows(store, unfinished)
            _check_new(path)
            unfinished.rename(path)
            sync_directory(path.parent)
    except OSError as error:
        raise _unwritable(path, os_reason(error)) from None
    except sqlite3.Error as error:
        raise _unwritable(path, str(error)) from None


def _copy_rows(store: Store, file: Path) -> None:
    with store.reading() as reading, closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")  # verification must find postings without an entry
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
        raise StorageError(f"Cannot copy the ledger to {path}: the file already exists. Name a new file.")


def _unwritable(path: Path, reason: str) -> StorageError:
    return StorageError(f"Cannot copy the ledger to {path}: {reason}. Choose another place.")
