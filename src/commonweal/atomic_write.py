"""A file is there whole or not at all, and one process at a time writes a directory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from commonweal.errors import StorageError

try:
    import fcntl
except ImportError:  # Windows: no lock, so one writer at a time is up to the user
    fcntl = None  # type: ignore[assignment]

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
        raise StorageError(f"{what} must be writable, got {error.strerror} for {str(path)!r}; {way_out}") from None
    finally:
        with suppress(OSError):  # where it could not be made, such as on a read-only disk, there is nothing to remove
            unfinished.unlink(missing_ok=True)


def make_results_folder(directory: Path) -> None:
    """Make the folder of --out if need be, and see that it can be written to."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise StorageError(
            f"the folder of the results must be writable, got {error.strerror} for {str(directory)!r}; "
            "give another --out"
        ) from None


@contextmanager
def held_alone(directory: Path, what: str) -> Iterator[None]:
    """Keep other processes that ask for it out of the directory; `what` is done in it: "a run"."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageError(
                f"{what} needs its directory for itself, got another process at work in {directory}; wait for it to "
                "end, or name another"
            ) from None
        yield
    finally:
        os.close(descriptor)
