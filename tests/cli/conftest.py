"""The real command, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("commonweal")


@pytest.fixture
def commonweal(tmp_path):
    """Run `commonweal ARGUMENTS` in an empty folder; returns the finished process."""

    def run(*arguments, stdin=None, **options):
        return subprocess.run(
            [str(COMMAND), *map(str, arguments)],
            input=stdin,
            capture_output=True,
            text=not isinstance(stdin, bytes),
            cwd=tmp_path,
            timeout=300,
            **options,
        )

    return run


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
