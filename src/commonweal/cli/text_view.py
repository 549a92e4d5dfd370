"""The result of `commonweal decide` as tables and sentences."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from commonweal.cli.outcome import DecidedRound, DecideResult
from commonweal.decision.explain import describe
from commonweal.decision.mechanisms import make_mechanism
from commonweal.records import RoundRecord, Rules
from commonweal.records.rounds import DEFAULT_MECHANISM

_CLIENTS_SHOWN = 40
_NAME_WIDTH = 30
_ROUNDS_SHOWN = 6
_SENTENCES_SHOWN = 40
_SUMMARY_SHOWN = 30


def make_console() -> Console:
    """A console that shows names unchanged and never cuts figures; what is too wide for the terminal wraps."""
    console = Console(highlight=False, emoji=False)
    console.width = max(console.width, 84) if sys.stdout.isatty() else 120
    return console


def show(outcome: DecideResult, console: Console, *, with_pieces: bool) -> None:
    """Show all rounds if they are few, otherwise those with eliminations; then totals, notes and warnings."""
    in_words = _decided_by(outcome.rules)
    rounds = outcome.rounds
    shown = rounds
    if len(rounds) > _ROUNDS_SHOWN:
        leaving = [view for view in rounds if view.record.decision.eliminated]
        shown = tuple(leaving[:_ROUNDS_SHOWN])
        console.print(_summary(outcome))
        if len(leaving) > len(shown):
            console.print(f"[dim]{len(leaving) - len(shown)} more rounds with eliminations: see --json[/]\n")
    for view in shown:
        table, sentences = _round(view, in_words)
        console.print(table)
        for sentence in sentences:
            console.print(sentence, soft_wrap=True)
        if with_pieces:
            console.print(_pieces(view))
    if len(rounds) > 1:
        console.print(_totals(outcome))
    _say_notes(outcome, console)
    for warning in outcome.warnings[:_SUMMARY_SHOWN]:
        console.print(Text.assemble(("warning: ", "bold yellow"), warning), soft_wrap=True)
    if len(outcome.warnings) > _SUMMARY_SHOWN:
        console.print(f"[dim]... and {len(outcome.warnings) - _SUMMARY_SHOWN} more warnings: see --json[/]")


def show_path(outcome: DecideResult, console: Console) -> None:
    """Show a single round for every μ, if no particular μ was given."""
    for view in outcome.rounds:
        console.print(_pieces(view))
    _say_notes(outcome, console)


def _say_notes(outcome: DecideResult, console: Console) -> None:
    for note in outcome.notes:
        console.print(Text.assemble(("note: ", "cyan"), note), soft_wrap=True)


def _decided_by(rules: Rules) -> str:
    if rules.mechanism == DEFAULT_MECHANISM:
        return f"at {rules.in_words}"
    return f"by {escape(make_mechanism(rules).describe())}"


def _round(view: DecidedRound, decided_by: str) -> tuple[Table, list[str]]:
    """The table of a round, and the sentences below it."""
    decision = view.record.decision
    grace = ", grace: nobody can be eliminated" if decision.grace else ""
    title = f"[bold]Round {view.number}[/] {decided_by}{grace}"
    table = _table(title)
    table.add_column("client", max_width=_NAME_WIDTH, overflow="fold")
    profits = ("profit",) if view.measured is None else ("measured", "profit")
    for column in (*profits, "contribution", "share"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("decision", no_wrap=True)
    if view.record.draw_count is not None:
        table.add_column("stability", justify="right", no_wrap=True)
    for column in ("payoff", "transfer"):
        table.add_column(column, justify="right", no_wrap=True)
    path = view.whole_path
    if path is not None:
        table.add_column("retained for mu", overflow="fold")
    clients, transfers = decision.figures.clients, decision.all_transfers
    for client in clients[:_CLIENTS_SHOWN]:
        stays = client in decision.payoffs
        cells = [
            escape(client),
            *([] if view.measured is None else [amount(view.measured.profits[client])]),
            amount(decision.figures.profits[client]),
            amount(decision.figures.contributions[client], signed=False),
            f"{decision.shares[client]:.4f}" if stays else "",
            "[green]retained[/]" if stays else "[red]eliminated[/]",
            *([] if view.record.draw_count is None else [stability_text(view.record, client)]),
            amount(decision.payoffs[client]) if stays else "",
            amount(transfers[client]) if client in transfers else "",
        ]
        if path is not None:
            cells.append(describe(path.stays(client)))
        table.add_row(*cells)
    sentences: list[str] = []
    if len(clients) > _CLIENTS_SHOWN:
        sentences.append(f"[dim]... and {len(clients) - _CLIENTS_SHOWN:,} more clients: see --json[/]")
    sentences.append(
        f"{len(decision.retained):,} of {len(clients):,} clients retained; budget {amount(decision.budget)}, "
        f"objective {amount(decision.objective)}"
        + ("" if decision.proven_gap == 0 else f" (proven best to within {decision.proven_gap:.2g})")
    )
    if decision.external:
        verb = "receives" if decision.external > 0 else "pays"
        sentences.append(f"the outside {verb} {amount(abs(decision.external), signed=False)}")
    told = [client for client in decision.eliminated if view.reason(client) is not None]
    sentences += [escape(f"  {view.reason(client)}") for client in told[:_SENTENCES_SHOWN]]
    untold = len(decision.eliminated) - len(told[:_SENTENCES_SHOWN])
    if untold:
        sentences.append(f"[dim]  ... {untold:,} more eliminated[/]")
    if instructions := view.record.instructions.to_document():
        told_next = "; ".join(f"{name.replace('_', ' ')} {_in_words(value)}" for name, value in instructions.items())
        sentences.append(escape(f"for the next round (not carried out here): {told_next}"))
    return table, [*sentences, ""]


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{client} {share:g}" for client, share in value.items())
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _table(title: str) -> Table:
    return Table(
        box=SIMPLE_HEAD, title=title, title_justify="left", title_style="", pad_edge=False, padding=(0, 1, 0, 0)
    )


def _pieces(view: DecidedRound) -> RenderableType:
    path = view.whole_path
    if path is None:
        found = 0 if view.path is None else len(view.path.breakpoints)
        why = (
            "grace, nobody can be eliminated"
            if view.record.decision.grace
            else f"{found:,} breakpoints found, path not complete"
        )
        return f"[dim]Round {view.number} for every mu: {why}[/]\n"
    table = _table(f"Round {view.number} for every mu")
    for column in ("mu", "retained", "eliminated"):
        table.add_column(column)
    pieces = path.pieces()
    for piece, retained in pieces[: 2 * _SUMMARY_SHOWN]:
        staying = frozenset(retained)
        leaving = [client for client in path.clients if client not in staying]
        table.add_row(str(piece), _names(list(retained)), _names(leaving))
    more = len(pieces) - 2 * _SUMMARY_SHOWN
    return Group(table, f"[dim]... and {more:,} more ranges: see --json[/]\n") if more > 0 else table


def _names(clients: list[str]) -> str:
    return escape(", ".join(clients[:12]) + (f" and {len(clients) - 12:,} more" if len(clients) > 12 else ""))


def _summary(outcome: DecideResult) -> RenderableType:
    table = _table("[bold]Rounds[/]")
    for column in ("round", "took part", "eliminated", "budget", "TSW", "TSFI"):
        table.add_column(column, justify="right")
    last = len(outcome.rounds) - 1
    for index, view in enumerate(outcome.rounds):
        if _SUMMARY_SHOWN - 1 <= index < last:
            if index == _SUMMARY_SHOWN - 1:
                table.add_row("...", "", "", "", "", "")
            continue
        decision = view.record.decision
        table.add_row(
            str(view.number),
            f"{len(decision.figures.profits):,}",
            _names(list(decision.eliminated)),
            amount(decision.budget),
            amount(outcome.totals.tsw[index]),
            f"{outcome.totals.tsfi[index]:.4f}",
        )
    return table


def _totals(outcome: DecideResult) -> RenderableType:
    totals = outcome.totals
    table = _table("[bold]Totals[/]")
    table.add_column("client", max_width=_NAME_WIDTH, overflow="fold")
    for column in ("duration", "contribution", "payoff"):
        table.add_column(column, justify="right", no_wrap=True)
    clients = list(totals.durations)
    for client in clients[:_CLIENTS_SHOWN]:
        table.add_row(
            escape(client),
            str(totals.durations[client]),
            amount(totals.contributions[client], signed=False),
            amount(totals.payoffs[client]),
        )
    parts: list[RenderableType] = [table]
    if len(clients) > _CLIENTS_SHOWN:
        parts.append(f"[dim]... and {len(clients) - _CLIENTS_SHOWN:,} more clients: see --json[/]")
    parts.append("[dim]contribution and payoff: of the rounds in which the client was retained[/]")
    parts.append(
        f"TSW {amount(totals.tsw[-1])}, TSFI {totals.tsfi[-1]:.4f} (with the final set in all rounds "
        f"{totals.tsfi_final_set[-1]:.4f})"
    )
    fairness = [
        ("Jain", totals.jain),
        ("Gini", totals.gini),
        ("correlation with contribution", totals.correlation),
    ]
    known = ", ".join(f"{name} {value:.4f}" for name, value in fairness if value is not None)
    if known:
        parts.append(f"payoffs: {known}")
    return Group(*parts, "")


def stability_text(record: RoundRecord, client: str) -> str:
    """A percentage; "" where it is not known."""
    stability = record.stability_of(client)
    return "" if stability is None else f"{100 * stability.share:.0f} %"


def amount(value: float, *, signed: bool = True) -> str:
    """Six significant digits; a sign where the direction matters; no minus before zero."""
    if math.isclose(value, 0.0, abs_tol=1e-15):
        return "0"
    return f"{value:+.6g}" if signed else f"{value:.6g}"
