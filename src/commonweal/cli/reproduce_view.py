"""A reproduction on the terminal: a bar over replications with the time left; elsewhere a line each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from commonweal.experiments.reproduce import Plan, Request
from commonweal.experiments.result_set import StoredReplication


class ReproductionView:
    """What is done and what is left, on the error stream."""

    def __init__(self, planned: Plan, request: Request) -> None:
        self.total_count = len(request.scenarios) * request.replication_count
        self.done_count = self.total_count - len(planned.tasks)
        self._console = Console(stderr=True, highlight=False, emoji=False)
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("left:"), TimeRemainingColumn(elapsed_when_finished=True), console=self._console,
            speed_estimate_period=3600,
        )  # fmt: skip
        self._task = self._bar.add_task("replications", total=self.total_count, completed=self.done_count)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the view until all is done."""
        if self.done_count:
            self._console.print(f"{self.done_count} of {self.total_count} replications are there already")
        if not self._console.is_terminal:
            yield
            return
        with self._bar:
            yield

    def on_result(self, stored: StoredReplication) -> None:
        """A replication is on disk."""
        self.done_count += 1
        self._bar.update(self._task, completed=self.done_count)
        if not self._console.is_terminal:
            left = self._bar.tasks[0].time_remaining
            eta = "" if left is None else f", about {left / 60:.0f} min left"
            self._console.print(
                f"{self.done_count}/{self.total_count}: replication {stored.replication} of "
                f"{stored.origin.experiment}, {stored.held_count} rounds in {stored.seconds:.0f} s{eta}",
                soft_wrap=True,
            )
