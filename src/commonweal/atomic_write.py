"""Files and folders are written completely or not at all, and only one process at a time writes into a directory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from commonweal.errors import InputError, StorageError, os_reason

try:
    import fcntl
except ImportError:  # Windows has no such lock: there the user must start only one writer at a time
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".unfinished"  # how a file's name ends until it is complete
_WORK_FOLDER = ".commonweal-partial"


def write_atomically(path: Path, content: bytes, *, what: str, way_out: str = "choose another place") -> None:
    """Write a temporary file beside the target, flush it to the disk, and rename it.

    For the error message, `what` names the file ("the picture") and `way_out` says what the user can do.
    """
    target = path.resolve()  # behind a link, the file it points to
    unfinished = target.with_name(f".{os.getpid()}{UNFINISHED}")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)
    except OSError as error:
        advice = way_out[:1].upper() + way_out[1:].removesuffix(".")
        raise StorageError(f"Cannot write {what} to {str(path)!r}: {os_reason(error)}. {advice}.") from None
    finally:
        with suppress(OSError):  # there is nothing to remove where it could not be made, such as on a read-only disk
            unfinished.unlink(missing_ok=True)


def make_results_folder(directory: Path) -> None:
    """Make the folder for results if it is missing, and check that it can be written to."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise StorageError(
            f"Cannot write results into {str(directory)!r}: {os_reason(error)}. Choose another folder."
        ) from None


@contextmanager
def locked_directory(directory: Path, what: str) -> Iterator[None]:
    """Lock the directory, so that no other process can lock it; `what` names what is done there, such as "a run"."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageError(
                f"Cannot start {what} in {str(directory)!r}: another process is using the directory. Wait for it to "
                "end, "
                "or choose another directory."
            ) from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def sole_writer(directory: Path) -> Iterator[Path]:
    """A work folder inside the directory, for this process only: finished files are renamed out of it.

    What a killed writer left there is removed first. If the work fails, so are the folders that were made for it.
    """
    made = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with locked_directory(directory, "writing data"):
            work = directory / _WORK_FOLDER
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
                f"Cannot write into {str(directory)!r}: {os_reason(error)}. Choose another directory."
            ) from None
        raise


@contextmanager
def new_folder(target: Path, what: str) -> Iterator[Path]:
    """A temporary folder that becomes `target` at the end; `what` names it in errors, as "the member's folder"."""
    check_new(target, what)
    missing = [folder for folder in target.parents if not folder.exists()]
    unfinished = target.with_name(f".{target.name}.{os.getpid()}{UNFINISHED}")
    is_done = False
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        check_new(target, what)
        unfinished.rename(target)
        is_done = True
    except OSError as error:
        raise StorageError(f"Cannot create {str(target)!r}: {os_reason(error)}. Choose another place.") from None
    finally:
        if not is_done:
            shutil.rmtree(unfinished, ignore_errors=True)
            with suppress(OSError):  # keep a folder that is no longer empty
                for folder in missing:
                    folder.rmdir()


def check_new(target: Path, what: str) -> None:
    """Refuse a folder that exists, before any work is done."""
    if os.path.lexists(target) or not target.name:
        raise InputError(
            f"{what[:1].upper()}{what[1:]} must be new, but {str(target)!r} already exists. Choose another name."
        )
