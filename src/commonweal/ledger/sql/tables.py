"""The two tables of a ledger; `migrations` has their history."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, MetaData, Table, Text

VERSION_TABLE = "commonweal_schema"
REVISION = "0001"  # of the tables below

metadata = MetaData()

entries = Table(
    "commonweal_entries",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("content", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("signature", Text, nullable=False),
)

postings = Table(
    "commonweal_postings",
    metadata,
    Column("entry", BigInteger, ForeignKey("commonweal_entries.number"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("account", Text, nullable=False),
    Column("amount", BigInteger, nullable=False),
)
