"""The ServerApp: the coordinator as Flower runs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from commonweal.errors import CommonwealError, InputError
from commonweal.flower.transport import FlowerTransport
from commonweal.ledger.key_directory import KeyDirectory, default_key_directory
from commonweal.remote.coordinator.coordinate import coordinate
from commonweal.remote.coordinator.federation_file import Federation, read_federation
from commonweal.remote.messages.models import Model

InitialModel = Callable[[Federation], Model]


def server_app(*, initial_model: InitialModel) -> ServerApp:
    """A ServerApp that coordinates a federation.

    Its run configuration names `federation`, the operator's file; `out`, the folder for results; `ledger`, the ledger
    to settle in (empty: ledger.db in `out`); and `keys`, the operator's key directory (empty: the usual one).
    `initial_model` returns the untrained model that the first round starts from.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            settings = context.run_config
            federation = read_federation(_path(settings, "federation"))
            coordinate(
                FlowerTransport(grid, federation.keys),
                federation,
                initial_model(federation),
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
