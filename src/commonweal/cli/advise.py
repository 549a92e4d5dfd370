"""`commonweal advise`: should these clients federate at all, and who would gain?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress

from commonweal.cli import text_view
from commonweal.data.optional_packages import needed_for
from commonweal.errors import InputError
from commonweal.scenario.settings import override
from commonweal.scenario.shipped import load

if TYPE_CHECKING:
    pass

FEWEST_SPLITS, MOST_SPLITS = 3, 10_000


def advise_command(
    scenario: Annotated[
        str, typer.Argument(help="A scenario file, or the name of a shipped one (commonweal init --list).")
    ],
    splits: Annotated[
        int,
        typer.Option(metavar="N", help="Random splits of the data; more of them give narrower intervals."),
    ] = 20,
    rounds: Annotated[
        int | None, typer.Option(metavar="T", help="Number of rounds, instead of the scenario's.", show_default=False)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Seed of the first split, instead of the scenario's.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", envvar="COMMONWEAL_DATA", help="Folder of the original data sets.", show_default=False
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Parallel processes (default: one per core); results do not change.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Tell who would gain by federating, before any money flows.

    Each client trains a model alone and takes part in the federation, over many random splits of its data. Nobody is
    eliminated and nothing is settled.

    Example: commonweal advise mine.toml --splits 50
    """
    described = override(load(scenario), seed=seed, rounds=rounds)
    if not FEWEST_SPLITS <= splits <= MOST_SPLITS:
        raise InputError(f"--splits must be from {FEWEST_SPLITS} to {MOST_SPLITS}, got {splits}.")
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be at least 1, got {workers}. Leave it out for one per core.")
    with needed_for("advice"):
        from commonweal.data.sources import find_directory
        from commonweal.federation.advice import advise_on_splits
        from commonweal.simulation.simulated_task import with_sites
        from commonweal.study.machine import core_count
        from commonweal.study.splits import compare_splits

    described = with_sites(described)
    with Progress(console=text_view.make_error_console(), transient=True) as progress:
        bar = progress.add_task("splits", total=splits)
        found = compare_splits(
            described,
            splits,
            data_directory=find_directory(data),
            worker_count=workers or core_count(),
            on_split=lambda: progress.advance(bar),
        )
    advice = advise_on_splits(found, described.task.metric)
    if as_json:
        print(json.dumps(advice.to_document(), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        _show(advice, described.task.metric)
