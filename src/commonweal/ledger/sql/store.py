"""The store in SQLite or PostgreSQL."""

from __future__ import annotations

import logging
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, func, insert, inspect, select, text, tuple_
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from commonweal.errors import StorageError
from commonweal.ledger.entries import Posting, StoredEntry
from commonweal.ledger.printable import printable
from commonweal.ledger.sql.location import driver_arguments, shown, url_of
from commonweal.ledger.sql.ordinary_tables import faults_of_indexes, faults_of_tables
from commonweal.ledger.sql.tables import REVISION, VERSION_TABLE, entries, postings
from commonweal.ledger.store import StoredPosting

logging.getLogger("sqlalchemy.pool").addHandler(logging.NullHandler())  # no traceback beside our sentence

_WAIT_FOR_A_WRITER = 60  # seconds
_ROWS_AT_A_TIME = 1000
_LAST_POSITION = 2**31 - 1  # greater than any position of a posting in its entry
# Not only what the drivers document: SQLite's cannot decode every message of its own, PostgreSQL's passes on errors of
# the network and of its own reading when the server goes away.
_DRIVER_ERRORS = (SQLAlchemyError, sqlite3.Error, OSError, struct.error, UnicodeDecodeError, OverflowError)


def open_store(location: str, *, create: bool = False) -> SqlStore:
    """The store at a path or a database URL; `create` adds the tables if there are none."""
    url = url_of(location)
    file = url.database if url.get_backend_name() == "sqlite" else None
    if file and not create and not file.startswith("file:") and not Path(file).exists():  # SQLite would create it
        raise StorageError(f"There is no ledger at {file}. Create one with: commonweal ledger init {shown(location)}")
    is_new = bool(file) and not Path(str(file)).exists()
    if file and not is_new and not Path(file).is_file():
        raise StorageError(f"{file} is not a file, so it cannot be a ledger. Name another place.")
    store = SqlStore(_engine(url), shown(location))
    try:
        store.check_schema(create=create)
    except BaseException:
        store.close()
        made = Path(str(file))
        if is_new and made.exists() and not made.stat().st_size:  # if it has content, another process is using it
            made.unlink()
        raise
    return store


def has_ledger(location: str) -> bool:
    """Whether there is a ledger at a path or database URL; raises if that cannot be found out."""
    url = url_of(location)
    if url.get_backend_name() == "sqlite" and url.database and not Path(url.database).exists():
        return False
    store = SqlStore(_engine(url), shown(location))
    try:
        return store.revision() is not None
    finally:
        store.close()


class SqlStore:
    """Entries and postings in two tables."""

    def __init__(self, engine: Engine, location: str) -> None:
        self.engine = engine
        self.location = location  # without a password

    @contextmanager
    def reading(self) -> Iterator[SqlRows]:
        with self._transaction(postgresql={"isolation_level": "REPEATABLE READ"}) as connection:
            yield SqlRows(connection, self.location)

    @contextmanager
    def writing(self) -> Iterator[SqlRows]:
        with self._transaction(commonweal_writing=True) as connection:
            with translated_errors(self.location):
                faults = faults_of_tables(connection)
            if faults:
                raise StorageError(
                    f"Cannot add to the ledger in {self.location}: {printable(faults[0])}. Copy the ledger into a "
                    "new database, or restore it from your backup."
                )
            if connection.dialect.name == "postgresql":
                with translated_errors(self.location):
                    connection.execute(text(f"LOCK TABLE {entries.name} IN EXCLUSIVE MODE"))
            yield SqlRows(connection, self.location)

    @contextmanager
    def _transaction(self, *, postgresql: Mapping[str, Any] | None = None, **options: Any) -> Iterator[Connection]:
        """A connection in a transaction. Errors of the database are translated; those of the block are its own."""
        with translated_errors(self.location):
            connection = self.engine.connect()
        try:
            with translated_errors(self.location):
                if postgresql is not None and connection.dialect.name == "postgresql":
                    options |= postgresql
                connection = connection.execution_options(**options)
                transaction = connection.begin()
            try:
                yield connection
            except BaseException:
                with suppress(Exception):  # the first error says what happened
                    transaction.rollback()
                raise
            with translated_errors(self.location):
                transaction.commit()
        finally:
            with suppress(Exception):
                connection.close()

    def entry_count(self) -> int:
        """How many entries there are, for progress bars."""
        with translated_errors(self.location), self.engine.connect() as connection:
            return int(connection.execute(select(func.count()).select_from(entries)).scalar_one())

    def close(self) -> None:
        self.engine.dispose()

    def check_schema(self, *, create: bool) -> None:
        """Refuse a database without a ledger, or of an unknown version; `create` adds missing tables."""
        revision = self.revision()
        if revision is None and create:
            self._make_tables()
        elif revision is None:
            raise StorageError(
                f"There is no ledger in {self.location}. Create one with: commonweal ledger init {self.location}"
            )
        elif revision != REVISION:
            raise StorageError(
                f"The ledger in {self.location} has schema {revision}, but this version knows only schemas up to "
                f"{REVISION}. Use the newer version of commonweal that wrote it."
            )

    def revision(self) -> str | None:
        """The version of the schema; None if there are no tables."""
        with translated_errors(self.location), self.engine.connect() as connection:
            return _revision(connection)

    def _make_tables(self) -> None:
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        with translated_errors(self.location), self.engine.connect() as connection:
            connection = connection.execution_options(commonweal_writing=True)
            with connection.begin():
                if connection.dialect.name == "postgresql":
                    connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('commonweal schema'))"))
                if _revision(connection) is None:  # unless another process has created them
                    config.attributes["connection"] = connection
                    command.upgrade(config, "head")


