"""Run by Alembic: upgrades the connection's database within its current transaction."""

from __future__ import annotations

from alembic import context

from commonweal.ledger.sql.tables import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()
