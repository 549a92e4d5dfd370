"""Files that users name are read up to a stated size, and devices not at all: `/dev/zero` has no end."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Protocol

from commonweal.errors import StorageError

LARGEST_KEY = 100_000  # bytes; keys of all kinds take less than 10,000
LARGEST_SOURCE = 10_000_000  # of a Python file
LARGEST_DOCUMENT = 500_000_000  # of figures, a statement or a run's history
LARGEST_DATA = 8_000_000_000  # of samples
_CHUNK = 1 << 20


class Readable(Protocol):
    """An open file, compressed or not."""

    def read(self, size: int, /) -> bytes: ...


def read_bounded(path: Path, limit: int) -> bytes:
    """The content of a file of at most `limit` bytes. Raises `OSError` where opening or reading it does."""
    check_no_device(path)
    with path.open("rb") as file:
        return read_up_to(file, limit, str(path), first=path.stat().st_size)


def read_up_to(file: Readable, limit: int, name: str, *, first: int = 0) -> bytes:
    """The rest of an open file or pipe, in pieces, so that no memory is taken for what is not there.

    The first piece has up to `first` bytes. `name` is for messages.
    """
    parts, count = [], 0
    while part := file.read(min(first or _CHUNK, limit + 1 - count)):
        parts.append(part)
        count += len(part)
        if count > limit:
            raise StorageError(
                f"Cannot read {name}: it has more than {limit:,} bytes. Check that it is the right file."
            )
        first = 0
    return b"".join(parts)


def check_no_device(path: Path) -> None:
    """Refuse devices, which may never end or never answer. Pipes are accepted: shells make them for `<(...)`."""
    try:
        mode = path.stat().st_mode
    except ValueError as error:  # a path with a zero byte
        raise StorageError(f"Cannot read {str(path)!r}: {error}. Check the path.") from None
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise StorageError(f"Cannot read {path}: it is a device. Name a file.")
