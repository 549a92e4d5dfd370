"""A PostgreSQL server that the tests create, start, stop and remove.

    with PostgresServer() as server:
        engine = create_engine(server.new_database())

It listens on a free port of only the loopback interface and asks for a random password, so that other users of the
machine stay out. It forgets everything when it stops. Its clients may be killed at any time: what they committed stays.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from pg8000.native import Connection

from tests.in_memory import folder_in_memory

DEBIAN_FOLDER = Path("/usr/lib/postgresql")
ACCOUNTS_INSTEAD_OF_ROOT = ("postgres", "nobody")
USER = "ledger"
HOST = "127.0.0.1"
START_LIMIT_SECONDS = 30.0
PORT_ATTEMPT_LIMIT = 3
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    # The machine is not expected to lose power during a test; without these two a commit still reaches the kernel.
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "shared_buffers": "16MB",
    "autovacuum": "off",
    "jit": "off",
}


def missing_reason() -> str | None:
    """Why no server can be started here; None if one can."""
    if _programs_folder() is None:
        return "PostgreSQL's server programs are not installed: apt-get install postgresql"
    if os.geteuid() == 0 and _account_instead_of_root() is None:
        return f"PostgreSQL refuses to run as root, and there is no user {' or '.join(ACCOUNTS_INSTEAD_OF_ROOT)}"
    return None


class PostgresServer:
    """A server that runs during a `with` block; `url` is that of a database that always exists."""

    directory: Path
    process: subprocess.Popen[bytes]
    url: str

    def __init__(self, *, patience_seconds: float = 10.0) -> None:
        self.patience_seconds = patience_seconds
        self._password = secrets.token_hex(16)
        self._database_numbers = itertools.count(1)

    def __enter__(self) -> Self:
        if reason := missing_reason():
            raise RuntimeError(reason)
        with contextlib.ExitStack() as undo:
            # Not pytest's tmp_path: only its owner may enter it, and the server may run as another user.
            # In memory, since a database is 300 files.
            self.directory = Path(tempfile.mkdtemp(prefix="commonweal-postgres-", dir=folder_in_memory()))
            undo.callback(shutil.rmtree, self.directory)
            undo.enter_context(_removal_after_our_death(self.directory))
            self._make_cluster()
            self._start()
            undo.callback(self._stop)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._undo.close()

    def new_database(self) -> str:
        """Create an empty database and return its URL."""
        name = f"ledger_{next(self._database_numbers)}"
        # Nobody can be connected to template0, so it can always be copied.
        self._administer(f"CREATE DATABASE {name} TEMPLATE template0")
        return self._url_of(name)

    def drop_database(self, url: str) -> None:
        """Remove a database even if somebody is still connected to it."""
        self._administer(f"DROP DATABASE {urlsplit(url).path.removeprefix('/')} WITH (FORCE)")

    def _url_of(self, database: str) -> str:
        return f"postgresql+pg8000://{USER}:{self._password}@{HOST}:{self._port}/{database}"

    def _administer(self, statement: str) -> None:
        # By default pg8000 reads all certificates of the system, although this server has no TLS: 40 ms.
        with Connection(
            USER, host=HOST, port=self._port, password=self._password, database="postgres", ssl_context=False
        ) as connection:
            connection.run(statement)

    def _make_cluster(self) -> None:
        password_file = self.directory / "password"
        password_file.write_text(self._password)
        if account := _account_instead_of_root():
            os.chown(self.directory, account.pw_uid, account.pw_gid)
            os.chown(password_file, account.pw_uid, account.pw_gid)
        command = [
            _program("initdb"), "--pgdata=data", f"--username={USER}", f"--pwfile={password_file}",
            "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=1",
        ]  # fmt: skip
        made = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **self._surroundings())
        if made.returncode:
            raise RuntimeError(f"initdb failed with status {made.returncode} in {self.directory}:\n{made.stderr}")
        password_file.unlink()

    def _start(self) -> None:
        for _ in range(PORT_ATTEMPT_LIMIT):  # another process may take a free port before the server does
            self._port = _free_port()
            self.process = self._launch()
            try:
                if self._becomes_ready():
                    self.url = self._url_of("postgres")
                    return
            except BaseException:
                self._stop()
                raise
        raise RuntimeError(f"PostgreSQL ended with status {self.process.returncode} at its start:\n{self._log()}")

    def _launch(self) -> subprocess.Popen[bytes]:
        command = [_program("postgres"), "-D", "data", "-p", str(self._port)]
        for name, value in SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        # The kernel stops the server at once when the thread that started it dies, even by kill -9.
        if setpriv := shutil.which("setpriv"):
            command = [setpriv, "--pdeathsig", "QUIT", *command]
        with (self.directory / "log").open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests, which then stop the server
                **self._surroundings(),
            )

    def _becomes_ready(self) -> bool:
        """Wait for the status that pg_ctl waits for; False if the server ends instead."""
        status_file = self.directory / "data" / "postmaster.pid"
        deadline = time.monotonic() + START_LIMIT_SECONDS
        while self.process.poll() is None:
            with contextlib.suppress(FileNotFoundError):
                if status_file.read_text().rstrip().endswith("\nready"):
                    return True
            if time.monotonic() > deadline:
                raise TimeoutError(f"PostgreSQL was not ready after {START_LIMIT_SECONDS:.0f} s:\n{self._log()}")
            time.sleep(0.01)
        return False

    def _stop(self) -> None:
        # PostgreSQL's fast shutdown, its immediate one, and the kernel's.
        for stop_signal in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            self.process.send_signal(stop_signal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(self.patience_seconds)
                return
        raise RuntimeError(f"PostgreSQL, process {self.process.pid}, outlived SIGKILL in {self.directory}")

    def _log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def _surroundings(self) -> dict[str, Any]:
        """Folder, environment and user of PostgreSQL's programs, for subprocess."""
        # PGPORT, PGDATA and so on are about another server; LC_ALL and TZ make this one the same everywhere.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        surroundings: dict[str, Any] = {"cwd": self.directory, "env": {**environment, "LC_ALL": "C", "TZ": "UTC"}}
        if account := _account_instead_of_root():
            surroundings |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        return surroundings


@contextlib.contextmanager
def _removal_after_our_death(directory: Path) -> Iterator[None]:
    """Have a directory removed even if this process is killed first."""
    # The pipe ends with this process; a second later the kernel has stopped the server.
    with subprocess.Popen(
        ["/bin/sh", "-c", 'read _; sleep 1; exec rm -rf "$1"', "sh", str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,  # otherwise readers of our output would wait for this process
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # our whole process group may be killed
    ) as remover:
        try:
            yield
        finally:
            remover.kill()


def _programs_folder() -> Path | None:
    """The folder of both programs: the one on the PATH, otherwise the newest one that Debian installs elsewhere."""
    on_path = shutil.which("initdb")
    folders = sorted(DEBIAN_FOLDER.glob("[0-9]*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    if on_path:
        folders.insert(0, Path(on_path).resolve().parent)
    for folder in folders:
        if all(os.access(folder / program, os.X_OK) for program in ("initdb", "postgres")):
            return folder
    return None


def _program(name: str) -> str:
    folder = _programs_folder()
    assert folder is not None, "asked for before missing_reason()"
    return str(folder / name)


def _account_instead_of_root() -> pwd.struct_passwd | None:
    """The user that root runs the server as; None for everybody else."""
    if os.geteuid() == 0:
        for name in ACCOUNTS_INSTEAD_OF_ROOT:
            with contextlib.suppress(KeyError):
                return pwd.getpwnam(name)
    return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
