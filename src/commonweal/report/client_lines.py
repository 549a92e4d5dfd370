"""One line per client over the rounds: in one panel if there are few clients, otherwise in a small panel each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from commonweal.records import Estimate, RunReport
from commonweal.report.drawing import TEXT_SIZE, WIDE, blank_figure, new_figure, quiet, round_axis
from commonweal.report.metric_text import NOT_MEASURABLE
from commonweal.report.palette import GRID, MUTED, PAPER, ZERO, LineStyle, client_styles
from commonweal.report.text import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLIENTS_DRAWN = 60  # of more, nobody looks at each, and to draw a thousand takes longer than to train them
_TOGETHER_LIMIT = 6  # as many as there are colours: more lines in one panel can hardly be told apart
_APART = 4  # a first round that widens the range of values so many times is left out of it
_MARKED_ROUNDS = 30  # with more rounds, markers would overlap


def which_drawn(run_report: RunReport) -> str:
    """To be added to the titles of plots that draw each client; "" if they draw all of them."""
    count = len(run_report.clients)
    return f" (first {CLIENTS_DRAWN} of {count:,} clients)" if count > CLIENTS_DRAWN else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One client's values by round, and whether it left."""

    points: Mapping[int, Estimate]  # not a number where it cannot be measured: a gap in the line
    style: LineStyle
    left: bool  # after its last point, eliminated or withdrawn
    beside: Mapping[int, Estimate] = field(default_factory=dict)  # another model of the same client, drawn in grey

    @property
    def measured(self) -> dict[int, Estimate]:
        return _numbers(self.points)


def lines_by_client(
    run_report: RunReport,
    points: Mapping[str, Mapping[int, Estimate]],  # by client and round
    *,
    width: float,
    value_text: Callable[[float], str],
    is_first_round_apart: bool = False,
) -> Figure:
    """Bands are ± one standard error; a cross marks where a client left; a value that is not a number makes a gap.

    With `is_first_round_apart`, the first round is only stated in words if it would hide the differences between all
    others, as the large gains of an untrained model do.
    """
    styles = client_styles(run_report.clients)
    lines = {
        client: _Line(points=points[client], style=styles[client], left=client in run_report.left_after)
        for client in run_report.clients[:CLIENTS_DRAWN]
        if points[client]  # a client that was never present has no line
    }
    if not any(line.measured for line in lines.values()):
        return blank_figure(width, "It cannot be measured at any client.")
    draw = _together if len(lines) <= _TOGETHER_LIMIT else _apart
    later = _without_first_round(lines) if is_first_round_apart else lines
    figure = draw(later, width, run_report.rounds[-1].number, value_text)
    if later is not lines:
        number, (low, high) = next(iter(_extent(lines).items()))
        figure.axes[0].set_title(
            f"Round {number} is not drawn: {value_text(low)} to {value_text(high)}", loc="left", fontsize=TEXT_SIZE,
            color=MUTED,
        )  # fmt: skip
    return figure


def _without_first_round(lines: Mapping[str, _Line]) -> Mapping[str, _Line]:
    """The lines from the second round on, if the first one widens their range many times; otherwise the same lines."""
    extent = _extent(lines)
    first, later = min(extent), [limit for number, limits in extent.items() if number > min(extent) for limit in limits]
    if not later or any(max(line.points) == first for line in lines.values()):
        return lines
    if max(*extent[first], *later) - min(*extent[first], *later) <= _APART * (max(later) - min(later)):
        return lines
    return {
        client: replace(line, points={number: point for number, point in line.points.items() if number != first})
        for client, line in lines.items()
    }


def lines_beside(
    run_report: RunReport,
    points: Mapping[str, Mapping[int, Estimate]],
    beside: Mapping[str, Mapping[int, Estimate]],
    *,
    width: float,
    value_text: Callable[[float], str],
) -> Figure:
    """A panel per client with two lines: its own, and a grey dashed one of the figures in `beside`.

    Without bands: those of both lines overlap, and say little about the difference of two models on the same samples.
    """
    styles = client_styles(run_report.clients)
    lines = {
        client: _Line(
            points={number: replace(point, standard_error=None) for number, point in points[client].items()},
            style=styles[client],
            left=client in run_report.left_after,
            beside=beside[client],
        )
        for client in run_report.clients[:CLIENTS_DRAWN]
        if points[client]
    }
    if not any(line.measured or _numbers(line.beside) for line in lines.values()):
        return blank_figure(width, "It cannot be measured at any client.")
    return _apart(lines, width, run_report.rounds[-1].number, value_text)


def _numbers(points: Mapping[int, Estimate]) -> dict[int, Estimate]:
    return {number: point for number, point in points.items() if not math.isnan(point.value)}


def _together(lines: Mapping[str, _Line], width: float, last_round: int, value_text: Callable[[float], str]) -> Figure:
    """One panel, with names beside the ends of the lines."""
    height = 270.0
    figure = new_figure(width, height)
    axes = figure.subplots()
    for line in lines.values():
        _draw(axes, line, _as_is)
    quiet(axes)
    round_axis(axes, last_round)
    axes.yaxis.set_major_formatter(lambda value, _: value_text(value))
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)  # fixed, so that nothing drawn below changes it
    if low < 0 < high:
        axes.axhline(0, color=ZERO, linewidth=1)
    ends = {client: line.measured[max(line.measured)].value for client, line in lines.items() if line.measured}
    places = _spread(ends, (low, high), gap=13 / (height - 50))
    for client, place in places.items():
        line = lines[client]
        axes.annotate(
            "", xy=(max(line.measured), ends[client]), xytext=(1.025, place), xycoords="data",
            textcoords=axes.get_yaxis_transform(), annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.6, "linestyle": (0, (1, 2)), "shrinkA": 0,
                        "shrinkB": 5},
        )  # fmt: skip
        axes.text(
            1.035, place, shortened(client, 22 if width >= WIDE else 13), color=line.style.colour, va="center",
            transform=axes.get_yaxis_transform(), fontweight="bold", fontsize=TEXT_SIZE,
        )  # fmt: skip
    if unmeasured := [shortened(client) for client in lines if client not in ends]:
        axes.set_title(
            f"{NOT_MEASURABLE}: {', '.join(unmeasured)}", loc="left", fontsize=TEXT_SIZE, color=MUTED, wrap=True
        )
    return figure


