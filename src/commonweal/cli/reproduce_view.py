"""The progress of a reproduction: on a terminal a bar with the time left, elsewhere one line per replication."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from commonweal.records.study import VERDICTS, ClaimResult
from commonweal.study.result_set import StoredReplication
from commonweal.study.runner import Request, StudyPlan


class ReproductionView:
    """Shows progress on standard error."""

    def __init__(self, planned: StudyPlan, request: Request) -> None:
        self.total_count = len(request.scenarios) * request.replication_count
        self.done_count = self._done_before = self.total_count - len(planned.tasks)
        self._started = time.monotonic()
        self._console = Console(stderr=True, highlight=False, emoji=False, markup=False)  # names contain brackets
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"), console=self._console,
        )  # fmt: skip
        self._task = self._bar.add_task("replications", total=self.total_count, completed=self.done_count, left="")

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show progress until the block ends."""
        self._started = time.monotonic()
        if self.done_count:
            self._console.print(f"{self.done_count} of {self.total_count} replications already exist")
        if not self._console.is_terminal:
            yield
            return
        with self._bar:
            yield

    def on_result(self, stored: StoredReplication) -> None:
        """A replication was saved."""
        self.done_count += 1
        left = self._left()
        self._bar.update(self._task, completed=self.done_count, left=left)
        if not self._console.is_terminal:
            self._console.print(
                f"{self.done_count}/{self.total_count}: replication {stored.replication} of "
                f"{stored.origin.experiment}, {_rounds(stored.computed_round_count)} in {stored.seconds:.0f} s"
                + (f", {left}" if left else ""),
                soft_wrap=True,
            )

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Show that claims are being tested and plots drawn, which takes about a minute."""
        with self._console.status("testing claims, drawing plots"):
            yield

    def _left(self) -> str:
        """An estimate from the pace since the start."""
        seconds_each = (time.monotonic() - self._started) / (self.done_count - self._done_before)
        minutes = round(seconds_each * (self.total_count - self.done_count) / 60)
        if minutes < 60:
            return f"about {minutes} min left" if minutes else ""
        return f"about {minutes // 60} h {minutes % 60:02d} min left"


def _rounds(count: int) -> str:
    return "1 round" if count == 1 else f"{count} rounds"


def verdict_line(results: Sequence[ClaimResult], directory: Path) -> str:
    """How many claims got which verdict, and how to list them."""
    if not results:
        return (
            "claims: none tested; they need an experiment of the paper with clipped contributions at mu = 0, inf and a "
            "value in between"
        )
    counts = Counter(result.verdict for result in results)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    return f"claims: {told}; `commonweal claims {directory}` lists them"
