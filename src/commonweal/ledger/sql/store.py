"""The store in SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, func, insert, inspect, select, text, tuple_
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from commonweal.errors import StorageError
from commonweal.ledger.entries import Posting, StoredEntry
from commonweal.ledger.printable import printable
from commonweal.ledger.sql.location import driver_arguments, shown, url_of
from commonweal.ledger.sql.ordinary_tables import faults_of_tables
from commonweal.ledger.sql.tables import REVISION, VERSION_TABLE, entries, postings
from commonweal.ledger.store import StoredPosting

_WAIT_FOR_A_WRITER = 60  # seconds
_ROWS_AT_A_TIME = 1000
_LAST_POSITION = 2**31 - 1  # greater than any position of a posting in its entry


def open_store(location: str, *, create: bool = False) -> SqlStore:
    """The store at a path or a database URL; `create` adds the tables if there are none."""
    url = url_of(location)
    file = url.database if url.get_backend_name() == "sqlite" else None
    if file and not create and not file.startswith("file:") and not Path(file).exists():  # SQLite would create it
        raise StorageError(f"There is no ledger at {file}. Create one with: commonweal ledger init {shown(location)}")
    is_new = bool(file) and not Path(str(file)).exists()
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
        with translated_errors(self.location), self.engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield SqlRows(connection)

    @contextmanager
    def writing(self) -> Iterator[SqlRows]:
        with translated_errors(self.location), self.engine.connect() as connection:
            connection = connection.execution_options(commonweal_writing=True)
            with connection.begin():
                faults = faults_of_tables(connection)
                if faults:
                    raise StorageError(
                        f"Cannot add to the ledger in {self.location}: {printable(faults[0])}. Copy the ledger into a "
                        "new database, or restore it from your backup."
                    )
                if connection.dialect.name == "postgresql":
                    connection.execute(text(f"LOCK TABLE {entries.name} IN EXCLUSIVE MODE"))
                yield SqlRows(connection)

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

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def entries(self, *, after: int = 0) -> Iterator[StoredEntry]:
        for number, content, digest, signature in self._rows(entries, (after,)):
            yield StoredEntry(number=number, content=content, hash=digest, signature=signature)

    def postings(self, *, after: int = 0) -> Iterator[StoredPosting]:
        for entry, position, account, amount in self._rows(postings, (after, _LAST_POSITION)):
            yield StoredPosting(entry=entry, position=position, posting=Posting(account, amount))

    def row_count(self) -> int:
        return sum(
            self._connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (entries, postings)
        )

    def faults(self) -> Sequence[str]:
        return faults_of_tables(self._connection)

    def add(self, entry: StoredEntry, added: Sequence[Posting]) -> None:
        self._connection.execute(
            insert(entries),
            {"number": entry.number, "content": entry.content, "hash": entry.hash, "signature": entry.signature},
        )
        if added:
            self._connection.execute(
                insert(postings),
                [
                    {"entry": entry.number, "position": position, "account": posting.account, "amount": posting.amount}
                    for position, posting in enumerate(added)
                ],
            )

    def _rows(self, table: Table, after: tuple[int, ...]) -> Iterator[Any]:
        """All rows in the order of their keys, page by page: a query left half-read would keep SQLite's lock."""
        key = tuple_(*table.primary_key)
        query = select(table).order_by(*table.primary_key).limit(_ROWS_AT_A_TIME)
        while True:
            page = self._connection.execute(query.where(key > after)).all()
            yield from page
            if len(page) < _ROWS_AT_A_TIME:
                return
            after = tuple(page[-1])[: len(after)]


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "postgresql":
        plain, arguments = driver_arguments(url)
        return create_engine(plain, connect_args=arguments)
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
        ("Can't create a connection", "Connection refused", "Name or service not known", "network error"),
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
    except SQLAlchemyError as error:
        raise _sentence(error, location) from None


def _sentence(error: SQLAlchemyError, location: str) -> StorageError:
    said = _words(error)
    for words, meaning, way_out in _COMPLAINTS:
        if any(word in said for word in words):
            return StorageError(f"{meaning.format(location=location)}: {_short(said)}. {way_out}")
    return StorageError(f"The database {location} failed: {_short(said)}. Nothing was added.")


def _words(error: SQLAlchemyError) -> str:
    """The database's message; the PostgreSQL driver returns it among a dozen fields."""
    original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    fields = original.args[0] if original.args else None
    return f"{fields['M']} ({fields.get('C', '')})" if isinstance(fields, dict) and "M" in fields else str(original)


def _short(said: str) -> str:
    line = " ".join(said.split()).rstrip(".")
    return line if len(line) <= 160 else line[:157] + "..."
