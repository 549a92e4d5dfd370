"""Welfare against fairness along mu: the trade-off between them, and which mu is recommended."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING

from commonweal.records.study import ExperimentStudy, Interval, Recommendation
from commonweal.report.drawing import TEXT_SIZE, WIDE, amount_text, quiet
from commonweal.report.palette import GRID, INK, MUTED, PAPER, RETAINED, mu_styles
from commonweal.report.study.panel_grid import SMALL, panel_grid, wrapped
from commonweal.report.study.text import NO_RECOMMENDATION, leaves_unit_interval, mu_text, recommendation_sentence
from commonweal.report.text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RECOMMENDED = "*"
_LABELS = 12  # of the grid's μ; more labels would overlap

Box = tuple[float, float, float, float]  # left, bottom, right, top

_DIRECTIONS = [math.radians(angle) for angle in (90, 270, 0, 180, 45, 135, 225, 315)]
_DISTANCES = (10.0, 18.0, 28.0, 40.0)


def frontier(experiments: Sequence[ExperimentStudy], width: float) -> Figure:
    """Points are the grid's μ and the line is the whole axis. Each star is a recommendation, explained below the panel.

    All means of a panel are over the same replications: those that covered the whole axis, if there are any.
    """
    panel_width = width / 2 if len(experiments) > 1 and width >= WIDE else width
    sentences = [_sentences(experiment, panel_width) for experiment in experiments]
    below = max(12.5 * (text.count("\n") + 1) + 8 if text else 0.0 for text in sentences)
    figure, panels = panel_grid(experiments, width, height=200.0, legend=below)
    for axes, experiment, text in zip(panels, experiments, sentences, strict=True):
        _panel(axes, experiment)
        axes.annotate(
            text, (0, 0), (0, -36), xycoords="axes fraction", textcoords="offset points", va="top", fontsize=SMALL,
            color=INK, annotation_clip=False,
        )  # fmt: skip
    figure.draw_without_rendering()  # fixes the positions of the points
    for axes, experiment in zip(panels, experiments, strict=True):
        _labels(axes, experiment)
    return figure


def sample(experiment: ExperimentStudy) -> str:
    """ "12 replications with the whole axis"."""
    if experiment.steps:
        return f"{counted(experiment.axis_replication_count, 'replication')} with the whole axis"
    return counted(experiment.replication_count, "replication")


def _sentences(experiment: ExperimentStudy, width: float) -> str:
    lines = wrapped(f"Means over {sample(experiment)}.", width - 90)
    if _is_unfit(experiment):
        lines += wrapped(f"{NO_RECOMMENDATION}.", width - 90)
    for letter, recommendation in zip(string.ascii_lowercase, recommendations(experiment), strict=False):
        first, *rest = wrapped(recommendation_sentence(recommendation), width - 90)
        lines += [f"{letter}\u2003{first}", *(f"\u2003\u2002{line}" for line in rest)]  # a page would collapse spaces
    return "\n".join(lines)


def _panel(axes: Axes, experiment: ExperimentStudy) -> None:
    if experiment.steps:
        along = [(step.tsfi.value, step.tsw.value) for step in experiment.steps]
        axes.plot(*zip(*along, strict=True), color=MUTED, linewidth=1, alpha=0.7)
    points = _grid_points(experiment)
    styles = mu_styles(list(points))
    for mu, (fairness, welfare) in points.items():
        style = styles[mu]
        axes.hlines(welfare.value, fairness.lower, fairness.upper, color=style.colour, linewidth=1.2, alpha=0.35)
        axes.vlines(fairness.value, welfare.lower, welfare.upper, color=style.colour, linewidth=1.2, alpha=0.35)
        axes.plot(
            [fairness.value], [welfare.value], marker=style.marker or ("s" if mu else "X"), color=style.colour,
            markersize=6.5 if style.marker else 8, markeredgecolor=PAPER, zorder=3,
        )  # fmt: skip
    for fairness_value, welfare_value in _recommended(experiment):
        axes.plot(
            [fairness_value], [welfare_value], marker=_RECOMMENDED, markersize=13, color=RETAINED,
            markeredgecolor=PAPER, zorder=4,
        )  # fmt: skip
    quiet(axes)
    axes.margins(0.1)
    axes.grid(color=GRID, linewidth=0.8)
    axes.locator_params(nbins=5)
    axes.yaxis.set_major_formatter(lambda value, _: amount_text(value))
    axes.set_xlabel("final TSFI", fontsize=TEXT_SIZE, color=MUTED)
    axes.set_ylabel("final TSW", fontsize=TEXT_SIZE, color=MUTED)


def _grid_points(experiment: ExperimentStudy) -> dict[float, tuple[Interval, Interval]]:
    """Final TSFI and TSW at each μ of the grid, over the same replications as the line."""
    if not experiment.steps:
        return {outcome.mu: (outcome.tsfi[-1], outcome.tsw[-1]) for outcome in experiment.outcomes}
    return {
        outcome.mu: (step.tsfi, step.tsw)
        for outcome in experiment.outcomes
        for step in experiment.steps
        if outcome.mu in step.mus
    }


def _is_unfit(experiment: ExperimentStudy) -> bool:
    return leaves_unit_interval(step.tsfi.value for step in experiment.steps)


def recommendations(experiment: ExperimentStudy) -> Sequence[Recommendation]:
    return () if _is_unfit(experiment) else experiment.recommendations


def _recommended(experiment: ExperimentStudy) -> dict[tuple[float, float], str]:
    """Letters by position; several targets may lead to the same μ."""
    letters: dict[tuple[float, float], str] = {}
    for letter, recommendation in zip(string.ascii_lowercase, recommendations(experiment), strict=False):
        if recommendation.step is not None:
            place = (recommendation.step.tsfi.value, recommendation.step.tsw.value)
            letters[place] = f"{letters[place]}, {letter}" if place in letters else letter
    return letters


def _labels(axes: Axes, experiment: ExperimentStudy) -> None:
    """Letters of the recommendations, then the grid's μ; if there are very many, some at equal steps and the last."""
    recommended = _recommended(experiment)
    grid = {mu: (fairness.value, welfare.value) for mu, (fairness, welfare) in _grid_points(experiment).items()}
    mus = list(grid)
    labelled = [*mus[: -1 : max(math.ceil(len(mus) / _LABELS), 1)], *mus[-1:]]
    labels = [*recommended.values(), *map(mu_text, labelled)]
    points = [*recommended, *(grid[mu] for mu in labelled)]
    to_points = 72 / axes.figure.dpi
    box = axes.get_window_extent()
    offsets = label_offsets(
        [tuple(to_points * part for part in axes.transData.transform(point)) for point in points],
        [(5.8 * len(label) + 3, 11.0) for label in labels],
        inside=(to_points * box.x0, to_points * box.y0, to_points * box.x1, to_points * box.y1),
    )
    leader = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.6, "shrinkA": 4, "shrinkB": 3}
    for place, (label, point, offset) in enumerate(zip(labels, points, offsets, strict=True)):
        starred = place < len(recommended)
        far = math.hypot(*offset) > 17
        axes.annotate(
            label, point, offset, textcoords="offset points", ha="center", va="center", fontsize=SMALL, zorder=5,
            color=RETAINED if starred else INK, fontweight="bold" if starred else "normal",
            bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.75, "pad": 0.4},
            arrowprops=leader if far else None,
        )  # fmt: skip


def label_offsets(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    *,
    inside: Box,
    avoid: Sequence[tuple[float, float]] = (),
) -> list[tuple[float, float]]:
    """Offsets, in points, from each point to the middle of its label; labels should hide neither points nor each other.

    Greedy, in the given order: each label takes the nearest place that hides the least.
    """
    taken = [_box(x, y, 7.0, 7.0) for x, y in (*points, *avoid)]
    offsets = []
    for (x, y), (width, height) in zip(points, sizes, strict=True):
        best: tuple[float, float, float] | None = None
        for distance in _DISTANCES:
            for direction in _DIRECTIONS:
                dx = math.cos(direction) * (distance + width / 2 - 5)
                dy = math.sin(direction) * distance
                box = _box(x + dx, y + dy, width, height)
                hidden = sum(_overlap(box, other) for other in taken) + 3 * _outside(box, inside)
                if best is None or hidden + distance < best[0]:
                    best = (hidden + distance, dx, dy)
        assert best is not None
        offsets.append(best[1:])
        taken.append(_box(x + best[1], y + best[2], width, height))
    return offsets


def _box(x: float, y: float, width: float, height: float) -> Box:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _overlap(one: Box, other: Box) -> float:
    """In square points."""
    across = min(one[2], other[2]) - max(one[0], other[0])
    along = min(one[3], other[3]) - max(one[1], other[1])
    return across * along if across > 0 and along > 0 else 0.0


def _outside(box: Box, inside: Box) -> float:
    area = (box[2] - box[0]) * (box[3] - box[1])
    return area - _overlap(box, inside)
