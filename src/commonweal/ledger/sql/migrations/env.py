"""Alembic runs this: it brings the connection's database up to date, in the transaction that is under way."""

from __future__ import annotations

from alembic import context

from commonweal.ledger.sql.tables import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()
