"""Which code made a result: a digest of the sources that results depend on, and of the libraries that compute.

What only reads results (claims, figures, the command) is left out: a better figure makes no result stale.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

import commonweal

_ROOMS = ("data", "learning", "valuation", "decision", "federation", "scenario", "simulation")
_MODULES = (
    "records/rounds.py",
    "seeds.py",
    "study/mu_sets.py",
    "study/row_schema.py",
    "study/rows.py",
    "study/sweep.py",
)
_LIBRARIES = ("numpy", "torch")


@cache
def code_version() -> str:
    """SHA-256 of the sources and library versions, in hexadecimal."""
    root = Path(commonweal.__file__).parent
    files = [root / module for module in _MODULES]
    for room in _ROOMS:
        files += (root / room).rglob("*.py")
    content = hashlib.sha256()
    for file in sorted(files):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        content.update(f"{file.relative_to(root).as_posix()} {digest}\n".encode())
    for library in _LIBRARIES:
        content.update(f"{library} {version(library).partition('+')[0]}\n".encode())
    return content.hexdigest()
