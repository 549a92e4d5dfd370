"""A task from the user's own Python file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from commonweal.errors import InputError
from commonweal.own_code import fingerprint_of, imported
from commonweal.task.records import Task

NEEDED = ("initial_model", "load", "train", "evaluate")
OPTIONAL = ("gradient", "summarise", "agree", "layout")


def read_task(path: Path) -> Task:
    """The functions of the file, which is run once."""
    return task_of(vars(imported(path, "task")), path.name, str(path))


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
    return fingerprint_of(path, "task")