class SqlRows:
    """The rows within one transaction."""

    def __init__(self, connection: Connection, location: str = "the ledger") -> None:
        self._connection = connection
        self._location = location

    def entries(self, *, after: int = 0) -> Iterator[StoredEntry]:
        for number, content, digest, signature in self._rows(entries, (after,)):
            yield StoredEntry(number=number, content=content, hash=digest, signature=signature)

    def postings(self, *, after: int = 0) -> Iterator[StoredPosting]:
        for entry, position, account, amount in self._rows(postings, (after, _LAST_POSITION)):
            yield StoredPosting(entry=entry, position=position, posting=Posting(account, amount))

    def row_count(self) -> int:
        with translated_errors(self._location):
            return sum(
                self._connection.execute(select(func.count()).select_from(table)).scalar_one()
                for table in (entries, postings)
            )

    def faults(self) -> Sequence[str]:
        with translated_errors(self._location):
            return faults_of_tables(self._connection) + faults_of_indexes(self._connection)

    def add(self, entry: StoredEntry, added: Sequence[Posting]) -> None:
        row = {"number": entry.number, "content": entry.content, "hash": entry.hash, "signature": entry.signature}
        rows = [
            {"entry": entry.number, "position": position, "account": posting.account, "amount": posting.amount}
            for position, posting in enumerate(added)
        ]
        with translated_errors(self._location):
            self._connection.execute(insert(entries), row)
            if rows:
                self._connection.execute(insert(postings), rows)

    def _rows(self, table: Table, after: tuple[int, ...]) -> Iterator[Any]:
        """All rows in the order of their keys, page by page: a query left half-read would keep SQLite's lock."""
        key = tuple_(*table.primary_key)
        query = select(table).order_by(*table.primary_key).limit(_ROWS_AT_A_TIME)
        while True:
            with translated_errors(self._location):
                page = self._connection.execute(query.where(key > after)).all()
            yield from page
            if len(page) < _ROWS_AT_A_TIME:
                return
            after = tuple(page[-1])[: len(after)]


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "postgresql":
        plain, arguments = driver_arguments(url)
        postgres = create_engine(plain, connect_args=arguments)

        @event.listens_for(postgres, "begin")
        def in_public(connection: Connection) -> None:
            # The database may have a path of its own, by which other tables, or other catalogs, come first.
            connection.exec_driver_sql("SET LOCAL search_path = public, pg_temp")

        return postgres
    engine = create_engine(url, connect_args={"timeout": _WAIT_FOR_A_WRITER})

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, record: object) -> None:
        connection.isolation_level = None  # the driver must not begin transactions itself
        connection.text_factory = _text
        connection.execute("PRAGMA foreign_keys = ON")
        # EXTRA, since after a power failure FULL may bring the journal back, which undoes the last commit.
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: beyond the cache of the disk

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        # Writers lock before they read: two that read first and write later would block each other.
        immediate = connection.get_execution_options().get("commonweal_writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def _text(content: bytes) -> str | bytes:
    """Decode a text column. What is not UTF-8 stays bytes: verification names the entry, an error here could not."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar_one_or_none()


_COMPLAINTS = (  # phrases of the databases, what they mean, what to do
    (
        ("readonly database", "read-only transaction", "permission denied for"),
        "The ledger in {location} is read-only",
        "Adding entries needs write access.",
    ),
    (
        ("disk is full", "disk I/O error", "could not extend", "No space left"),
        "The disk of the ledger in {location} is full or failing",
        "Free some space and try again; nothing was added.",
    ),
    (
        ("not a database", "malformed"),
        "{location} is not a SQLite database, or it is damaged",
        "Name another file, or restore it from your backup.",
    ),
    (
        ("database is locked",),
        "Another process is writing to the ledger in {location}",
        "Wait until it is done and try again.",
    ),
    (
        (
            "Can't create a connection",
            "Connection refused",
            "Name or service not known",
            "network error",
            "Broken pipe",
            "Connection reset",
            "terminating connection",
            "connection is closed",
            "shutting down",
            "starting up",
            "unpack",
        ),
        "Cannot reach the database {location}",
        "Start the server, or correct the address.",
    ),
    (
        ("password authentication failed", "28P01", "28000"),
        "The database {location} refused the login",
        "Correct the user and password.",
    ),
    (("3D000", "does not exist"), "There is no database {location}", "Create it, or correct its name."),
    (
        ("unable to open database file",),
        "Cannot open or create {location}",
        "Its folder must exist and be writable.",
    ),
)


@contextmanager
def translated_errors(location: str) -> Iterator[None]:
    """Turn database errors in this block into a StorageError that says what to do; the transaction is rolled back."""
    try:
        yield
    except Exception as error:
        # SQLAlchemy passes on some errors of the PostgreSQL driver, which is not imported for SQLite.
        if not isinstance(error, _DRIVER_ERRORS) and not type(error).__module__.startswith("pg8000."):
            raise
        raise _sentence(error, location) from None


def _sentence(error: Exception, location: str) -> StorageError:
    said = _words(error)
    for words, meaning, way_out in _COMPLAINTS:
        if any(word in said for word in words):
            return StorageError(f"{meaning.format(location=location)}: {_short(said)}. {way_out}")
    return StorageError(f"The database {location} failed: {_short(said)}. Nothing was added.")


def _words(error: Exception) -> str:
    """The database's message; the PostgreSQL driver returns it among a dozen fields."""
    if isinstance(error, UnicodeDecodeError):  # SQLite quotes the damaged schema in its message
        return "malformed database schema"
    original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    fields = original.args[0] if original.args else None
    return f"{fields['M']} ({fields.get('C', '')})" if isinstance(fields, dict) and "M" in fields else str(original)


def _short(said: str) -> str:
    line = " ".join(said.split()).rstrip(".")
    return line if len(line) <= 160 else line[:157] + "..."
