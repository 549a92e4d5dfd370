"""What databases complain of, as rule, evidence and way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from commonweal.errors import StorageError

_COMPLAINTS = (  # how the database says it, the rule, the way out
    (
        ("readonly database", "read-only transaction", "permission denied for"),
        "a ledger must be writable to take entries",
        "settle where you may write",
    ),
    (("disk is full", "disk I/O error", "could not extend", "No space left"), "a ledger needs room", "make room there"),
    (
        ("not a database", "malformed"),
        "a ledger must be a SQLite database or a PostgreSQL URL",
        "name another file, or restore it from your copy",
    ),
    (("database is locked",), "a ledger is written by one process at a time", "wait for the other one to end"),
    (
        ("Can't create a connection", "Connection refused", "Name or service not known", "network error"),
        "the ledger's database must be reachable",
        "start the server, or correct the address",
    ),
    (
        ("password authentication failed", "28P01", "28000"),
        "the ledger's database must let you in",
        "correct user and password",
    ),
    (("3D000", "does not exist"), "the ledger's database must exist", "create it there, or correct its name"),
    (
        ("unable to open database file",),
        "the folder of a ledger must exist and be writable",
        "make it, or name another path",
    ),
)


@contextmanager
def told_plainly(location: str) -> Iterator[None]:
    """Errors of the database in this block become sentences; the transaction was rolled back."""
    try:
        yield
    except SQLAlchemyError as error:
        raise _sentence(error, location) from None


def _sentence(error: SQLAlchemyError, location: str) -> StorageError:
    said = _words(error)
    for words, rule, way_out in _COMPLAINTS:
        if any(word in said for word in words):
            return StorageError(f"{rule}, got {_short(said)} for {location!r}; {way_out}")
    return StorageError(f"the ledger's database must work, got {_short(said)} for {location!r}; nothing was entered")


def _words(error: SQLAlchemyError) -> str:
    """What the database says; PostgreSQL's driver gives its message among a dozen fields."""
    original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    fields = original.args[0] if original.args else None
    return f"{fields['M']} ({fields.get('C', '')})" if isinstance(fields, dict) and "M" in fields else str(original)


def _short(said: str) -> str:
    line = " ".join(said.split())
    return line if len(line) <= 160 else line[:157] + "..."
