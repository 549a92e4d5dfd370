"""Stores for the tests: SQLite in a file, and a PostgreSQL server that the tests start themselves."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from tests.ledger.postgres_server import PostgresServer, missing_reason

pytest.register_assert_rewrite("commonweal.ledger.store_contract")

BACKENDS = ("sqlite", "postgresql")
NewLocation = Callable[[], str]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    reason = missing_reason()
    if reason:
        pytest.skip(reason)
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def quick_connections() -> Iterator[None]:
    """Before pg8000 asks the server about TLS, it reads all certificates of the system, which takes 40 ms each time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", os.devnull)
        patch.setenv("SSL_CERT_DIR", os.devnull)
        yield


@pytest.fixture(scope="module", params=BACKENDS)
def new_location(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewLocation]:
    """Creates locations for new ledgers: paths for SQLite, URLs of empty databases for PostgreSQL."""
    if request.param == "sqlite":
        folder, numbers = tmp_path_factory.mktemp("ledgers"), count(1)
        yield lambda: str(folder / f"{next(numbers)}.db")
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        with _databases(server) as new_database:
            yield new_database


@contextmanager
def _databases(server: PostgresServer) -> Iterator[NewLocation]:
    made: list[str] = []

    def new_database() -> str:
        made.append(server.new_database())
        return made[-1]

    yield new_database
    for url in made:
        server.drop_database(url)
