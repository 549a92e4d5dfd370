"""The ServerApp: the coordinator as Flower runs it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from commonweal.errors import CommonwealError, InputError
from commonweal.flower.transport import FlowerTransport
from commonweal.ledger.key_directory import KeyDirectory, default_key_directory
from commonweal.remote.coordinator.coordinate import coordinate
from commonweal.remote.coordinator.federation_file import read_federation
from commonweal.task.file import task_in
from commonweal.task.records import InitialModel, Task


def server_app(task: Task | ModuleType | None = None, *, initial_model: InitialModel | None = None) -> ServerApp:
    """A ServerApp that coordinates a federation.

    Its run configuration names `federation`, the operator's file; `out`, the folder for results; `ledger`, the ledger
    to settle in (empty: ledger.db in `out`); and `keys`, the operator's key directory (empty: the usual one).
    The task is the module with its functions, of which `initial_model` and, if there is one, `agree` run here.
    """
    app = ServerApp()
    if isinstance(task, ModuleType):
        task = task_in(task)
    first = task if task is not None else initial_model
    if first is None:
        raise InputError("server_app needs a task with a function initial_model.")

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            settings = context.run_config
            federation = read_federation(_path(settings, "federation"))
            coordinate(
                FlowerTransport(grid, federation.keys),
                federation,
                first,
                directory=_path(settings, "out"),
                keys=_keys(str(settings.get("keys", ""))),
                ledger=str(settings.get("ledger", "")) or None,
                say=_say,
            )
        except CommonwealError as error:
            _say(f"error: {error}")
            raise

    return app


def _keys(given: str) -> KeyDirectory:
    """The operator's keys: from the run configuration, from the environment, or the user's own."""
    place = given or os.environ.get("COMMONWEAL_KEYS", "")
    passphrase = os.environ.get("COMMONWEAL_KEY_PASSPHRASE") or None
    return KeyDirectory(Path(place) if place else default_key_directory(), passphrase=passphrase)


def _path(settings: Mapping[str, object], name: str) -> Path:
    given = str(settings.get(name, ""))
    if not given or not Path(given).is_absolute():
        raise InputError(
            f"The run configuration must name {name} as an absolute path on the SuperLink's machine, got {given!r}. "
            f"Add --run-config '{name}=\"/absolute/path\"' to flwr run."
        )
    return Path(given)


def _say(line: str) -> None:
    print(f"commonweal: {line}", flush=True)
