"""Create folders from templates: either complete or not at all, and never over an existing folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from string import Template

from commonweal.atomic_write import UNFINISHED
from commonweal.errors import InputError, StorageError, os_reason

_TEMPLATES = files("commonweal.flower.starting") / "templates"


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


def template_text(*parts: str, **values: str) -> str:
    """The text of a template with its $names replaced, or unchanged if there are no values."""
    text = _TEMPLATES.joinpath(*parts).read_text(encoding="utf-8")
    return Template(text).substitute(values) if values else text
