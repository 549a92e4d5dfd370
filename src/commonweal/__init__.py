"""commonweal: the incentive layer of cross-silo federated learning.

    decide(...)          one round: who stays, and who pays whom
    mu_path(...)         the same for every leniency μ at once
    select(...)          who stays, at the level of arrays
    explain(...)         why a client is retained or eliminated
    replay(...)          many rounds whose figures were measured elsewhere
    read_figures(...)    the figures of rounds, from a CSV or JSON file
    load_scenario(...)   a scenario, from a TOML file or by the name of a shipped one
    run(...)             simulate a scenario: training, contributions, decisions
    open_ledger(...)     the entries and balances of a ledger, and whether it is sound
    Mechanism            a way to decide rounds, to be subclassed; `RoundView`, `Choice`, `Division`, `Instructions` and
                         `Parameter` are what its methods take and return
    valuation            what a client gained, spent and contributed
    metrics              the measures of a history of rounds

Importing this package loads only numpy. `run` and `open_ledger` import what they need when they are called.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from commonweal import metrics, valuation
from commonweal.decision.decide import decide, mu_path, select
from commonweal.decision.explain import Fate, explain
from commonweal.decision.mechanism import Mechanism, Parameter, RoundView
from commonweal.decision.mu_path import MuPath
from commonweal.decision.problem import Choice
from commonweal.decision.transfers import Division
from commonweal.errors import (
    CommonwealError,
    FederationError,
    IncompletePathError,
    InputError,
    LedgerError,
    ScenarioError,
    StorageError,
)
from commonweal.federation.replay import Replay, replay
from commonweal.figures_file import read_figures
from commonweal.records import Decision, Figures, History, Instructions, MuRange, RoundRecord, Rules, RunReport

if TYPE_CHECKING:
    from commonweal.federation.open_ledger import LedgerReader
    from commonweal.scenario.spec import Scenario

__all__ = [
    "Choice",
    "CommonwealError",
    "Decision",
    "Division",
    "Fate",
    "FederationError",
    "Figures",
    "History",
    "IncompletePathError",
    "InputError",
    "Instructions",
    "LedgerError",
    "Mechanism",
    "MuPath",
    "MuRange",
    "Parameter",
    "Replay",
    "RoundRecord",
    "RoundView",
    "Rules",
    "RunReport",
    "ScenarioError",
    "StorageError",
    "decide",
    "explain",
    "load_scenario",
    "metrics",
    "mu_path",
    "open_ledger",
    "read_figures",
    "replay",
    "run",
    "select",
    "valuation",
]


def load_scenario(name_or_path: str | Path) -> Scenario:
    """The scenario in a TOML file, or the shipped one of that name, e.g. "quickstart"."""
    from commonweal.scenario.shipped import load

    return load(str(name_or_path))


def run(
    scenario: Scenario | str | Path,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    data_directory: str | Path | None = None,
    worker_count: int | None = None,
) -> RunReport:
    """Run a scenario in this process and return its `RunReport`: every round with its decision and its figures.

    `scenario` is a `Scenario`, or what `load_scenario` takes. The results folder `out` gets a checkpoint after each
    round and the report at the end; without it nothing is written. `resume` continues the run in `out`, `overwrite`
    replaces it. `data_directory` has the datasets that are not built in. `worker_count` is the number of threads
    (default: one per core); results do not depend on it. No ledger is kept: `commonweal run` does that.
    """
    from commonweal.data.optional_packages import needed_for

    with needed_for("a simulation"):
        from commonweal.simulation.run import run_directory, run_scenario
        from commonweal.simulation.simulated_task import with_sites

    if resume and (overwrite or out is None):
        raise InputError("resume=True needs a results folder `out` and cannot be combined with overwrite=True.")
    directory = None if out is None else Path(out)
    with nullcontext() if directory is None else run_directory(directory, resume=resume, overwrite=overwrite):
        return run_scenario(
            with_sites(load_scenario(scenario) if isinstance(scenario, str | Path) else scenario),
            data_directory=None if data_directory is None else Path(data_directory),
            directory=directory,
            resume=resume,
            worker_count=worker_count,
        )


def open_ledger(location: str | Path) -> AbstractContextManager[LedgerReader]:
    """Open an existing ledger for reading: a SQLite file, or the URL of a PostgreSQL database.

    >>> with open_ledger("ledger.db") as ledger:  # doctest: +SKIP
    ...     print(ledger.balances, ledger.verify().findings)
    """
    from commonweal.data.optional_packages import needed_for

    with needed_for("a ledger", "ledger"):
        from commonweal.federation.open_ledger import open_ledger as opened

    return opened(str(location))
