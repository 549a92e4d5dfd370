"""Files and folders are written completely or not at all, and only one process at a time writes into a directory.

What was written survives a power failure: a file is on the disk before it gets its name, and its name before the
function returns. Temporary files are new ones, so nobody can redirect them with a link.
"""

from __future__ import annotations

import errno
import os
import secrets
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
_CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM}  # some file systems, or a folder without "r"


def write_atomically(path: Path, content: bytes, *, what: str, way_out: str = "choose another place") -> None:
    """Write a temporary file beside the target, flush it to the disk, rename it, and flush its name.

    For the error message, `what` names the file ("the picture") and `way_out` says what the user can do.
    """
    target = path.resolve()  # behind a link, the file it points to
    if target.exists() and not target.is_file() and not target.is_dir():  # the latter is refused below
        raise StorageError(
            f"Cannot write {what} to {str(path)!r}: it is a device, a pipe or a socket, and would be replaced. Choose "
            "another place."
        )
    unfinished = unfinished_beside(target)
    try:
        write_new(unfinished, content)
        unfinished.replace(target)
        sync_directory(target.parent)
    except OSError as error:
        advice = way_out[:1].upper() + way_out[1:].removesuffix(".")
        raise StorageError(f"Cannot write {what} to {str(path)!r}: {os_reason(error)}. {advice}.") from None
    finally:
        with suppress(OSError):  # there is nothing to remove where it could not be made, such as on a read-only disk
            unfinished.unlink(missing_ok=True)


def unfinished_beside(target: Path) -> Path:
    """A name for a temporary file that nobody else uses or can guess."""
    return target.with_name(f".{os.getpid()}.{secrets.token_hex(8)}{UNFINISHED}")


def write_new(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Create a file and flush it to the disk; OSError if something has this name already, even a link to nowhere."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Flush a directory to the disk: otherwise a power failure may undo that a file was made, renamed or removed."""
    if os.name != "posix":  # only there can directories be opened
        return
    try:
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise


def make_directory(directory: Path, *, mode: int = 0o777) -> None:
    """Make a directory that may exist, with its parents, and flush their names to the disk."""
    made = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    directory.mkdir(mode=mode, parents=True, exist_ok=True)
    for folder in made:
        sync_directory(folder.parent)


def _sync_all(directory: Path) -> None:
    """Flush everything in a directory to the disk."""
    for file in directory.rglob("*"):
        if file.is_file() and not file.is_symlink():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        elif file.is_dir() and not file.is_symlink():
            sync_directory(file)
    sync_directory(directory)


def make_results_folder(directory: Path) -> None:
    """Make the folder for results if it is missing, and check that it can be written to."""
    try:
        make_directory(directory)
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
        _sync_all(unfinished)
        unfinished.rename(target)
        for folder in (target, *missing):
            sync_directory(folder.parent)
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
