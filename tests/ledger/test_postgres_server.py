"""The PostgreSQL server of the tests: closed to others, and completely gone when it is stopped."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pg8000.native import Connection, DatabaseError
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.pool import NullPool

from tests.ledger import postgres_server
from tests.ledger.postgres_server import PostgresServer, missing_reason

REPOSITORY = Path(__file__).parents[2]
needs_server = pytest.mark.skipif(missing_reason() is not None, reason=missing_reason() or "")


@pytest.fixture(scope="module")
def server():
    with PostgresServer() as running:
        yield running


def answer(url: str, question: str) -> object:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        return connection.execute(text(question)).scalar()


@contextlib.contextmanager
def lingering_client(url: str) -> Iterator[None]:
    """A client that is still connected when the server is gone."""
    with create_engine(url, poolclass=NullPool).connect() as connection:
        yield
        connection.invalidate()  # the server's end is closed: there is nothing to roll back


def execute(url: str, statement: str) -> None:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text(statement))


def tables(url: str) -> list[str]:
    return inspect(create_engine(url, poolclass=NullPool)).get_table_names()


def is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def family(process_id: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text()
    return [process_id, *map(int, children.split())]


@needs_server
def test_answers_at_its_url(server):
    assert answer(server.url, "SELECT 6 * 7") == 42


@needs_server
def test_new_databases_are_empty_and_separate(server):
    first, second = server.new_database(), server.new_database()
    assert tables(first) == tables(second) == []
    execute(first, "CREATE TABLE entries (id int)")
    assert tables(first) == ["entries"]
    assert tables(second) == tables(server.new_database()) == []


@needs_server
def test_a_dropped_database_is_gone_even_when_a_client_is_left(server):
    url = server.new_database()
    with lingering_client(url):
        server.drop_database(url)
    name = urlsplit(url).path.removeprefix("/")
    assert answer(server.url, f"SELECT count(*) FROM pg_database WHERE datname = '{name}'") == 0


@needs_server
@pytest.mark.parametrize("password", ["wrong", ""])
def test_a_wrong_password_is_refused(server, password):
    address = urlsplit(server.url)
    with pytest.raises(DatabaseError) as refusal:
        Connection(address.username, host=address.hostname, port=address.port, password=password, database="postgres")
    assert refusal.value.args[0]["C"] == "28P01"  # invalid_password


@needs_server
def test_listens_on_one_address_and_no_socket_file(server):
    port = urlsplit(server.url).port
    # On Linux 127.0.0.2 is this machine too: a server that listens everywhere would answer.
    with socket.socket() as client, pytest.raises(ConnectionRefusedError):
        client.connect(("127.0.0.2", port))
    assert answer(server.url, "SHOW unix_socket_directories") == ""


@needs_server
@pytest.mark.skipif(os.geteuid() != 0, reason="is about root")
def test_root_does_not_run_it_as_root(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    user_ids, group_ids, groups = (
        next(line.split()[1:] for line in status.splitlines() if line.startswith(field))
        for field in ("Uid:", "Gid:", "Groups:")
    )
    assert "0" not in {*user_ids, *group_ids, *groups}
    assert server.directory.stat().st_uid == int(user_ids[0])


@needs_server
def test_a_stopped_server_leaves_no_process_and_no_directory():
    with contextlib.ExitStack() as clients, PostgresServer() as server:
        clients.enter_context(lingering_client(server.new_database()))  # does not delay it
        processes = family(server.process.pid)
        assert len(processes) > 1
    assert not any(is_alive(process_id) for process_id in processes)
    assert not server.directory.exists()


@pytest.mark.soak
@needs_server
def test_a_server_that_does_not_stop_is_killed():
    with PostgresServer(patience_seconds=0.2) as server:
        server.process.send_signal(signal.SIGSTOP)
    assert server.process.returncode == -signal.SIGKILL
    assert not server.directory.exists()


@pytest.mark.soak
@needs_server
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs Linux's setpriv")
def test_killed_tests_take_the_server_along():
    tests = (
        "import time; from tests.ledger.postgres_server import PostgresServer\n"
        "with PostgresServer() as server: print(server.process.pid, server.directory, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", tests], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        process_id, directory = process.stdout.readline().split()
        assert is_alive(int(process_id))
        assert Path(directory).exists()
        process.kill()
    deadline = time.monotonic() + 20
    while is_alive(int(process_id)) or Path(directory).exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.soak
@needs_server
def test_a_failed_start_says_why_and_leaves_nothing(monkeypatch):
    monkeypatch.setitem(postgres_server.SETTINGS, "shared_buffers", "none at all")
    server = PostgresServer()
    with pytest.raises(RuntimeError, match='invalid value for parameter "shared_buffers"'):
        server.__enter__()
    assert not server.directory.exists()


def test_missing_programs_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres_server, "DEBIAN_FOLDER", tmp_path)
    assert "apt-get install postgresql" in missing_reason()
    with pytest.raises(RuntimeError, match="not installed"):
        PostgresServer().__enter__()


def test_the_newest_version_is_used(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres_server, "DEBIAN_FOLDER", tmp_path)
    for version, programs in {"9.6": ["initdb", "postgres"], "15": ["initdb", "postgres"], "17": ["initdb"]}.items():
        folder = tmp_path / version / "bin"
        folder.mkdir(parents=True)
        for program in programs:
            (folder / program).touch(mode=0o755)
    assert postgres_server._programs_folder() == tmp_path / "15" / "bin"
