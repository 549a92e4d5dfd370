"""The code version of a result, derived from what the code computes: a changed comment or report invalidates no result.

A code version has two parts, `PORTABLE-EXACT`. The exact part is a digest of all rows of the fixed replications, so it
changes with anything that changes a figure or a decision. Other kinds of processors round differently, so it can be
compared only between processors of one kind. The portable part is a digest of what does not depend on the processor:
the versions of the libraries, the columns, and how samples arrive. The reasons are in
docs/decisions/021-results-bound-to-behaviour.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import commonweal
from commonweal.atomic_write import write_atomically
from commonweal.errors import StorageError
from commonweal.study.machine import cpu_kind

if TYPE_CHECKING:
    import pyarrow as pa

_PORTABLE_LENGTH, _EXACT_LENGTH = 16, 47
_FORMAT = re.compile(rf"[0-9a-f]{{{_PORTABLE_LENGTH}}}-[0-9a-f]{{{_EXACT_LENGTH}}}")
_ARRIVALS = ("client", "sample_count", "training_count", "validation_count")


@cache
def code_version() -> str:
    """The version of this code on this machine; cached on disk until a source file or a library changes."""
    remembered = _cache_folder() / f"code-version-{_cache_key()}"
    with suppress(OSError, UnicodeDecodeError):
        text = remembered.read_text(encoding="ascii")
        if _FORMAT.fullmatch(text):
            return text
    computed = compute_code_version()
    with suppress(OSError, StorageError):  # it is computed again the next time
        remembered.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(remembered, computed.encode(), what="the code version")
    return computed


def compute_code_version() -> str:
    """Run the fixed replications, which takes a few seconds."""
    from commonweal.study.fixed_replications import fixed_replications  # it imports torch

    tables = fixed_replications()
    libraries = [f"{library} {version(library).partition('+')[0]}" for library in ("numpy", "torch")]
    portable = _digest([libraries, tables[0].schema.names, [_first_arrivals(table) for table in tables]])
    exact = _digest([portable, [table.to_pylist() for table in tables]])
    return f"{portable[:_PORTABLE_LENGTH]}-{exact[:_EXACT_LENGTH]}"


def same_behaviour(one: str, other: str, *, same_cpu_kind: bool) -> bool:
    """Whether two code versions give the same results, up to rounding where the kinds of processors differ."""
    if same_cpu_kind or is_earlier_format(one) or is_earlier_format(other):
        return one == other
    return one.partition("-")[0] == other.partition("-")[0]


def is_earlier_format(code_version: str) -> bool:
    """Whether it is a digest of source files, as earlier versions of commonweal wrote."""
    return _FORMAT.fullmatch(code_version) is None


def _first_arrivals(table: pa.Table) -> list[list[object]]:
    """Taken before any training, so that rounding cannot have changed them.

    Each client once: a round has its rows for each range of μ, and rounding may change how many ranges there are.
    """
    rows = [tuple(row[name] for name in _ARRIVALS) for row in table.to_pylist() if row["round"] == 1]
    return [list(row) for row in dict.fromkeys(rows)]


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _cache_folder() -> Path:
    """The user's cache folder."""
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "commonweal"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "commonweal"


def _cache_key() -> str:
    root = Path(commonweal.__file__).parent
    content = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        content.update(f"{file.relative_to(root).as_posix()} {digest}\n".encode())
    machine = [version("numpy"), version("torch"), version("pyarrow"), platform.python_version(), cpu_kind()]
    content.update("\n".join(machine).encode())
    return content.hexdigest()[:32]
