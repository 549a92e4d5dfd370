"""A task from the user's own Python file."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from commonweal.bounded_read import LARGEST_SOURCE, read_bounded
from commonweal.errors import InputError, StorageError, os_reason
from commonweal.task.records import Task

NEEDED = ("initial_model", "load", "train", "evaluate")
OPTIONAL = ("gradient", "summarise", "agree", "layout")


def read_task(path: Path) -> Task:
    """The functions of the file, which is run once."""
    return task_of(vars(_imported(path)), path.name, str(path))


def task_in(module: ModuleType) -> Task:
    """The task of an imported module."""
    file = module.__file__ or "task.py"
    return task_of(vars(module), Path(file).name, file)


def task_of(functions: Mapping[str, Any], name: str, place: str = "") -> Task:
    """The task that is called `task` there, or else the one with these functions; all others may be metrics."""
    ready = functions.get("task")
    if isinstance(ready, Task):
        return ready
    missing = [key for key in NEEDED if not callable(functions.get(key))]
    if missing:
        raise InputError(
            f"{place or name} must define the functions {', '.join(NEEDED)}; {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. `commonweal init --task` writes a file that has them all."
        )
    others = {
        key: value
        for key, value in functions.items()
        if callable(value) and not isinstance(value, type) and key not in (*NEEDED, *OPTIONAL) and key[0] != "_"
    }
    given: dict[str, Any] = {key: functions.get(key) for key in (*NEEDED, *OPTIONAL)}
    return Task(**given, metrics=others, name=name)


def file_fingerprint(path: Path) -> str:
    """SHA-256 of the file, because the same scenario with another task is a different run."""
    return hashlib.sha256(_content(path)).hexdigest()


def _imported(path: Path) -> ModuleType:
    _content(path)  # says why it cannot be read
    name = f"commonweal_task_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} must be a Python file, with a name that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look their module up
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)  # the file may import its neighbours, as it could if it were run
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"Cannot run {path}{_line(error, path)}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(folder)
    return module


def _line(error: Exception, path: Path) -> str:
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path.resolve()]
    own = own or [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == path.name]
    return f", line {own[-1].lineno} ({own[-1].line})" if own else ""


def _content(path: Path) -> bytes:
    try:
        return read_bounded(path, LARGEST_SOURCE)
    except FileNotFoundError:
        raise StorageError(
            f"Cannot read the task's file {path}: no such file. Relative paths start at the scenario's folder."
        ) from None
    except OSError as error:
        raise StorageError(f"Cannot read the task's file {path}: {os_reason(error)}.") from None
