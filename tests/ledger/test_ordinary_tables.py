"""Tables that are views, or have triggers: two readers may see two ledgers, so verification says so."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import text

from commonweal.errors import StorageError
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.sql.store import open_store
from tests.ledger.sample_ledger import ENTRIES, POSTINGS, make_sample, verified

A_VIEW = (
    "ALTER TABLE {table} RENAME TO hidden",
    "CREATE VIEW {table} AS SELECT * FROM hidden",
)
ANYWHERE = {"a view": (A_VIEW, "is a view")}
IN_SQLITE = ANYWHERE | {
    "a trigger": (
        (
            f"CREATE TRIGGER quiet AFTER INSERT ON {POSTINGS} BEGIN "
            f"UPDATE {POSTINGS} SET amount = amount + 1 WHERE account = 'clients/ann'; END",
        ),
        "has the trigger quiet",
    ),
    "a generated column": (
        (f"ALTER TABLE {POSTINGS} ADD COLUMN double AS (amount * 2)",),
        "has the generated column double",
    ),
    "a writable view": (
        (
            *A_VIEW,
            f"CREATE TRIGGER instead INSTEAD OF INSERT ON {POSTINGS} BEGIN "
            "INSERT INTO hidden VALUES (NEW.entry, NEW.position, NEW.account, NEW.amount); END",
        ),
        "is a view",
    ),
}
IN_POSTGRES = ANYWHERE | {
    "a materialised view": (
        ("ALTER TABLE {table} RENAME TO hidden", "CREATE MATERIALIZED VIEW {table} AS SELECT * FROM hidden"),
        "is a materialised view",
    ),
    "a trigger": (
        (
            "CREATE FUNCTION quiet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
            f"CREATE TRIGGER quiet BEFORE INSERT ON {POSTINGS} FOR EACH ROW EXECUTE FUNCTION quiet()",
        ),
        "has the trigger quiet",
    ),
    "a rule": ((f"CREATE RULE quiet AS ON UPDATE TO {POSTINGS} DO INSTEAD NOTHING",), "has rules"),
    "a policy": ((f"ALTER TABLE {POSTINGS} ENABLE ROW LEVEL SECURITY",), "has row-level security"),
    "a generated column": (
        (f"ALTER TABLE {POSTINGS} ADD COLUMN double bigint GENERATED ALWAYS AS (amount * 2) STORED",),
        "has the generated column double",
    ),
    "a child": ((f"CREATE TABLE more () INHERITS ({POSTINGS})",), "has the child table more"),
}
ODD = {(backend, what) for backend, odd in (("sqlite", IN_SQLITE), ("postgresql", IN_POSTGRES)) for what in odd}


def change(location, statements):
    with closing(open_store(location)) as store, store.engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement.format(table=POSTINGS)))


@pytest.mark.parametrize("what", sorted({what for _, what in ODD}))
def test_odd_tables_are_found_and_not_written_to(new_location, tmp_path, what):
    location = new_location()
    backend = "postgresql" if location.startswith("postgresql") else "sqlite"
    if (backend, what) not in ODD:
        pytest.skip(f"{backend} has nothing like {what}, or another test has it")
    sample = make_sample(location, tmp_path / "keys", "accruals")
    entry_count = len(sample.entries())
    sample.store.close()
    statements, fault = (IN_SQLITE if backend == "sqlite" else IN_POSTGRES)[what]
    change(location, statements)
    with closing(open_store(location)) as store:
        findings = verified(store).findings
        assert (0, "the tables are ordinary ones", f"{POSTINGS} {fault}") in {
            (finding.entry, finding.rule, finding.found) for finding in findings
        }
        ledger = Ledger(store, sample.keys)
        with pytest.raises(StorageError, match=f"Cannot add to the ledger in .*: {POSTINGS} {fault}"):
            ledger.admit({"eve": None})
        assert store.entry_count() == entry_count


def test_a_view_that_shows_every_reader_something_else(tmp_path):
    """Whatever the rows are while they are read, the view itself is a finding."""
    location = str(tmp_path / "ledger.db")
    sample = make_sample(location, tmp_path / "keys", "accruals")
    sample.store.close()
    change(
        location,
        (
            f"ALTER TABLE {ENTRIES} RENAME TO hidden",
            f"CREATE VIEW {ENTRIES} AS SELECT number, content, hash, signature FROM hidden "
            "WHERE number < 5 OR abs(random() % 2) = 0",
        ),
    )
    with closing(open_store(location)) as store:
        found = [finding.found for finding in verified(store).findings]
    assert f"{ENTRIES} is a view" in found


def test_ordinary_tables_are_nothing_to_report(new_location, tmp_path):
    sample = make_sample(new_location(), tmp_path / "keys", "accruals")
    assert verified(sample.store).findings == ()
    with sample.store.engine.begin() as connection:  # what a database administrator may add
        connection.execute(text(f"CREATE INDEX by_account ON {POSTINGS} (account)"))
        connection.execute(text(f"CREATE VIEW totals AS SELECT account, sum(amount) FROM {POSTINGS} GROUP BY account"))
    assert verified(sample.store).findings == ()
    sample.ledger.admit({"eve": None})
    sample.store.close()


def schema_edited(file, *statements):
    """Change the rows of SQLite's own schema, as whoever has the file can."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for statement, values in statements:
            connection.execute(statement, values)
        version = connection.execute("PRAGMA schema_version").fetchone()[0]
        connection.execute(f"PRAGMA schema_version = {version + 1}")


def changed_behind(file, index, change):
    """Change a table while an index of it is not in the schema; the index keeps its content."""
    with closing(sqlite3.connect(file)) as connection:
        query = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master WHERE name = ?"
        row = connection.execute(query, (index,)).fetchone()
        table_row = connection.execute(query, (row[2],)).fetchone()
    update = "UPDATE sqlite_master SET sql = ? WHERE name = ?"
    columns = {ENTRIES: "number INTEGER, content TEXT, hash TEXT, signature TEXT"}
    columns[POSTINGS] = "entry BIGINT, position INTEGER, account TEXT, amount BIGINT"
    loose = [] if row[4] else [(update, (f"CREATE TABLE {row[2]} ({columns[row[2]]})", row[2]))]  # else: its own index
    schema_edited(file, ("DELETE FROM sqlite_master WHERE name = ?", (index,)), *loose)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(change)
    schema_edited(
        file,
        (update, (table_row[4], row[2])),
        ("INSERT INTO sqlite_master (type, name, tbl_name, rootpage, sql) VALUES (?, ?, ?, ?, ?)", row),
    )


@pytest.fixture
def file(tmp_path):
    location = str(tmp_path / "ledger.db")
    make_sample(location, tmp_path / "keys", "accruals").store.close()
    return location


def faults_found(file):
    with closing(open_store(file)) as store:
        return [each.found for each in verified(store).findings if each.rule == "the tables are ordinary ones"]


def test_a_posting_that_is_not_in_the_index_that_others_read_by(file):
    index = f"sqlite_autoindex_{POSTINGS}_1"
    changed_behind(file, index, f"INSERT INTO {POSTINGS} VALUES (3, 7, 'clients/operator', 1000000)")
    assert any(index in fault for fault in faults_found(file))


def test_an_index_that_has_what_the_table_had_before(file):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"CREATE INDEX cover ON {ENTRIES} (number, content, hash, signature)")
    changed_behind(file, "cover", f"UPDATE {ENTRIES} SET content = '{{}}' WHERE number = 3")
    assert any("cover" in fault for fault in faults_found(file))


@pytest.mark.parametrize("words", ["CREATE VIRTUAL TABLE", "CREATE /* */ VIRTUAL TABLE", "CREATE\t/**/VIRTUAL TABLE"])
def test_a_virtual_table(file, words):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"ALTER TABLE {POSTINGS} RENAME TO hidden")
        connection.execute("CREATE VIEW shown AS SELECT rowid AS rowid, entry, position, account, amount FROM hidden")
        connection.execute(
            f"CREATE VIRTUAL TABLE {POSTINGS} USING fts5(entry, position, account, amount, content='shown')"
        )
    edit = "UPDATE sqlite_master SET sql = replace(sql, 'CREATE VIRTUAL TABLE', ?) WHERE name = ?"
    schema_edited(file, (edit, (words, POSTINGS)))
    assert f"{POSTINGS} is a virtual table" in faults_found(file)


def test_a_path_of_the_database_hides_nothing(postgres_server, tmp_path):
    """Whoever may change the database can put another catalog, or other tables, before the true ones."""
    location = postgres_server.new_database()
    sample = make_sample(location, tmp_path / "keys", "accruals")
    balances = dict(sample.ledger.state.balances)
    sample.store.close()
    name = location.rpartition("/")[2].partition("?")[0]
    path = f'ALTER DATABASE "{name}" SET search_path = evil, pg_catalog, public'
    change(location, ("CREATE SCHEMA evil", "CREATE TABLE evil.{table} AS SELECT * FROM public.{table} LIMIT 1", path))
    with closing(open_store(location)) as store:
        outcome = verified(store)
    assert not outcome.findings
    assert dict(outcome.state.balances) == balances
    columns = "oid, 'r'::\"char\" AS relkind, false AS relhasrules, false AS relrowsecurity"
    change(location, (*A_VIEW, f"CREATE VIEW evil.pg_class AS SELECT {columns} FROM pg_catalog.pg_class"))
    with closing(open_store(location)) as store:
        assert [finding.found for finding in verified(store).findings] == [f"{POSTINGS} is a view"]
    postgres_server.drop_database(location)
