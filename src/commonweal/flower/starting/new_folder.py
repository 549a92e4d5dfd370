"""A new folder is there whole or not at all, and never in the place of another."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from commonweal.atomic_write import UNFINISHED
from commonweal.errors import FederationError


@contextmanager
def new_folder(target: Path, what: str) -> Iterator[Path]:
    """Fill the folder that is given, and it becomes `target`; `what` names it in errors: "the member's folder"."""
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
        raise FederationError(
            f"{what} must be writable, got {error.strerror} for {str(target)!r}; choose another place"
        ) from None
    finally:
        if not is_done:
            shutil.rmtree(unfinished, ignore_errors=True)
            with suppress(OSError):  # one that somebody else uses by now stays
                for folder in missing:
                    folder.rmdir()


def check_new(target: Path, what: str) -> None:
    """Before work is done for it."""
    if os.path.lexists(target) or not target.name:
        raise FederationError(f"{what} must be a new one, got {str(target)!r}, which exists; choose another name")
