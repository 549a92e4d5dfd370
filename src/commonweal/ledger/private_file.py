"""A private key is refused if others can read it, or put another file in its place."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from commonweal.errors import LedgerError


def check_private(path: Path) -> None:
    """Refuse a private key whose mode lets others read or change it; OSError if there is no such file."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name == "posix" and mode & 0o077:
        raise LedgerError(
            f"The private key {path} has mode {mode:04o}: others can read it. Make it private with: "
            f"chmod 600 {shlex.quote(str(path))}"
        )


def check_not_shared(directory: Path) -> None:
    """Refuse a key directory that others can write to; OSError if there is none."""
    mode = stat.S_IMODE(directory.stat().st_mode)
    if os.name == "posix" and mode & 0o022:
        raise LedgerError(
            f"The key directory {directory} has mode {mode:04o}: others can put files into it. Make it private with: "
            f"chmod 700 {shlex.quote(str(directory))}"
        )
