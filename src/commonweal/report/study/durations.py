"""How long each client took part, at each mu of the grid: a panel an experiment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from commonweal.records.study import ExperimentStudy
from commonweal.report.palette import GRID, INK, MUTED, client_styles
from commonweal.report.panels import TEXT_SIZE, WIDE, quiet
from commonweal.report.shown_names import shortened
from commonweal.report.study.mu_text import mu_text
from commonweal.report.study.panel_grid import LETTER, SMALL, legend_below, legend_height, panel_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BASELINES = {"0": "least\nlenient", "inf": "most\nlenient"}
_BETWEEN = 5.0  # points between two labels


def durations(experiments: Sequence[ExperimentStudy], width: float) -> Figure:
    """A line a client; bars are the intervals. Clients stand a little apart so that their bars do not hide another."""
    panel_width = width / 2 if len(experiments) > 1 and width >= WIDE else width
    legend = max(legend_height(_names(experiment), panel_width) for experiment in experiments)
    figure, panels = panel_grid(experiments, width, height=225.0, legend=legend)
    for axes, experiment in zip(panels, experiments, strict=True):
        _panel(axes, experiment, panel_width)
    return figure


def _names(experiment: ExperimentStudy) -> list[str]:
    return [shortened(client, 20) for client in experiment.clients]


def _labelled(labels: Sequence[str], apart: float) -> list[int]:
    """The places whose labels fit side by side if places lie so many points apart: both ends, and what fits between."""
    half = [max(map(len, label.split("\n"))) * LETTER / 2 for label in labels]
    inner = max(half[1:-1], default=0.0)  # one for all, so that labels come at equal steps

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
