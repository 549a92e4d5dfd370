"""Python files of the user: read, identified by their hash, and run once, with errors that name the line."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from commonweal.bounded_read import LARGEST_SOURCE, read_bounded
from commonweal.errors import InputError, StorageError, os_reason


def fingerprint_of(path: Path, what: str) -> str:
    """SHA-256 of the file in hexadecimal; `what` names it in messages, such as "task"."""
    return hashlib.sha256(_content(path, what)).hexdigest()


def imported(path: Path, what: str) -> ModuleType:
    """The module that the file defines, after it was run."""
    content = _content(path, what)  # says why it cannot be read
    key = f"{path.resolve()} {hashlib.sha256(content).hexdigest()}"
    name = f"commonweal_{what}_{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} must be a Python file, with a name that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look their module up
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)  # the file may import its neighbours, as it could if it were run
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # leave nothing in the user's folder
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InputError(f"Cannot run {path}{line_of(error, path)}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(folder)
        sys.dont_write_bytecode = writes
    return module


def line_of(error: BaseException, path: Path) -> str:
    """ ", line 12 (return 1 / 0)": where in the file an error arose; "" if it did not arise there."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path.resolve()]
    own = own or [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == path.name]
    return f", line {own[-1].lineno} ({own[-1].line})" if own else ""


def _content(path: Path, what: str) -> bytes:
    try:
        return read_bounded(path, LARGEST_SOURCE)
    except FileNotFoundError:
        raise StorageError(
            f"Cannot read the {what}'s file {path}: no such file. In a scenario, relative paths start at its folder."
        ) from None
    except OSError as error:
        raise StorageError(f"Cannot read the {what}'s file {path}: {os_reason(error)}.") from None
