"""A file is there whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from commonweal.errors import InputError

UNFINISHED = ".unfinished"  # how a file's name ends until it is whole


def write_atomically(path: Path, content: bytes, *, what: str, way_out: str = "choose another place") -> None:
    """Write beside the target, flush to the disk, rename; `what` names the file in the error: "the picture"."""
    target = path.resolve()  # behind a link, the file it points to
    unfinished = target.with_name(f".{os.getpid()}{UNFINISHED}")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)
    except OSError as error:
        raise InputError(f"{what} must be writable, got {error.strerror} for {str(path)!r}; {way_out}") from None
    finally:
        with suppress(OSError):  # where it could not be made, such as on a read-only disk, there is nothing to remove
            unfinished.unlink(missing_ok=True)
