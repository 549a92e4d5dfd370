"""A run on the terminal: a live view while it lasts, then a summary."""

from __future__ import annotations

import math
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

from commonweal.cli.text_view import stability_text
from commonweal.decision.reasons import how_sure_of_the_end
from commonweal.federation.measuring import Progress as RoundProgress
from commonweal.federation.round_result import RoundResult
from commonweal.records import FINISHED, Decision, Estimate, RoundRecord, RunReport
from commonweal.records.rounds import DEFAULT_MECHANISM
from commonweal.report.plots import in_all_rounds
from commonweal.report.text import counted
from commonweal.scenario.spec import Scenario

_CLIENTS_SHOWN = 25
_NAME_WIDTH = 12  # a table that is too wide does not break names up to this
_WARNINGS_SHOWN = 5


class RunView:
    """The state of all clients on the error stream: a live table, or one line per round if that is not a terminal."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._console = Console(stderr=True, highlight=False, emoji=False)
        self._accuracies: dict[str, float] = {}
        self._profits: dict[str, float] = {}
        self._loss_makers: frozenset[str] = frozenset()
        self._at_a_loss = ""
        self._contributions: dict[str, float] = {}
        self._eliminated_after: dict[str, int] = {}
        self._how: dict[str, str] = {}
        self._stabilities: dict[str, str] = {}
        self.completed_count = 0
        self._live: Live | None = None
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("remaining:"), TimeRemainingColumn(), console=self._console,
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
        """Show an iteration that was completed."""
        self._accuracies |= progress.accuracies
        limit = self._scenario.learning.iteration_limit
        self._bar.update(
            self._task, description=f"round {progress.round_number}, iteration {progress.iteration}/{limit}"
        )
        self._refresh()

    def on_round(self, result: RoundResult) -> None:
        """Show a round that was decided and saved."""
        decision, number = result.record.decision, result.record.round_number
        self.completed_count = number
        self._profits = dict(decision.figures.profits)
        self._loss_makers, self._at_a_loss = frozenset(decision.candidates), _at_a_loss(decision)
        self._contributions = dict(decision.figures.contributions)
        self._accuracies |= {client: measured.accuracy.value for client, measured in result.measured.items()}
        self._eliminated_after |= dict.fromkeys(decision.eliminated, number)
        self._how |= dict.fromkeys(decision.eliminated, "eliminated") | dict.fromkeys(
            decision.harmful, "eliminated as harmful"
        )
        self._stabilities |= {client: stability_text(result.record, client) for client in decision.figures.clients}
        self._bar.update(self._task, completed=number)
        self._refresh()
        if self._live is None:
            loss_makers = ", ".join(decision.candidates) or "nobody"
            leaving = [
                f"{client} as harmful"
                if client in decision.harmful
                else _with_stability(client, self._stabilities[client])
                for client in decision.eliminated
            ]
            eliminated = f"; eliminated: {', '.join(leaving)}" if leaving else ""
            finished = "" if result.record.ending is None else f"; {_finished(result.record)}"
            self._console.print(
                Text(
                    f"round {number}/{self._scenario.round_count}: {self._mean(result)}, {_at_a_loss(decision)}: "
                    f"{loss_makers}{eliminated}{finished}"
                ),
                soft_wrap=True,
            )

    def _mean(self, result: RoundResult) -> str:
        """Before and after the round, over the same clients: those at which the metric can be measured.

        Means of different rounds differ also because clients leave, so it is said how many clients they are of.
        """
        label = self._scenario.task.metric.label
        pairs = [(m.previous_accuracy, m.accuracy.value) for m in result.measured.values()]
        measured = [pair for pair in pairs if not any(map(math.isnan, pair))]
        if not measured:
            return f"{label} not measurable"
        before, now = (sum(values) / len(measured) for values in zip(*measured, strict=True))
        return f"mean {label} of {counted(len(measured), 'client')} from {before:.3f} to {now:.3f}"

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.update(self._render())

    def _render(self) -> Group:
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column("client", max_width=30, overflow="ellipsis", no_wrap=True)
        for name in (self._scenario.task.metric.label, "last profit", "last contribution"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        table.add_column("stability", justify="right", no_wrap=True)
        for client in self._scenario.client_names[:_CLIENTS_SHOWN]:
            after = self._eliminated_after.get(client)
            profit = self._profits.get(client)
            state = f"[red]{self._at_a_loss}[/]" if client in self._loss_makers else ""
            if after is not None:
                state = f"[dim]{self._how[client]} after round {after}[/]"
            table.add_row(
                escape(client),
                _measured(self._accuracies[client]) if client in self._accuracies else "",
                "" if profit is None else f"{profit:+.4f}",
                "" if profit is None else f"{self._contributions[client]:+.4f}",
                state,
                self._stabilities.get(client, ""),
            )
        return Group(self._bar, table)


def _at_a_loss(decision: Decision) -> str:
    return "at a loss" if decision.figures.expected is None else "expected at a loss"


def _state(run_report: RunReport, client: str) -> str:
    colour = "yellow" if client in run_report.withdrawn_after else "red"
    fate = run_report.fate_of(client)
    return "[green]stayed[/]" if fate == "stayed" else f"[{colour}]{fate}[/]"


def show_summary(run_report: RunReport, directory: Path, console: Console) -> None:
    """Print the summary on standard output; the path of the run report comes last."""
    console.print(Text(run_report.sentence, style="bold"), soft_wrap=True)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    longest = max(map(len, run_report.clients[:_CLIENTS_SHOWN]))
    table.add_column("client", min_width=min(longest, _NAME_WIDTH), max_width=30, overflow="fold")
    for name in ("rounds", run_report.metric.label, "payoffs", "transfers"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("outcome")
    has_stability = any(each.record.draw_count is not None for each in run_report.rounds)
    if has_stability:
        table.add_column("stability", justify="right", no_wrap=True)
    for client in run_report.clients[:_CLIENTS_SHOWN]:
        last_round = next((each for each in reversed(run_report.rounds) if client in each.clients), None)
        last = None if last_round is None else last_round.clients[client]
        stability = "" if last_round is None else stability_text(last_round.record, client)
        table.add_row(
            escape(client),
            str(run_report.durations[client]),
            "" if last is None else _plain(last.accuracy),
            _signed(run_report.total_payoffs[client]),
            _signed(run_report.total_transfers[client]),
            _state(run_report, client),
            *([stability] if has_stability else []),
        )
    console.print(table)
    if has_stability:
        console.print(f"[dim]{_about_stability(run_report)}[/]", soft_wrap=True)
    if run_report.advice is not None:
        console.print(Text(run_report.advice.sentence), soft_wrap=True)
    if len(run_report.clients) > _CLIENTS_SHOWN:
        console.print(f"[dim]... and {len(run_report.clients) - _CLIENTS_SHOWN} more clients in the run report[/]")
    if run_report.rules.mechanism != DEFAULT_MECHANISM and run_report.mechanism is not None:
        console.print(Text(f"decided by {run_report.mechanism.description}"), soft_wrap=True)
    if run_report.rounds:
        for sentence in _mean_of_the_same(run_report):
            console.print(sentence, soft_wrap=True)
        console.print(
            f"TSW {_signed(run_report.tsw[-1])}: total social welfare, the profits of retained clients; of all who "
            f"took part {run_report.welfare_of_all:+.4f}",
            soft_wrap=True,
        )
        console.print(
            f"TSFI {_plain(run_report.tsfi[-1])}: selection fairness, the part of all contributions that came from "
            "retained clients",
            soft_wrap=True,
        )
        console.print("[dim]±: one standard error[/]")
    for warning in run_report.warnings[:_WARNINGS_SHOWN]:
        console.print(Text.assemble(("warning: ", "bold yellow"), warning), soft_wrap=True)
    if len(run_report.warnings) > _WARNINGS_SHOWN:
        console.print(f"[dim]... and {len(run_report.warnings) - _WARNINGS_SHOWN} more warnings in the run report[/]")
    for path in (directory / "history.json", directory / "report.html"):
        console.print(Text(f"{path.stem}: {path}"), soft_wrap=True)


def _mean_of_the_same(run_report: RunReport) -> list[str]:
    """From the first to the last round, over the clients of all rounds: it does not change because others leave."""
    same, rounds = in_all_rounds(run_report), run_report.rounds
    if not same or len(rounds) < 2:
        return []
    first, last = (sum(each.clients[c].accuracy.value for c in same) / len(same) for each in (rounds[0], rounds[-1]))
    return [
        f"mean {run_report.metric.label} of the {counted(len(same), 'client')} of all rounds: {first:.3f} after round "
        f"{rounds[0].number}, {last:.3f} after round {rounds[-1].number}"
    ]


def _finished(record: RoundRecord) -> str:
    sure = how_sure_of_the_end(record.ending_stability, is_advice=not record.decision.finished)
    return f"{FINISHED}{f' ({sure})' if sure else ''}"


def _about_stability(run_report: RunReport) -> str:
    counts = [each.record.draw_count for each in run_report.rounds if each.record.draw_count is not None]
    return (
        f"stability: how often each client's last decision is the same if its round is decided again on {min(counts)} "
        "draws of its figures"
    )


def _with_stability(client: str, stability: str) -> str:
    return f"{client} (stability {stability})" if stability else client


def _measured(value: float) -> str:
    return "not measurable" if math.isnan(value) else f"{value:.3f}"


def _plain(estimate: Estimate) -> str:
    return "not measurable" if math.isnan(estimate.value) else f"{estimate.value:.3f}{_error(estimate, 3)}"


def _signed(estimate: Estimate) -> str:
    return f"{estimate.value:+.4f}{_error(estimate, 4)}"


def _error(estimate: Estimate, decimals: int) -> str:
    if estimate.standard_error is None:
        return " ± ?"
    return f" ± {estimate.standard_error:.{decimals}f}" if estimate.standard_error else " ± 0"
