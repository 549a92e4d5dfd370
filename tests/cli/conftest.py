"""The command, run as a user runs it."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from commonweal.cli.main import main

COMMAND = Path(sys.executable).with_name("commonweal")


@pytest.fixture
def commonweal(tmp_path):
    """Run `commonweal ARGUMENTS` in an empty folder; returns it as `subprocess.run` does.

    In this process, which saves the seconds that imports take; with options for `subprocess.run`, in one of its own.
    tests/test_docs.py starts the installed command dozens of times, so that path is tested too.
    """

    def run(*arguments, stdin=None, **options):
        words = list(map(str, arguments))
        if not options:
            return run_here(words, tmp_path, stdin)
        return subprocess.run(
            [str(COMMAND), *words],
            input=stdin,
            capture_output=True,
            text=not isinstance(stdin, bytes),
            cwd=tmp_path,
            timeout=300,
            **options,
        )

    return run


def run_here(words, folder, stdin=None):
    """`subprocess.run([COMMAND, *words])` without a process."""
    given = stdin if isinstance(stdin, bytes) else (stdin or "").encode()
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    written = io.BytesIO(), io.BytesIO()
    sys.argv = [str(COMMAND), *words]
    sys.stdin, sys.stdout, sys.stderr = (io.TextIOWrapper(stream, "utf-8") for stream in (io.BytesIO(given), *written))
    streams = sys.stdout, sys.stderr
    try:
        with contextlib.chdir(folder):
            main()
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        for stream in streams:
            stream.flush()
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before
        for number, handler in handlers.items():
            signal.signal(number, handler)
    said = [stream.getvalue() if isinstance(stdin, bytes) else stream.getvalue().decode() for stream in written]
    return subprocess.CompletedProcess(words, code, *said)


@pytest.fixture
def refused(commonweal, tmp_path):
    """The sentence with which the command refuses: exit code 2, nothing on standard output, no traceback."""

    def run(*arguments, stdin=None):
        before = sorted(tmp_path.rglob("*"))
        done = commonweal(*arguments, stdin=stdin)
        error = done.stderr if isinstance(done.stderr, str) else done.stderr.decode()
        assert done.returncode == 2, (done.returncode, done.stdout, error)
        assert not done.stdout
        assert "Traceback" not in error
        assert sorted(tmp_path.rglob("*")) == before, "something was written"
        return error

    return run
