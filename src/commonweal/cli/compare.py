"""`commonweal compare`: every mechanism on the same federation."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from commonweal.cli import text_view
from commonweal.cli.run import INTERRUPTED, folder_name
from commonweal.data.optional_packages import needed_for
from commonweal.errors import InputError
from commonweal.report.comparison_json import to_json
from commonweal.scenario.settings import checked_mu, override
from commonweal.scenario.shipped import load
from commonweal.study.machine import core_count

_MOST_REPLICATIONS = 9_999  # folders of replications are numbered with four digits


def compare_command(
    scenario: Annotated[
        str, typer.Argument(help="A scenario file, or the name of a shipped one (commonweal init --list).")
    ],
    mechanisms: Annotated[
        str,
        typer.Option(
            metavar="A,B,...|all",
            help="Mechanisms by name, least-lenient and most-lenient (the paper's at mu = 0 and inf), or files of your "
            "own such as file:my_mechanism.py. all: every one that can run on the scenario.",
        ),
    ] = "all",
    replications: Annotated[
        int, typer.Option(metavar="K", help="Replications, each with a seed of its own; the same for all mechanisms.")
    ] = 1,
    mu: Annotated[
        str | None,
        typer.Option(
            metavar="MU",
            help="Leniency of the mechanisms that have one, instead of the scenario's.",
            show_default=False,
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(metavar="T", help="Number of rounds, instead of the scenario's.", show_default=False)
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="S", help="Seed of the first replication, instead of the scenario's.", show_default=False),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Parallel workers (default: one per core); results do not change.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Results folder (default: out/compare-NAME).", show_default=False),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", envvar="COMMONWEAL_DATA", help="Folder of the original data sets.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
) -> None:
    """Run every mechanism on the same federation, and measure what each makes of it.

    Rounds that several mechanisms share are trained once. What is trained stays in the folder: run the same command
    again to continue, or with more mechanisms or replications to add them.

    Example: commonweal compare cheats --mechanisms paper,equal,fli --replications 5 --out out/cheats
    """
    if not 1 <= replications <= _MOST_REPLICATIONS:
        raise InputError(f"--replications must be from 1 to {_MOST_REPLICATIONS}, got {replications}.")
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be at least 1, got {workers}. Leave it out for one per core.")
    names = [name.strip() for name in mechanisms.split(",")]
    if not all(names):
        raise InputError(
            f"--mechanisms must be all, or names separated by commas such as paper,equal, got {mechanisms!r}."
        )
    described = override(load(scenario), seed=seed, rounds=rounds)
    leniency = None if mu is None else checked_mu(mu)
    with needed_for("a comparison"):
        from commonweal.cli.compare_view import ComparisonView, show_comparison
        from commonweal.comparison.compare import ROUNDS, Request, compare, comparison_directory
        from commonweal.comparison.contenders import EXTREMES, find_contenders
        from commonweal.data.sources import find_directory
        from commonweal.simulation.simulated_task import with_sites

    described = with_sites(described)
    contenders, skipped = find_contenders(
        described.mechanism.rules, names, mu=leniency, iteration_limit=described.learning.iteration_limit
    )
    if mu is not None and not any(one.mechanism.takes_mu and one.name not in EXTREMES for one in contenders):
        raise InputError(f"--mu changes nothing for {', '.join(one.name for one in contenders)}. Leave it out.")
    directory = Path("out") / f"compare-{folder_name(described.name)}" if out is None else out
    request = Request(
        scenario=described,
        contenders=tuple(contenders),
        skipped=tuple(skipped),
        replication_count=replications,
        directory=directory,
        data_directory=find_directory(data),
        worker_count=workers or core_count(),
    )
    interrupts: list[int] = []

    def on_interrupt(number: int, frame: object) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_interrupt)
    view = ComparisonView(replications, directory / ROUNDS)
    with comparison_directory(directory):
        try:
            with view.shown():
                comparison = compare(request, on_replication=view.on_replication)
        except BaseException:
            if not interrupts:  # an interrupt may surface as another error
                raise
            print(
                f"\ninterrupted: {view.round_count} rounds are saved in {directory}; run the same command to continue",
                file=sys.stderr,
            )
            raise typer.Exit(INTERRUPTED) from None
        from commonweal.report.comparison_page import write_comparison

        written = write_comparison(comparison, directory)
    if as_json:
        typer.echo(to_json(comparison))
    else:
        show_comparison(comparison, text_view.make_console())
    sys.stdout.flush()
    print(f"page: {written[0]}", file=sys.stderr)  # on the error stream, so that --json stays one document
