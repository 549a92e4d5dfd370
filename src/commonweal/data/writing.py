"""Write into a directory so that nothing half-written is ever found there, whatever interrupts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from commonweal.atomic_write import held_alone
from commonweal.errors import StorageError

_LEFTOVERS = ".commonweal-partial"


@contextmanager
def sole_writer(directory: Path) -> Iterator[Path]:
    """A work folder inside the directory, for this process alone: finished files are renamed out of it.

    What a killed writer left there is removed first. If the work fails, folders made for it go again.
    """
    made = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with held_alone(directory, "writing data"):
            work = directory / _LEFTOVERS
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            try:
                yield work
            finally:
                shutil.rmtree(work, ignore_errors=True)
    except BaseException as error:
        with suppress(OSError):  # a folder that is not empty stays
            for folder in made:
                folder.rmdir()
        if isinstance(error, OSError):
            raise StorageError(
                f"the directory must be writable, got {error.strerror or error} for {directory}; name another"
            ) from None
        raise
