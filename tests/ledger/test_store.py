"""Both databases fulfil the contract of a store."""

from __future__ import annotations

import pytest

from commonweal.ledger.sql.store import SqlStore, open_store
from commonweal.ledger.store_contract import StoreContract


class TestSqlStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _new_location(self, new_location):
        self.location = new_location()

    def make_store(self) -> SqlStore:
        return open_store(self.location, create=True)

    def reopen(self, store: SqlStore) -> SqlStore:
        return open_store(self.location)


def test_an_interrupted_start_leaves_the_ledger_of_another_process(tmp_path, monkeypatch):
    """Two processes create the same file, and one of them is interrupted."""
    location = str(tmp_path / "ledger.db")
    check_schema = SqlStore.check_schema

    def interrupted(store: SqlStore, *, create: bool) -> None:
        monkeypatch.setattr(SqlStore, "check_schema", check_schema)
        open_store(location, create=True).close()
        raise KeyboardInterrupt

    monkeypatch.setattr(SqlStore, "check_schema", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_store(location, create=True)
    open_store(location).close()


def test_an_interrupted_start_leaves_no_file(tmp_path, monkeypatch):
    def interrupted(store: SqlStore, *, create: bool) -> None:
        with store.writing():
            raise KeyboardInterrupt

    monkeypatch.setattr(SqlStore, "check_schema", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_store(str(tmp_path / "ledger.db"), create=True)
    assert list(tmp_path.iterdir()) == []
