"""What a program asks of the disk, in order, as strace sees it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

STRACE = shutil.which("strace")
_CALLS = (
    "openat,open,creat,write,pwrite64,pwritev,writev,ftruncate,fsync,fdatasync,rename,renameat,renameat2,link,linkat,"
    "unlink,unlinkat,mkdir,mkdirat"
)
_LINE = re.compile(r"^\d*\s*(?P<call>\w+)\((?P<arguments>.*)\)\s+= (?P<result>-?\d+)")
_NAMED = re.compile(r"<(?P<path>/[^>]*)>")  # of a descriptor
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_KINDS = {
    "pwrite64": "write", "pwritev": "write", "writev": "write", "fdatasync": "sync", "fsync": "sync",
    "renameat": "rename", "renameat2": "rename", "linkat": "link", "unlinkat": "unlink", "mkdirat": "mkdir",
}  # fmt: skip


def disk_calls(script: str, *arguments: object, folder: Path, log: Path) -> list[str]:
    """Run a Python script; returns its successful calls on files in `folder`, as "sync ledger.db" or "sync .".

    A file that is opened to be created is "create NAME", with "exclusively" if it had to be new.
    """
    if STRACE is None:
        pytest.skip("needs strace")
    command = [sys.executable, "-c", script, *map(str, arguments)]
    strace = [STRACE, "-f", "-y", "-s", "256", "-e", f"trace={_CALLS}", "-o", str(log)]
    done = subprocess.run(
        [*strace, *command], capture_output=True, text=True, timeout=300, cwd=folder, env=dict(os.environ)
    )
    if "ptrace" in done.stderr.lower() and done.returncode:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    return [call for line in log.read_text(errors="replace").splitlines() if (call := _call(line, folder.resolve()))]


def _call(line: str, folder: Path) -> str | None:
    match = _LINE.match(line)
    if match is None or match["result"].startswith("-"):
        return None
    call, arguments = match["call"], match["arguments"]
    kind = _KINDS.get(call, call)
    if kind in ("write", "sync", "ftruncate"):
        named = _NAMED.search(arguments)
        names = [named["path"].removesuffix(" (deleted)")] if named else []
    else:
        names = _QUOTED.findall(arguments)
    if kind in ("open", "openat", "creat"):
        if "O_CREAT" not in arguments and call != "creat":
            return None
        kind = "create exclusively" if "O_EXCL" in arguments else "create"
    shown = [name for given in names if (name := _inside(given, folder)) is not None]
    return f"{kind} {' '.join(shown)}" if shown else None


def _inside(name: str, folder: Path) -> str | None:
    path = (folder / name) if not name.startswith("/") else Path(name)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else None


def in_order(calls: list[str], *patterns: str) -> bool:
    """Whether calls that match these regular expressions follow one another, others between them or not."""
    waiting = iter(calls)
    return all(any(re.fullmatch(pattern, call) for call in waiting) for pattern in patterns)
