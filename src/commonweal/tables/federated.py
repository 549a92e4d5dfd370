"""The task for tables as the one protocol knows it, for the simulator and for apps between machines."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from commonweal.bounded_read import LARGEST_DATA, read_bounded
from commonweal.errors import FederationError, InputError, StorageError, os_reason
from commonweal.tables.packaged import is_packaged, path_of
from commonweal.tables.task import TableTask
from commonweal.task.records import Model, NewData, Task, TaskMember, TaskPlan

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def table_task(settings: Mapping[str, Any]) -> Task:
    """The task with the shared settings of a [task] table; each member's own settings may name its file."""
    table = TableTask(settings)

    @_complete
    def initial_model(plan: TaskPlan) -> Model:
        return table.initial_model(plan.seed, plan.agreed)

    @_complete
    def load(round_number: int, member: TaskMember) -> NewData:
        new = table.load(round_number, member)
        notes = table.notes(member) if round_number == 1 else []
        return replace(new, notes={"data": " ".join(notes)} if notes else {})

    return Task(
        initial_model=initial_model,
        load=load,
        train=_complete(table.train),
        evaluate=_complete(table.evaluate),
        gradient=_complete(table.gradient),
        summarise=_complete(table.summarise),
        agree=_complete(table.agree),
        name="the table",
    )


def _complete(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let errors pass as they are: they name the file and the line, and who found them is no help."""

    @wraps(function)
    def called(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            return function(*arguments, **options)
        except InputError as error:
            raise FederationError(str(error)) from error

    return called


def fingerprint_of(members: Iterable[TaskMember]) -> str:
    """SHA-256 over the files of these members, because the same scenario with other rows is a different run."""
    content = hashlib.sha256()
    for path in dict.fromkeys(_path(member) for member in members):
        try:
            content.update(read_bounded(path, LARGEST_DATA))
        except OSError as error:
            raise StorageError(f"Cannot read {path}: {os_reason(error)}.") from None
    return content.hexdigest()


def _path(member: TaskMember) -> Path:
    table = str(member.settings.get("table", ""))
    return path_of(table) if is_packaged(table) else member.folder / table
