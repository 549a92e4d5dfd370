"""`commonweal run`: run a scenario and write its history and run report."""

from __future__ import annotations

import re
import signal
import sys
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from commonweal.cli import text_view
from commonweal.cli.ledger.options import Keys, key_directory
from commonweal.data.optional_packages import needed_for
from commonweal.errors import InputError
from commonweal.scenario.settings import override
from commonweal.scenario.shipped import FIRST, load

if TYPE_CHECKING:
    from commonweal.federation.settlement import FederationLedger

INTERRUPTED = 130  # the shell's exit code for Ctrl-C


def run_command(
    scenario: Annotated[
        str, typer.Argument(help="A scenario file, or the name of a shipped one (commonweal init --list).")
    ] = FIRST,
    mu: Annotated[
        str | None, typer.Option(metavar="MU", help="Leniency to use instead of the scenario's.", show_default=False)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Seed to use instead of the scenario's.", show_default=False)
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(metavar="T", help="Number of rounds to run instead of the scenario's.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Results folder (default: out/NAME).", show_default=False),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in DIR after its last completed round.")
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace the run in DIR, including its ledger.db."),
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", envvar="COMMONWEAL_DATA", help="Folder of the original data sets.", show_default=False
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="LEDGER",
            help="Ledger to settle in: a SQLite file or a database URL (default: ledger.db in the results folder).",
            show_default=False,
        ),
    ] = None,
    no_ledger: Annotated[bool, typer.Option("--no-ledger", help="Do not keep a ledger.")] = False,
    keys: Keys = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Parallel threads (default: one per core); results do not change.", show_default=False
        ),
    ] = None,
) -> None:
    """Run a federation and report who stayed, who was paid, and why.

    Example: commonweal run quickstart --mu inf --out out/lenient
    """
    described = override(load(scenario), mu=mu, seed=seed, rounds=rounds)
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be at least 1, got {workers}. Leave it out for one per core.")
    if resume and overwrite:
        raise InputError("--resume and --overwrite cannot be combined. Drop one of them.")
    if ledger is not None and no_ledger:
        raise InputError("--ledger and --no-ledger cannot be combined. Drop one of them.")
    directory = Path("out") / folder_name(described.name) if out is None else out
    # Load heavy packages such as torch only after the options are checked.
    with needed_for("a run"):
        from commonweal.cli.run_view import RunView, show_summary
        from commonweal.data.sources import find_directory
        from commonweal.federation.settlement import default_ledger
        from commonweal.ledger.currencies import money_in_words
        from commonweal.ledger.sql.location import shown
        from commonweal.simulation.run import ledger_of_run, run_directory, run_scenario
        from commonweal.simulation.simulated_task import with_sites

    described = with_sites(described)
    view = RunView(described)
    operator_keys = key_directory(keys)
    own_ledger = default_ledger(directory)
    settled_in = None if no_ledger else ledger_of_run(described, ledger, directory, operator_keys, resume=resume)
    interrupts: list[int] = []

    def on_interrupt(number: int, frame: object) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_interrupt)
    with run_directory(directory, resume=resume, overwrite=overwrite), _closing(settled_in):
        if settled_in is not None:
            operator_keys.current()
        if settled_in is not None and ledger is not None:
            settled_in.check()
        try:
            with view.shown():
                run_report = run_scenario(
                    described,
                    data_directory=find_directory(data),
                    directory=directory,
                    resume=resume,
                    ledger=settled_in,
                    worker_count=workers,
                    watch=view.watch,
                    on_round=view.on_round,
                    replaced=[own_ledger] if ledger is None else [],
                )
        except BaseException:
            if not interrupts:  # an interrupt may surface as an error of whatever it interrupted
                raise
            safe = view.completed_count
            print(
                f"\ninterrupted: {safe} of {described.round_count} rounds are saved in {directory}"
                + ("; add --resume to continue" if safe else ""),
                file=sys.stderr,
            )
            raise typer.Exit(INTERRUPTED) from None
    console = text_view.make_console()
    show_summary(run_report, directory, console)
    if settled_in is not None:
        new = f", new, {money_in_words(settled_in.terms)}" if settled_in.has_opened else ""
        console.print(Text(f"ledger: {own_ledger if ledger is None else shown(ledger)}{new}"), soft_wrap=True)


def _closing(ledger: FederationLedger | None) -> AbstractContextManager[object]:
    return nullcontext() if ledger is None else closing(ledger)


def folder_name(scenario_name: str) -> str:
    """A scenario's name as a folder name, without path separators."""
    return re.sub(r"[^\w.-]+", "-", scenario_name).strip(".-") or "run"
