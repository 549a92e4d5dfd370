"""A line for each client over the rounds: in one panel while they are few, else a small panel each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from commonweal.records import Chronicle, Estimate
from commonweal.report.palette import GRID, MUTED, PAPER, ZERO, ClientStyle, client_styles
from commonweal.report.panels import TEXT_SIZE, WIDE, new_figure, quiet, round_axis
from commonweal.report.shown_names import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TOGETHER_LIMIT = 8  # more lines in one panel can no longer be told apart
_MARKED_ROUNDS = 30  # beyond, markers run into one another


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One client's figure by round, and how its story ends."""

    points: Mapping[int, Estimate]
    style: ClientStyle
    left: bool  # eliminated after its last point


def lines_by_client(
    chronicle: Chronicle,
    points: Mapping[str, Mapping[int, Estimate]],  # by client and round
    *,
    width: float,
    value_axis: Callable[[Axes], None],
) -> Figure:
    """Bands are ± one standard error; a cross marks where a client left."""
    styles = client_styles(chronicle.clients)
    lines = {
        client: _Line(points=points[client], style=styles[client], left=chronicle.eliminated_after[client] is not None)
        for client in chronicle.clients
        if points[client]  # one that was never present has no line
    }
    draw = _together if len(lines) <= _TOGETHER_LIMIT else _apart
    return draw(lines, width, chronicle.rounds[-1].number, value_axis)


def _together(lines: Mapping[str, _Line], width: float, last_round: int, value_axis: Callable[[Axes], None]) -> Figure:
    height = 270.0
    figure = new_figure(width, height)
    axes = figure.subplots()
    for line in lines.values():
        _draw(axes, line)
    _frame(axes, last_round, value_axis)
    axes.set_ylim(*axes.get_ylim())  # what follows must not move it
    ends = {client: line.points[max(line.points)].value for client, line in lines.items()}
    places = _spread(ends, axes.get_ylim(), gap=13 / (height - 50))
    for client, place in places.items():
        line = lines[client]
        end = max(line.points)
        axes.annotate(
            "", xy=(end, ends[client]), xytext=(1.025, place), xycoords="data",
            textcoords=axes.get_yaxis_transform(), annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.6, "linestyle": (0, (1, 2)), "shrinkA": 0,
                        "shrinkB": 5},
        )  # fmt: skip
        axes.text(
            1.035, place, shortened(client, 22 if width >= WIDE else 13), color=line.style.colour, va="center",
            transform=axes.get_yaxis_transform(), fontweight="bold", fontsize=TEXT_SIZE,
        )  # fmt: skip
    return figure


def _apart(lines: Mapping[str, _Line], width: float, last_round: int, value_axis: Callable[[Axes], None]) -> Figure:
    columns = 5 if width >= WIDE else 3
    rows = math.ceil(len(lines) / columns)
    figure = new_figure(width, 78.0 * rows + 34)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    lowest, highest = _extent(lines)
    for place, axes in enumerate(grid.flat):
        if place >= len(lines):
            axes.set_axis_off()
            continue
        client = list(lines)[place]
        axes.fill_between(list(lowest), list(lowest.values()), list(highest.values()), color=GRID, linewidth=0)
        _draw(axes, lines[client])
        _frame(axes, last_round, value_axis)
        axes.tick_params(labelsize=TEXT_SIZE - 1.5)
        axes.locator_params(axis="y", nbins=3)
        axes.set_xlabel("")
        axes.set_title(
            shortened(client, 20 if width >= WIDE else 15), fontsize=TEXT_SIZE - 0.5, loc="left", pad=3,
            color=lines[client].style.colour,
        )  # fmt: skip
    figure.supxlabel("round", fontsize=TEXT_SIZE, color=MUTED)
    return figure


def _draw(axes: Axes, line: _Line) -> None:
    rounds = list(line.points)
    values = [point.value for point in line.points.values()]
    errors = [point.standard_error or 0.0 for point in line.points.values()]
    style = line.style
    if any(errors):
        low = [value - error for value, error in zip(values, errors, strict=True)]
        high = [value + error for value, error in zip(values, errors, strict=True)]
        if len(rounds) == 1:
            axes.vlines(rounds, low, high, color=style.colour, alpha=0.4, linewidth=4)
        else:
            axes.fill_between(rounds, low, high, color=style.colour, alpha=0.13, linewidth=0)
    axes.plot(
        rounds, values, color=style.colour, linestyle=style.dash, linewidth=1.6,
        marker=style.marker if len(rounds) <= _MARKED_ROUNDS else None, markersize=3.6,
    )  # fmt: skip
    if line.left:
        axes.plot(rounds[-1:], values[-1:], marker="X", markersize=9, color=style.colour, markeredgecolor=PAPER)


def _frame(axes: Axes, last_round: int, value_axis: Callable[[Axes], None]) -> None:
    quiet(axes)
    round_axis(axes, last_round)
    value_axis(axes)
    low, high = axes.get_ylim()
    if low < 0 < high:
        axes.axhline(0, color=ZERO, linewidth=1)


def _extent(lines: Mapping[str, _Line]) -> tuple[dict[int, float], dict[int, float]]:
    """The lowest and the highest of all clients in each round: the crowd behind each one's own line."""
    by_round: dict[int, list[float]] = {}
    for line in lines.values():
        for round_number, point in line.points.items():
            by_round.setdefault(round_number, []).append(point.value)
    ordered = sorted(by_round)
    return {r: min(by_round[r]) for r in ordered}, {r: max(by_round[r]) for r in ordered}


def _spread(ends: Mapping[str, float], limits: tuple[float, float], gap: float) -> dict[str, float]:
    """Places for labels beside the line ends, at least `gap` of the panel's height apart."""
    low, high = limits
    order = sorted(ends, key=lambda client: ends[client])
    places = [(ends[client] - low) / (high - low) for client in order]
    for place in range(1, len(places)):
        places[place] = max(places[place], places[place - 1] + gap)
    ceiling = 1.0
    for place in range(len(places) - 1, -1, -1):
        places[place] = min(places[place], ceiling)
        ceiling = places[place] - gap
    return {client: low + place * (high - low) for client, place in zip(order, places, strict=True)}
