"""Both databases keep what a book asks of a store."""

from __future__ import annotations

import pytest

from commonweal.ledger.sql_store import SqlStore, open_store
from commonweal.ledger.store_contract import StoreContract


class TestSqlStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _new_location(self, new_location):
        self.location = new_location()

    def make_store(self) -> SqlStore:
        return open_store(self.location, create=True)

    def reopen(self, store: SqlStore) -> SqlStore:
        return open_store(self.location)
