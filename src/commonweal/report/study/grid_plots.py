"""Plots over the grid of mu: how long each client took part, and welfare and fairness after each round."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from commonweal.records.study import ExperimentStudy, Interval, MuOutcome
from commonweal.report.drawing import TEXT_SIZE, WIDE, amount_text, quiet, round_axis
from commonweal.report.palette import GRID, INK, MUTED, ZERO, client_styles, mu_styles
from commonweal.report.study.panel_grid import (
    LETTER,
    SMALL,
    legend_below,
    legend_height,
    mu_legend,
    mu_legend_height,
    panel_grid,
)
from commonweal.report.study.text import leaves_unit_interval, mu_text
from commonweal.report.text import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BASELINES = {"0": "least\nlenient", "inf": "most\nlenient"}
_BETWEEN = 5.0  # points between two labels


def durations(experiments: Sequence[ExperimentStudy], width: float) -> Figure:
    """A panel per experiment, a line per client. Clients are offset a little, so that intervals do not overlap."""
    panel_width = width / 2 if len(experiments) > 1 and width >= WIDE else width
    legend = max(legend_height(_names(experiment), panel_width) for experiment in experiments)
    figure, panels = panel_grid(experiments, width, height=225.0, legend=legend)
    for axes, experiment in zip(panels, experiments, strict=True):
        _panel(axes, experiment, panel_width)
    return figure


def _names(experiment: ExperimentStudy) -> list[str]:
    return [shortened(client, 20) for client in experiment.clients]


def _labelled(labels: Sequence[str], apart: float) -> list[int]:
    """The positions, `apart` points apart, whose labels fit side by side: both ends, and what fits between."""
    half = [max(map(len, label.split("\n"))) * LETTER / 2 for label in labels]
    inner = max(half[1:-1], default=0.0)  # the same for all, so that labels are evenly spaced

    def reach(place: int) -> float:
        return half[place] if place in (0, len(labels) - 1) else inner

    last = len(labels) - 1
    chosen = [0]
    for place in range(1, last):
        after_chosen = (place - chosen[-1]) * apart - reach(place) - reach(chosen[-1])
        before_last = (last - place) * apart - reach(place) - reach(last)
        if min(after_chosen, before_last) >= _BETWEEN:
            chosen.append(place)
    return chosen if last == 0 else [*chosen, last]


def _panel(axes: Axes, experiment: ExperimentStudy, width: float) -> None:
    styles = client_styles(experiment.clients)
    spread = min(0.44, 0.11 * (len(experiment.clients) - 1))
    for place, client in enumerate(experiment.clients):
        offset = spread * (place / max(len(experiment.clients) - 1, 1) - 0.5)
        at = [position + offset for position in range(len(experiment.outcomes))]
        means = [outcome.durations[client] for outcome in experiment.outcomes]
        values = [mean.value for mean in means]
        style = styles[client]
        finite = sum(math.isfinite(outcome.mu) for outcome in experiment.outcomes)  # infinity is a point of its own
        axes.plot(at[:finite], values[:finite], color=style.colour, linestyle=style.dash, linewidth=1, alpha=0.55)
        axes.vlines(at, [mean.lower for mean in means], [mean.upper for mean in means], color=style.colour, linewidth=2)
        axes.plot(at, values, color=style.colour, linestyle="none", marker=style.marker, markersize=4.6)
    ticks = [mu_text(outcome.mu) for outcome in experiment.outcomes]
    for position, tick in enumerate(ticks):
        if tick in _BASELINES:
            axes.axvspan(position - 0.5, position + 0.5, color=GRID, alpha=0.55, linewidth=0, zorder=0)
    quiet(axes)
    labels = [f"{tick}\n{_BASELINES[tick]}" if tick in _BASELINES else tick for tick in ticks]
    labelled = _labelled(labels, (width - 70) / len(labels))
    axes.set_xticks(labelled, [labels[place] for place in labelled], color=INK)
    axes.tick_params(axis="x", labelsize=SMALL)
    axes.set_xlim(-0.5, len(ticks) - 0.5)
    axes.set_ylim(0, experiment.round_count * 1.04)
    axes.locator_params(axis="y", integer=True, nbins=6)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_xlabel("mu", fontsize=TEXT_SIZE, color=MUTED, labelpad=-21 if set(ticks) & set(_BASELINES) else 3)
    axes.set_ylabel("duration, in rounds", fontsize=TEXT_SIZE, color=MUTED)
    entries = list(zip(_names(experiment), styles.values(), strict=True))
    legend_below(axes, entries, width=width, drop=46)


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
