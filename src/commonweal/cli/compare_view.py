"""A comparison on the terminal: its progress, and its tables."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from commonweal.records.comparison import ComparedMechanism, Comparison
from commonweal.report.comparison_text import (
    balance_text,
    basis,
    best_lie_text,
    cell,
    cell_interval,
    heterogeneity_text,
    private_text,
    sentences,
    tick,
    truth_text,
)

if TYPE_CHECKING:
    from commonweal.comparison.compare import ComparedReplication

_SECONDS = 1.0  # between two looks at the folder


class ComparisonView:
    """Shows progress on standard error: on a terminal a bar, elsewhere a line per replication."""

    def __init__(self, replication_count: int, folder: Path) -> None:
        self._total, self._folder = replication_count, folder
        self._started = time.monotonic()
        self._console = Console(stderr=True, highlight=False, emoji=False, markup=False)
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[rounds]}"), console=self._console, transient=True,
        )  # fmt: skip
        self._task = self._bar.add_task("replications", total=replication_count, rounds="")
        self.done_count = 0

    @property
    def round_count(self) -> int:
        """Rounds that are in the folder: workers in other processes store each as soon as it is trained."""
        return sum(1 for _ in self._folder.glob("*/*.round.npz"))

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show progress until the block ends."""
        if not self._console.is_terminal:
            yield
            return
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(_SECONDS):
                self._bar.update(self._task, rounds=f"{self.round_count} rounds trained")

        with self._bar:
            watcher = threading.Thread(target=look, daemon=True)
            watcher.start()
            try:
                yield
            finally:
                ended.set()
                watcher.join()

    def on_replication(self, result: ComparedReplication) -> None:
        """A replication is finished."""
        self.done_count += 1
        self._bar.update(self._task, completed=self.done_count, rounds=f"{self.round_count} rounds trained")
        if not self._console.is_terminal:
            self._console.print(
                f"{self.done_count}/{self._total}: replication {result.replication}, "
                f"{result.trained_round_count} of {result.distinct_round_count} rounds trained now, "
                f"{time.monotonic() - self._started:.0f} s",
                soft_wrap=True,
            )


def show_comparison(comparison: Comparison, console: Console) -> None:
    """The tables, and what stands out."""
    console.print(Text(basis(comparison)), soft_wrap=True)
    console.print(Text(truth_text(comparison)), soft_wrap=True)
    console.print(_properties(comparison))
    console.print(_course(comparison))
    for one in comparison.skipped:
        console.print(Text(f"skipped: {one.name}. {one.reason}", style="dim"), soft_wrap=True)
    for note in comparison.notes:
        console.print(Text(f"note: {note}", style="dim"), soft_wrap=True)
    console.print()
    for sentence in sentences(comparison):
        console.print(Text(sentence), soft_wrap=True)


def _table(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left", padding=(0, 1, 0, 0))
    table.add_column("mechanism", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=" " in heading)
    return table


def _properties(comparison: Comparison) -> Table:
    table = _table(
        "The columns of the paper's Table 1, measured (✓ ✗: what the paper says)",
        ("private figures read", "selects in", "fairness", "deviation", "IR round", "IR end", "BB", "DH"),
    )  # fmt: skip
    for one in comparison.mechanisms:
        ticks = one.ticks
        marks = (None,) * 6 if ticks is None else (ticks.isi, ticks.ns, ticks.fairness, ticks.ir, ticks.bb, ticks.dh)
        isi, ns, fairness, ir, bb, dh = map(tick, marks)
        heterogeneity = heterogeneity_text(comparison, one) if comparison.is_heterogeneous else "*"
        cells = (
            (private_text(one), isi),
            (cell(one, "selection"), ns),
            (cell(one, "fairness"), fairness),
            (cell(one, "deviation"), ""),
            (cell(one, "rational_rounds"), ir),
            (cell(one, "rational_clients"), ""),
            (balance_text(one), bb),
            (heterogeneity, dh),
        )
        table.add_row(_named(one), *(f"{value} {mark}".rstrip() for value, mark in cells))
    if not comparison.is_heterogeneous:
        table.caption = "* not testable here: by the scenario, all clients have the same kind of data"
        table.caption_justify = "left"
    return table


def _course(comparison: Comparison) -> Table:
    table = _table(
        "Welfare and course, in units of utility",
        ("welfare, all", "95 % interval", "stayed", "TSFI", "rounds each", "money", "models", "best lie"),
    )  # fmt: skip
    for one in comparison.mechanisms:
        table.add_row(
            _named(one),
            cell(one, "welfare"),
            cell_interval(one, "welfare"),
            cell(one, "stayed_welfare"),
            cell(one, "tsfi"),
            cell(one, "duration"),
            cell(one, "money_moved"),
            cell(one, "models_sent"),
            best_lie_text(one),
        )
    return table


def _named(mechanism: ComparedMechanism) -> str:
    return f"{mechanism.name} ({mechanism.fidelity})" if mechanism.fidelity else mechanism.name
