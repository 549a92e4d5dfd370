"""Whether a ledger's tables are ordinary ones, which return what was put into them and nothing else.

A view can show each reader something else; a trigger can change what is written, and a generated column or a policy for
rows what is read. An index that differs from its table returns other rows to those who read by it.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from commonweal.ledger.sql.tables import entries, postings

_NAMES = (entries.name, postings.name)
_MOST_FAULTS = 5  # of indexes; one is enough to restore a backup
_POSTGRES_KINDS = {
    "v": "a view",
    "m": "a materialised view",
    "f": "a foreign table",
    "p": "a partitioned table",
}


def faults_of_tables(connection: Connection) -> tuple[str, ...]:
    """What is not ordinary about the two tables, each in a few words; empty if nothing is."""
    find = _in_postgres if connection.dialect.name == "postgresql" else _in_sqlite
    return tuple(fault for name in _NAMES for fault in find(connection, name))


def faults_of_indexes(connection: Connection) -> tuple[str, ...]:
    """Where indexes and tables of a SQLite file differ. All rows are read for it, so not before every entry.

    PostgreSQL's files cannot be edited behind the server's back by those who may only connect to it.
    """
    if connection.dialect.name == "postgresql":
        return ()
    said = (row[0] for name in _NAMES for row in connection.exec_driver_sql(f"PRAGMA integrity_check({name})"))
    faults = dict.fromkeys(str(text) for text in said if text != "ok")
    return tuple(f"SQLite says: {fault}" for fault in faults)[:_MOST_FAULTS]


def _in_sqlite(connection: Connection, name: str) -> list[str]:
    found = connection.execute(
        text("SELECT type, name, sql FROM sqlite_master WHERE lower(name) = :name OR lower(tbl_name) = :name"),
        {"name": name},
    ).all()
    faults = []
    for kind, what, made_by in found:
        if kind == "view":
            faults.append(f"{name} is a view")
        elif kind == "trigger":
            faults.append(f"{name} has the trigger {what}")
        elif kind == "table" and str(made_by).split()[:2] != ["CREATE", "TABLE"]:
            faults.append(f"{name} is a virtual table")  # also with a comment in its statement
    # What the table is by name, whatever the row of the schema says; older versions of SQLite do not tell.
    kinds = {row[2] for row in connection.exec_driver_sql("PRAGMA main.table_list") if str(row[1]).lower() == name}
    if not faults and kinds - {"table"}:
        faults.append(f"{name} is no ordinary table")
    columns = connection.exec_driver_sql(f"PRAGMA table_xinfo({name})").all()
    return faults + [f"{name} has the generated column {column[1]}" for column in columns if column[6] in (2, 3)]


def _in_postgres(connection: Connection, name: str) -> list[str]:
    table = connection.execute(
        text(
            "SELECT oid, relkind, relhasrules, relrowsecurity FROM pg_catalog.pg_class "
            "WHERE oid = pg_catalog.to_regclass(:name)"
        ),
        {"name": name},
    ).one_or_none()
    if table is None:
        return []
    oid, kind, has_rules, has_policies = table
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    if kind != "r":
        return [f"{name} is {_POSTGRES_KINDS.get(kind, 'no table')}"]
    faults = [f"{name} has rules"] * bool(has_rules) + [f"{name} has row-level security"] * bool(has_policies)
    for query, what in (
        ("SELECT tgname FROM pg_catalog.pg_trigger WHERE tgrelid = :oid AND NOT tgisinternal", "the trigger"),
        (
            "SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = :oid AND attgenerated <> ''",
            "the generated column",
        ),
        ("SELECT inhrelid::regclass::text FROM pg_catalog.pg_inherits WHERE inhparent = :oid", "the child table"),
    ):
        names = connection.execute(text(query), {"oid": oid}).scalars()
        faults += [f"{name} has {what} {found}" for found in names]
    return faults
