"""`commonweal advise`: should these clients federate at all, and who would gain?"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from commonweal.cli import text_view
from commonweal.data.optional_packages import needed_for
from commonweal.errors import InputError
from commonweal.records import Advice, MetricName
from commonweal.scenario.settings import override
from commonweal.scenario.shipped import load

if TYPE_CHECKING:
    from commonweal.study.splits import Split

FEWEST_SPLITS, MOST_SPLITS = 3, 10_000
_WORDS = {"gains": "gains", "loses": "better alone", "unclear": "no clear difference", "unmeasurable": ""}


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
        from commonweal.federation.advice import advise
        from commonweal.federation.run_report import metric_name
        from commonweal.simulation.simulated_task import with_sites
        from commonweal.study.machine import core_count
        from commonweal.study.splits import compare_splits, differences, reasons

    described = with_sites(described)
    metric = metric_name(described.task.metric)
    console = text_view.make_console()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("splits", total=splits)
        found = compare_splits(
            described,
            splits,
            data_directory=find_directory(data),
            worker_count=workers or core_count(),
            on_split=lambda: progress.advance(bar),
        )
    advice = advise(
        differences(found, higher_is_better=metric.higher_is_better),
        metric=metric,
        reasons=reasons(found),
    )
    if as_json:
        print(json.dumps(_document(advice, found, metric), indent=1, ensure_ascii=False, allow_nan=False))
        return
    console.print(_table(advice, found, metric))
    for client, told in advice.clients.items():
        if told.verdict == "unmeasurable":
            console.print(Text(f"{client}: {told.sentence}"), soft_wrap=True)
    console.print(Text(advice.sentence), soft_wrap=True)


def _table(advice: Advice, splits: Sequence[Split], metric: MetricName) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("client", "samples", f"{metric.label} alone", "together", "difference", "95 % interval", ""):
        table.add_column(heading, justify="left" if heading in ("client", "") else "right")
    for client, told in advice.clients.items():
        own = [one for one in splits if one.client == client]
        row = [client, f"{_mean([one.sample_count for one in own]):.0f}"]
        if told.improvement is None:
            row += ["not measurable", "", "", ""]
        else:
            sign = 1.0 if metric.higher_is_better else -1.0
            low, high = sorted((sign * told.improvement.low, sign * told.improvement.high))
            row += [f"{_mean([one.alone for one in own]):.3f}", f"{_mean([one.together for one in own]):.3f}"]
            row += [f"{sign * told.improvement.mean:+.3f}", f"{low:+.3f} to {high:+.3f}"]
        table.add_row(*row, _WORDS[told.verdict])
    return table


def _document(advice: Advice, splits: Sequence[Split], metric: MetricName) -> dict[str, object]:
    return {
        "schema": "commonweal.advice/1",
        "metric": asdict(metric),
        **asdict(advice),
        "splits": [{key: _known(value) for key, value in asdict(one).items()} for one in splits],
    }


def _known(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan
