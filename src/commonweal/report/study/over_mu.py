"""An experiment's outcome against the whole axis of mu: step functions, with infinity as a point of its own."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from commonweal.records.study import ExperimentStudy, Interval, MuStep
from commonweal.report.palette import GRID, INK, MUTED, STAYS, LineStyle, client_styles
from commonweal.report.panels import TEXT_SIZE, WIDE, amount_text, new_figure, quiet
from commonweal.report.shown_names import shortened
from commonweal.report.study.mu_scale import MuScale, scale_for
from commonweal.report.study.mu_text import mu_text
from commonweal.report.study.panel_grid import SMALL, heading, legend_below, legend_height, note_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 400  # finer steps than these parts of the axis cannot be seen, only make the file large


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
    plain = LineStyle(colour=STAYS, dash="-", marker="o")
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
    """Where pieces begin and the end of the last, and the pieces; of too many, those that the columns' middles meet."""
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
