"""An experiment's outcome over the whole axis of mu: step functions, with infinity as a point of its own."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from commonweal.records.study import ExperimentStudy, Interval, MuStep
from commonweal.report.drawing import TEXT_SIZE, WIDE, amount_text, new_figure, quiet
from commonweal.report.palette import GRID, INK, MUTED, RETAINED, LineStyle, client_styles
from commonweal.report.study.panel_grid import SMALL, heading, legend_below, legend_height, note_lines
from commonweal.report.study.text import mu_text
from commonweal.report.text import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 400  # finer steps cannot be seen, and only make the file larger
_DECADES_SHOWN = 6
_BELOW = 0.02  # share of the breakpoints that may lie below the first decade
_ISOLATED = 0.09  # distance of infinity, relative to the finite axis


@dataclass(frozen=True, slots=True, kw_only=True)
class MuScale:
    """An axis for all μ: 0 at its left end, linear up to `first`, logarithmic up to `last`, and infinity apart."""

    first: float
    last: float

    def place(self, mu: float) -> float:
        if math.isinf(mu):
            return self.end * (1 + _ISOLATED)
        if mu <= self.first:
            return mu / self.first
        return min(1 + math.log10(mu / self.first), self.end)

    @property
    def end(self) -> float:
        """Where the finite part ends."""
        return 1 + math.log10(self.last / self.first)

    @property
    def limits(self) -> tuple[float, float]:
        return -0.03 * self.end, self.end * (1 + 1.5 * _ISOLATED)

    @property
    def ticks(self) -> tuple[float, ...]:
        """0, whole decades, infinity."""
        decades = range(round(math.log10(self.first)), math.floor(math.log10(self.last) + 1e-9) + 1)
        return (0.0, *(10.0**decade for decade in decades), math.inf)


def scale_for(steps: Sequence[MuStep]) -> MuScale:
    """The decades in which the breakpoints lie, except for a few close to 0."""
    breakpoints = sorted(step.mus.upper for step in steps if 0 < step.mus.upper < math.inf)
    if not breakpoints:
        return MuScale(first=0.01, last=1.0)
    top = math.ceil(math.log10(breakpoints[-1] * 1.2))
    low = math.floor(math.log10(breakpoints[math.floor(_BELOW * len(breakpoints))]))
    low = min(max(low, top - _DECADES_SHOWN), top - 1)
    return MuScale(first=10.0**low, last=10.0**top)


def over_mu(experiment: ExperimentStudy, width: float) -> Figure:
    """Durations by client, final TSW and final TSFI, one above the other."""
    scale = scale_for(experiment.steps)
    styles = client_styles(experiment.clients)
    names = [shortened(client, 20) for client in experiment.clients]
    heights = [170.0, 120.0, 120.0]
    extra = 34 + 12.5 * len(note_lines(experiment, width)) + legend_height(names, width) + 44
    figure = new_figure(width, sum(heights) + extra)
    durations, tsw, tsfi = figure.subplots(3, 1, height_ratios=heights)
    heading(durations, experiment, width)
    for client, style in styles.items():
        _steps(durations, experiment.steps, lambda step, of=client: step.durations[of], scale, style)  # type: ignore[misc]
    plain = LineStyle(colour=RETAINED, dash="-", marker="o")
    _steps(tsw, experiment.steps, lambda step: step.tsw, scale, plain)
    _steps(tsfi, experiment.steps, lambda step: step.tsfi, scale, plain)
    for axes, meaning in ((durations, "duration, in rounds"), (tsw, "final TSW"), (tsfi, "final TSFI")):
        _mu_axis(axes, scale, narrow=width < WIDE)
        axes.set_ylabel(meaning, fontsize=TEXT_SIZE, color=MUTED)
    durations.set_ylim(0, experiment.round_count * 1.04)
    durations.locator_params(axis="y", integer=True, nbins=6)
    legend_below(
        durations, list(zip(names, styles.values(), strict=True)), width=width, drop=34 if width >= WIDE else 46
    )
    tsw.locator_params(axis="y", nbins=5)
    tsw.yaxis.set_major_formatter(lambda value, _: amount_text(value))
    tsfi.locator_params(axis="y", nbins=5)
    tsfi.set_xlabel("mu (leniency)", fontsize=TEXT_SIZE, color=MUTED)
    figure.align_ylabels([durations, tsw, tsfi])
    return figure


def _steps(
    axes: Axes, steps: Sequence[MuStep], figure_of: Callable[[MuStep], Interval], scale: MuScale, style: LineStyle
) -> None:
    """Flat pieces with bands; a point for 0 and one for infinity."""
    finite = [step for step in steps if math.isfinite(step.mus.lower) and step.mus.upper > step.mus.lower]
    edges, shown = _seen(finite, scale)
    means = [figure_of(step) for step in shown]
    low, high = [mean.lower for mean in means], [mean.upper for mean in means]
    axes.fill_between(
        edges, [*low, low[-1]], [*high, high[-1]], step="post", color=style.colour, alpha=0.16, linewidth=0
    )
    values = [mean.value for mean in means]
    axes.plot(
        edges, [*values, values[-1]], drawstyle="steps-post", color=style.colour, linestyle=style.dash, linewidth=1.5
    )
    for mu in (0.0, math.inf):
        for mean in (figure_of(step) for step in steps if mu in step.mus):
            at = scale.place(mu)
            axes.vlines(at, mean.lower, mean.upper, color=style.colour, linewidth=2, alpha=0.6)
            axes.plot([at], [mean.value], color=style.colour, marker=style.marker, markersize=4.4)


def _seen(steps: Sequence[MuStep], scale: MuScale) -> tuple[list[float], list[MuStep]]:
    """Where pieces begin and the last one ends, and the pieces; if too many, the middle one of each column."""
    starts = [scale.place(step.mus.lower) for step in steps]
    if len(steps) <= _COLUMNS:
        return [*starts, scale.end], list(steps)
    column = scale.end / _COLUMNS
    met = [steps[bisect_right(starts, (place + 0.5) * column) - 1] for place in range(_COLUMNS)]
    return [place * column for place in range(_COLUMNS + 1)], met


def _mu_axis(axes: Axes, scale: MuScale, *, narrow: bool) -> None:
    quiet(axes)
    ticks = scale.ticks
    words = {0.0: "0\nleast lenient", math.inf: "inf\nmost lenient"}
    if narrow:
        words = {mu: label.replace(" ", "\n") for mu, label in words.items()}
    axes.set_xticks([scale.place(mu) for mu in ticks], [words.get(mu, mu_text(mu)) for mu in ticks], color=INK)
    axes.tick_params(axis="x", labelsize=SMALL)
    axes.set_xlim(*scale.limits)
    axes.grid(axis="both", color=GRID, linewidth=0.8)
