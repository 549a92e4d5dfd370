"""A run on the terminal: a live view while it lasts, then a summary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from commonweal.federation.conductor import Progress as RoundProgress
from commonweal.federation.round_result import RoundResult
from commonweal.records import Estimate, RunReport
from commonweal.scenario.spec import Scenario

_CLIENTS_SHOWN = 25
_WARNINGS_SHOWN = 5


class RunView:
    """Who is where, on the error stream: a table that follows the run; where that is no terminal, a line a round."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._console = Console(stderr=True, highlight=False, emoji=False)
        self._accuracies: dict[str, float] = {}
        self._profits: dict[str, float] = {}
        self._contributions: dict[str, float] = {}
        self._left: dict[str, int] = {}
        self.held_count = 0
        self._live: Live | None = None
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("left:"), TimeRemainingColumn(), console=self._console,
        )  # fmt: skip
        self._task = self._bar.add_task("rounds", total=scenario.round_count)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the view until the run ends."""
        if not self._console.is_terminal:
            yield
            return
        with Live(self._render(), console=self._console, transient=True, refresh_per_second=8) as self._live:
            yield

    def watch(self, progress: RoundProgress) -> None:
        """An iteration is done."""
        self._accuracies |= progress.accuracies
        limit = self._scenario.learning.iteration_limit
        self._bar.update(
            self._task, description=f"round {progress.round_number}, iteration {progress.iteration}/{limit}"
        )
        self._refresh()

    def on_round(self, held: RoundResult) -> None:
        """A round is decided and safe."""
        decision, number = held.record.decision, held.record.round_number
        self.held_count = number
        self._profits = dict(decision.figures.profits)
        self._contributions = dict(decision.figures.contributions)
        self._accuracies |= {client: measured.accuracy.value for client, measured in held.measured.items()}
        self._left |= dict.fromkeys(decision.eliminated, number)
        self._bar.update(self._task, completed=number)
        self._refresh()
        if self._live is None:
            mean = sum(m.accuracy.value for m in held.measured.values()) / len(held.measured)
            loss_makers = ", ".join(decision.candidates) or "nobody"
            gone = f"; let go: {', '.join(decision.eliminated)}" if decision.eliminated else ""
            self._console.print(
                Text(
                    f"round {number}/{self._scenario.round_count}: mean accuracy {mean:.3f}, at a loss: "
                    f"{loss_makers}{gone}"
                ),
                soft_wrap=True,
            )

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.update(self._render())

    def _render(self) -> Group:
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column("client", max_width=30, overflow="ellipsis", no_wrap=True)
        for name in ("accuracy", "last profit", "last contribution"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        for client in self._scenario.client_names[:_CLIENTS_SHOWN]:
            left = self._left.get(client)
            profit = self._profits.get(client)
            state = "[red]at a loss[/]" if profit is not None and profit < 0 else ""
            if left is not None:
                state = f"[dim]let go after round {left}[/]"
            table.add_row(
                escape(client),
                f"{self._accuracies[client]:.3f}" if client in self._accuracies else "",
                "" if profit is None else f"{profit:+.4f}",
                "" if profit is None else f"{self._contributions[client]:+.4f}",
                state,
            )
        return Group(self._bar, table)


def _fate(chronicle: RunReport, client: str) -> str:
    if client in chronicle.withdrawn_after:
        return f"[yellow]withdrew after round {chronicle.withdrawn_after[client]}[/]"
    left = chronicle.eliminated_after[client]
    return "[green]stayed[/]" if left is None else f"[red]let go after round {left}[/]"


def show_summary(chronicle: RunReport, written: list[Path], console: Console) -> None:
    """The outcome on standard output, the report's place last."""
    console.print(Text(chronicle.sentence, style="bold"), soft_wrap=True)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("client", max_width=30, overflow="fold")
    for name in ("rounds", "accuracy", "payoffs", "transfers"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("fate", no_wrap=True)
    for client in chronicle.clients[:_CLIENTS_SHOWN]:
        last = next((held.clients[client] for held in reversed(chronicle.rounds) if client in held.clients), None)
        table.add_row(
            escape(client),
            str(chronicle.durations[client]),
            "" if last is None else _plain(last.accuracy),
            _signed(chronicle.total_payoffs[client]),
            _signed(chronicle.total_transfers[client]),
            _fate(chronicle, client),
        )
    console.print(table)
    if len(chronicle.clients) > _CLIENTS_SHOWN:
        console.print(f"[dim]... and {len(chronicle.clients) - _CLIENTS_SHOWN} more clients: see the report[/]")
    if chronicle.rounds:
        console.print(f"TSW {_signed(chronicle.tsw[-1])}, TSFI {_plain(chronicle.tsfi[-1])} (± one standard error)")
    for warning in chronicle.warnings[:_WARNINGS_SHOWN]:
        console.print(Text.assemble(("warning: ", "bold yellow"), warning), soft_wrap=True)
    if len(chronicle.warnings) > _WARNINGS_SHOWN:
        console.print(f"[dim]... and {len(chronicle.warnings) - _WARNINGS_SHOWN} more warnings: see the report[/]")
    for path in written:
        if path.name in ("history.json", "report.html"):
            console.print(Text(f"{path.stem}: {path}"), soft_wrap=True)


def _plain(estimate: Estimate) -> str:
    error = "" if estimate.standard_error is None else f" ± {estimate.standard_error:.3f}"
    return f"{estimate.value:.3f}{error}"


def _signed(estimate: Estimate) -> str:
    error = "" if estimate.standard_error is None else f" ± {estimate.standard_error:.4f}"
    return f"{estimate.value:+.4f}{error}"
