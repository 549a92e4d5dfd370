"""The figures of a comparison: welfare against fairness, and what lying pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from commonweal.records.audit import LieResult
from commonweal.records.comparison import ComparedMechanism, Comparison
from commonweal.report.comparison_text import simple_lie
from commonweal.report.drawing import TEXT_SIZE, WIDE, Plot, blank_figure, new_figure, quiet
from commonweal.report.palette import GRID, INK, MUTED, NOT_HELD, PAPER, RETAINED, ZERO, client_styles
from commonweal.report.study.panel_grid import SMALL
from commonweal.report.text import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEGEND_ROW = 16.0  # in points
_BAR_ROW = 30.0
_WIDEST = 2.5  # of the largest gain: intervals beyond are cut at the edge
_UNDEFINED = -1.3  # where a mechanism stands whose correlation is not defined


def comparison_plots(comparison: Comparison) -> list[Plot]:
    """All figures of a comparison."""
    return [
        Plot(
            name="welfare-fairness",
            title="Welfare against fairness",
            draw=lambda width: _welfare_fairness(comparison, width),
        ),
        Plot(
            name="lies",
            title="What lying pays one member, per round",
            draw=lambda width: _lies(comparison, width),
        ),
    ]


def _welfare_fairness(comparison: Comparison, width: float) -> Figure:
    """A point per mechanism, hollow if somebody who took part ends below zero."""
    rows = comparison.mechanisms
    if not rows:
        return blank_figure(width, "No mechanism could run.")
    columns = 4 if width >= WIDE else 2
    figure = new_figure(width, 330.0 + _LEGEND_ROW * -(-len(rows) // columns))
    axes = figure.subplots()
    quiet(axes)
    axes.grid(color=GRID, linewidth=0.8)
    axes.axvline(0, color=ZERO, linewidth=1)
    styles = client_styles([one.name for one in rows])
    for one in rows:
        x, y = _fairness(one), one.value("welfare") or 0.0
        style = styles[one.name]
        axes.vlines(x, *_welfare_ends(one), color=style.colour, linewidth=1, alpha=0.35)
        fairness = one.figures["fairness"]
        if fairness is not None:
            axes.hlines(y, fairness.mean.lower, fairness.mean.upper, color=style.colour, linewidth=1, alpha=0.35)
        axes.plot(
            x,
            y,
            marker=style.marker,
            color=style.colour,
            markerfacecolor=style.colour if one.value("rational_clients") == 1 else PAPER,
            markersize=7,
            markeredgewidth=1.5,
            linestyle="",
            label=shortened(one.name, 22),
        )
    ends = [value for one in rows for value in _welfare_ends(one)]
    axes.set_ylim(*_limits([one.value("welfare") or 0.0 for one in rows], ends))
    axes.set_xlim(_UNDEFINED - 0.15, 1.08)
    axes.set_xticks([_UNDEFINED, -1, -0.5, 0, 0.5, 1], ["none", "−1", "−0.5", "0", "0.5", "1"])
    size = SMALL if width < WIDE else TEXT_SIZE
    axes.set_xlabel("correlation of payoff with contribution", fontsize=size, color=MUTED)
    axes.set_ylabel("welfare of all who took part", fontsize=size, color=MUTED)
    figure.legend(loc="outside lower left", fontsize=SMALL, frameon=False, ncols=columns, handletextpad=0.3)
    return figure


def _fairness(mechanism: ComparedMechanism) -> float:
    value = mechanism.value("fairness")
    return _UNDEFINED if value is None else value


def _welfare_ends(mechanism: ComparedMechanism) -> tuple[float, float]:
    figure = mechanism.figures["welfare"]
    assert figure is not None, "welfare is always known"
    return figure.mean.lower, figure.mean.upper


def _limits(values: Sequence[float], ends: Sequence[float]) -> tuple[float, float]:
    """Wide enough for all points, and for intervals up to twice as wide as these are apart."""
    low, high = min(values), max(values)
    room = max(high - low, 0.05 * max(abs(low), abs(high)), 1e-9)
    return max(min(ends), low - room) - 0.08 * room, min(max(ends), high + room) + 0.08 * room


def _lies(comparison: Comparison, width: float) -> Figure:
    """Two bars per mechanism: the best of the lies that need no knowledge of other reports, and the best reply."""
    rows = [one for one in comparison.mechanisms if one.lies]
    if not rows:
        return blank_figure(width, "No lie could be tried.")
    found = [(simple_lie(one), _lie(one, "best-reply")) for one in rows]
    figure = new_figure(width, _BAR_ROW * len(rows) + 80)
    axes = figure.subplots()
    quiet(axes)
    gains = [lie.gain for lies in found for lie in lies if lie is not None]
    for order, (colour, label) in enumerate(
        ((NOT_HELD, "best of the simple lies"), (RETAINED, "best reply, knowing what the others report"))
    ):
        for place, lies in enumerate(found):
            lie = lies[order]
            at = place - 0.2 + 0.4 * order
            if lie is not None:
                axes.barh(at, lie.gain.value, height=0.34, color=colour)
                axes.hlines(at, lie.gain.lower, lie.gain.upper, color=INK, linewidth=1.2)
        axes.barh(-9, 0, color=colour, label=label)  # for the legend, outside the axes
    largest = max((gain.value for gain in gains), default=0.0)
    low, high = axes.get_xlim()
    if largest > 0:
        axes.set_xlim(max(low, -_WIDEST * largest), min(high, _WIDEST * largest))
    else:
        axes.set_xlim(-1, 1)
    axes.axvline(0, color=ZERO, linewidth=1)
    axes.set_yticks(range(len(rows)), [shortened(one.name, 20) for one in rows], fontsize=SMALL)
    for label_text in axes.get_yticklabels():
        label_text.set_color(INK)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_xlabel("gain per round, units of utility", fontsize=SMALL if width < WIDE else TEXT_SIZE, color=MUTED)
    _few_ticks(axes, width)
    figure.legend(loc="outside lower left", fontsize=SMALL, frameon=False, ncols=1)
    return figure


def _lie(mechanism: ComparedMechanism, name: str) -> LieResult | None:
    return next((lie for lie in mechanism.lies if lie.name == name), None)


def _few_ticks(axes: Axes, width: float) -> Any:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=7 if width >= WIDE else 4))
