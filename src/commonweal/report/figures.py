"""The figures of a chronicle, each drawn for a width: 720 points for a desk, 360 for a phone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from commonweal.records import Estimate, RunReport
from commonweal.report.client_lines import lines_by_client
from commonweal.report.decision_map_figures import decision_maps
from commonweal.report.palette import GRID, INK, MUTED, PAPER, STAYS, ZERO, client_styles
from commonweal.report.panels import TEXT_SIZE, amount_text, new_figure, percent_text, quiet, round_axis
from commonweal.report.payment_figures import payments, transfers
from commonweal.report.shown_names import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure that can be drawn at several widths."""

    name: str
    title: str
    draw: Callable[[float], Figure]  # from a width in points


def pictures(chronicle: RunReport) -> tuple[Picture, ...]:
    """All that goes to the figures folder."""

    def picture(name: str, title: str, draw: Callable[[RunReport, float], Figure]) -> Picture:
        return Picture(name=name, title=title, draw=lambda width: draw(chronicle, width))

    return (
        picture("durations", "Rounds each client took part in", durations),
        picture("accuracy", "Accuracy of each client after each round", accuracy),
        picture("tsw", "TSW: total social welfare after each round", tsw),
        picture("tsfi", "TSFI: total selection fairness index after each round", tsfi),
        picture("payments", "Who paid whom, over all rounds", payments),
        picture("transfers", "What each client has received (+) or paid (−) up to each round", transfers),
        picture("decision-maps", "Who stays at which mu: dark = stays, light = leaves", decision_maps),
    )


def durations(chronicle: RunReport, width: float) -> Figure:
    """A bar a client: full if it stayed to the end, pale and crossed if it was eliminated."""
    styles = client_styles(chronicle.clients)
    figure = new_figure(width, 21.0 * len(chronicle.clients) + 34)
    axes = figure.subplots()
    for row, client in enumerate(chronicle.clients):
        rounds, left = chronicle.durations[client], chronicle.departed_after.get(client)
        colour = styles[client].colour
        axes.barh(row, rounds, height=0.62, color=PAPER, linewidth=0)  # so that the grid does not shine through
        axes.barh(row, rounds, height=0.62, color=colour, alpha=0.38 if left else 1.0, linewidth=0)
        if left:
            axes.plot([rounds], [row], marker="X", markersize=9, color=colour, markeredgecolor=PAPER, clip_on=False)
        fate = f"left after round {left}" if left else "stayed"
        axes.annotate(
            f"{rounds} · {fate}", (rounds, row), (8, 0), textcoords="offset points", va="center", fontsize=TEXT_SIZE,
            color=MUTED, annotation_clip=False,
        )  # fmt: skip
    quiet(axes)
    axes.spines["bottom"].set_visible(False)
    axes.set_yticks(range(len(chronicle.clients)), [shortened(c, 18) for c in chronicle.clients], color=INK)
    axes.set_ylim(len(chronicle.clients) - 0.45, -0.55)
    axes.set_xlim(0, chronicle.round_count)
    axes.locator_params(axis="x", integer=True, nbins=8)
    axes.set_xlabel("rounds", fontsize=TEXT_SIZE, color=MUTED)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    return figure


def accuracy(chronicle: RunReport, width: float) -> Figure:
    points = {
        client: {held.number: held.clients[client].accuracy for held in chronicle.rounds if client in held.clients}
        for client in chronicle.clients
    }
    return lines_by_client(chronicle, points, width=width, value_text=percent_text)


def tsw(chronicle: RunReport, width: float) -> Figure:
    figure = _total(chronicle, chronicle.tsw, width)
    axes = figure.axes[0]
    axes.set_ylim(min(axes.get_ylim()[0], 0.0), max(axes.get_ylim()[1], 0.0))
    axes.axhline(0, color=ZERO, linewidth=1)
    axes.yaxis.set_major_formatter(lambda value, _: amount_text(value))
    return figure


def tsfi(chronicle: RunReport, width: float) -> Figure:
    figure = _total(chronicle, chronicle.tsfi, width)
    axes = figure.axes[0]
    low = min(axes.get_ylim()[0], 0.0)
    axes.set_ylim(low, max(axes.get_ylim()[1], 1.04))
    return figure


def _total(chronicle: RunReport, totals: Sequence[Estimate], width: float) -> Figure:
    """One figure of the whole federation, ± one standard error."""
    figure = new_figure(width, 210.0)
    axes = figure.subplots()
    rounds = [held.number for held in chronicle.rounds]
    values = [total.value for total in totals]
    errors = [total.standard_error or 0.0 for total in totals]
    axes.errorbar(rounds, values, errors, color=STAYS, linestyle="none", linewidth=3, alpha=0.35)
    if len(rounds) > 1:
        low = [value - error for value, error in zip(values, errors, strict=True)]
        high = [value + error for value, error in zip(values, errors, strict=True)]
        axes.fill_between(rounds, low, high, color=STAYS, alpha=0.15, linewidth=0)
    axes.plot(rounds, values, color=STAYS, linewidth=2, marker="o" if len(rounds) <= 30 else None, markersize=4)
    quiet(axes)
    round_axis(axes, rounds[-1])
    return figure