def _apart(lines: Mapping[str, _Line], width: float, last_round: int, value_text: Callable[[float], str]) -> Figure:
    """A small panel per client, drawn over the range of all. They share one axes: laying out thirty takes seconds."""
    from matplotlib.ticker import MaxNLocator

    columns = min(5 if width >= WIDE else 3, len(lines))
    rows = math.ceil(len(lines) / columns)
    figure = new_figure(width, 78.0 * rows + 40)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(0, columns - 0.06)
    axes.set_ylim(-rows, 0)
    reach = [p.value + sign * (p.standard_error or 0.0) for line in lines.values() for p in line.measured.values()
             for sign in (-1, 1)]  # fmt: skip
    reach += [point.value for line in lines.values() for point in _numbers(line.beside).values()]
    low, high = min(reach), max(reach)
    margin = 0.06 * (high - low) or 0.5
    low, high = low - margin, high + margin
    value_ticks = [tick for tick in MaxNLocator(nbins=3).tick_values(low, high) if low <= tick <= high]
    round_ticks = [
        tick for tick in MaxNLocator(nbins=5, integer=True).tick_values(1, last_round) if 1 <= tick <= last_round
    ]
    extent = _extent(lines)
    small: dict[str, Any] = {"fontsize": TEXT_SIZE - 1.5, "color": MUTED}
    for place, (client, line) in enumerate(lines.items()):
        row, column = divmod(place, columns)

        def to_panel(round_number: float, value: float, row: int = row, column: int = column) -> tuple[float, float]:
            across = (round_number - 0.5) / (last_round + 0.2)
            return column + 0.94 * across, -row - 1 + 0.74 * (value - low) / (high - low)

        for tick in value_ticks:
            _, y = to_panel(1, tick)
            axes.hlines(y, column, column + 0.94, color=ZERO if tick == 0 else GRID, linewidth=0.8)
            if column == 0:
                axes.text(-0.03, y, value_text(tick), ha="right", va="center", **small)
        axes.hlines(-row - 1, column, column + 0.94, color=MUTED, linewidth=0.8, clip_on=False)
        if place + columns >= len(lines):
            for tick in round_ticks:
                axes.text(to_panel(tick, 0)[0], -row - 1.04, f"{tick:g}", ha="center", va="top", **small)
        if line.beside:
            other = [to_panel(r, point.value) for r, point in line.beside.items()]
            axes.plot([x for x, _ in other], [y for _, y in other], color=MUTED, linestyle=(0, (3, 1.5)), linewidth=1.4,
                      marker="o" if len(other) == 1 else None, markersize=3)  # fmt: skip
        else:
            lowest = [to_panel(r, bottom) for r, (bottom, _) in extent.items()]
            highest = [to_panel(r, top)[1] for r, (_, top) in extent.items()]
            axes.fill_between([x for x, _ in lowest], [y for _, y in lowest], highest, color=GRID, linewidth=0)
        _draw(axes, line, to_panel)
        if not line.measured:
            axes.text(column + 0.47, -row - 0.6, NOT_MEASURABLE, ha="center", va="center", **small)
        axes.text(
            column, -row - 0.12, shortened(client, 20 if width >= WIDE else 15), fontsize=TEXT_SIZE - 0.5, va="center",
            color=line.style.colour,
        )  # fmt: skip
    axes.text(columns / 2, -rows - 0.3, "round", ha="center", va="top", fontsize=TEXT_SIZE, color=MUTED)
    return figure


def _as_is(round_number: float, value: float) -> tuple[float, float]:
    return round_number, value


def _draw(axes: Axes, line: _Line, place: Callable[[float, float], tuple[float, float]]) -> None:
    """One line with its band; `place` maps a round and a value to the axes."""
    style, points = line.style, line.points.items()
    at = [place(number, point.value) for number, point in points]
    x, y = [x for x, _ in at], [y for _, y in at]
    if any(point.standard_error for _, point in points):
        low = [place(number, point.value - (point.standard_error or 0.0))[1] for number, point in points]
        high = [place(number, point.value + (point.standard_error or 0.0))[1] for number, point in points]
        if len(x) == 1:
            axes.vlines(x, low, high, color=style.colour, alpha=0.4, linewidth=4)
        else:
            axes.fill_between(x, low, high, color=style.colour, alpha=0.13, linewidth=0)
    marker = style.marker if len(x) <= _MARKED_ROUNDS else None
    axes.plot(x, y, color=style.colour, linestyle=style.dash, linewidth=1.6, marker=marker, markersize=3.6)
    if line.left and line.measured:
        x_end, y_end = place(max(line.measured), line.measured[max(line.measured)].value)
        axes.plot([x_end], [y_end], marker="X", markersize=9, color=style.colour, markeredgecolor=PAPER)


def _extent(lines: Mapping[str, _Line]) -> dict[int, tuple[float, float]]:
    """The lowest and the highest value of all clients in each round."""
    by_round: dict[int, list[float]] = {}
    for line in lines.values():
        for round_number, point in line.measured.items():
            by_round.setdefault(round_number, []).append(point.value)
    return {number: (min(by_round[number]), max(by_round[number])) for number in sorted(by_round)}


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
