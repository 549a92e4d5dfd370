"""Welfare and fairness after each round, a line for each mu of the grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from commonweal.records.study import ExperimentStudy, Interval, MuOutcome
from commonweal.report.palette import MUTED, ZERO, mu_styles
from commonweal.report.panels import TEXT_SIZE, amount_text, quiet, round_axis
from commonweal.report.study.mu_text import leaves_unit_interval
from commonweal.report.study.panel_grid import mu_legend, mu_legend_height, panel_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def tsw_over_rounds(experiments: Sequence[ExperimentStudy], width: float) -> Figure:
    figure, panels = _lines(experiments, width, lambda outcome: outcome.tsw, "TSW, in units of utility")
    for axes in panels:
        axes.set_ylim(min(axes.get_ylim()[0], 0.0), max(axes.get_ylim()[1], 0.0))
        axes.axhline(0, color=ZERO, linewidth=1)
        axes.yaxis.set_major_formatter(lambda value, _: amount_text(value))
    return figure


def tsfi_over_rounds(experiments: Sequence[ExperimentStudy], width: float) -> Figure:
    series = [o.tsfi for experiment in experiments for o in experiment.outcomes]
    meaning = "TSFI" if leaves_unit_interval(t.value for tsfi in series for t in tsfi) else "TSFI, at best 1"
    figure, panels = _lines(experiments, width, lambda outcome: outcome.tsfi, meaning)
    for axes in panels:
        low, high = axes.get_ylim()
        axes.set_ylim(low, max(high, 1 + 0.03 * (1 - low)))
    return figure


def _lines(
    experiments: Sequence[ExperimentStudy],
    width: float,
    series: Callable[[MuOutcome], Sequence[Interval]],
    meaning: str,
) -> tuple[Figure, list[Axes]]:
    mus = sorted({outcome.mu for experiment in experiments for outcome in experiment.outcomes})
    styles = mu_styles(mus)
    figure, panels = panel_grid(
        experiments, width, height=200.0, legend=mu_legend_height(mus, width) / len(experiments)
    )
    for axes, experiment in zip(panels, experiments, strict=True):
        rounds = range(1, experiment.round_count + 1)
        for outcome in experiment.outcomes:
            style, totals = styles[outcome.mu], series(outcome)
            low, high = [total.lower for total in totals], [total.upper for total in totals]
            axes.fill_between(rounds, low, high, color=style.colour, alpha=0.13, linewidth=0)
        for outcome in experiment.outcomes:
            style = styles[outcome.mu]
            baseline = outcome.mu == 0 or math.isinf(outcome.mu)
            axes.plot(
                rounds, [total.value for total in series(outcome)], color=style.colour, linestyle=style.dash,
                linewidth=2 if baseline else 1.5, marker=style.marker, markersize=3.2, zorder=3 if baseline else 2,
            )  # fmt: skip
        quiet(axes)
        round_axis(axes, experiment.round_count)
        axes.set_ylabel(meaning, fontsize=TEXT_SIZE, color=MUTED)
    mu_legend(figure, mus, width=width)
    return figure, panels
