"""Panels of experiments side by side, each below its name and the note on its data, with legends outside."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from commonweal.records.study import ExperimentStudy
from commonweal.report.drawing import TEXT_SIZE, WIDE, new_figure
from commonweal.report.palette import INK, MUTED, LineStyle, mu_styles
from commonweal.report.study.text import mu_label, rule_note
from commonweal.report.text import shortened, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMALL = TEXT_SIZE - 0.5
LETTER = 5.1  # mean width of a letter of the small text, in points


def panel_grid(
    experiments: Sequence[ExperimentStudy], width: float, *, height: float, legend: float = 0.0
) -> tuple[Figure, list[Axes]]:
    """One panel per experiment, two side by side where there is space; `legend` is the height of each legend."""
    columns = 2 if len(experiments) > 1 and width >= WIDE else 1
    rows = math.ceil(len(experiments) / columns)
    panel_width = width / columns
    tallest = max(_heading_height(experiment, panel_width) for experiment in experiments)
    figure = new_figure(width, rows * (height + tallest + legend))
    grid = figure.subplots(rows, columns, squeeze=False)
    panels = list(grid.flat)
    for spare in panels[len(experiments) :]:
        spare.set_axis_off()
    for axes, experiment in zip(panels, experiments, strict=False):
        heading(axes, experiment, panel_width)
    return figure, panels[: len(experiments)]


def heading(axes: Axes, experiment: ExperimentStudy, panel_width: float) -> None:
    """The experiment's name, and below it the note on its data."""
    note = "\n".join(note_lines(experiment, panel_width))
    axes.set_title(
        name_of(experiment), loc="left", fontsize=TEXT_SIZE, fontweight="bold", color=INK, pad=8 + note_height(note)
    )
    if note:
        axes.annotate(
            note, (0, 1), (0, 5), xycoords="axes fraction", textcoords="offset points", fontsize=SMALL, color=MUTED,
            va="bottom",
        )  # fmt: skip


def name_of(experiment: ExperimentStudy) -> str:
    return f"{shortened(experiment.name, 40)}{rule_note(experiment.contribution_rule)}"


def note_lines(experiment: ExperimentStudy, panel_width: float) -> list[str]:
    return wrapped(experiment.data_note, panel_width - 70)


def wrapped(words: str, width: float) -> list[str]:
    """Small text, wrapped into lines of at most `width` points."""
    return textwrap.wrap(shown(words), max(int(width / LETTER), 12))


def note_height(note: str) -> float:
    return 12.5 * (note.count("\n") + 1) if note else 0.0


def _heading_height(experiment: ExperimentStudy, panel_width: float) -> float:
    return 24 + 12.5 * len(note_lines(experiment, panel_width))


def legend_below(axes: Axes, entries: Sequence[tuple[str, LineStyle]], *, width: float, drop: float) -> None:
    """The legend of one panel, `drop` points below its axis."""
    from matplotlib.transforms import ScaledTranslation

    figure = axes.get_figure()
    assert figure is not None
    axes.legend(
        handles=[_handle(label, style) for label, style in entries], loc="upper center", bbox_to_anchor=(0.5, 0),
        bbox_transform=axes.transAxes + ScaledTranslation(0, -drop / 72, figure.dpi_scale_trans),
        ncols=_columns([label for label, _ in entries], width), **_QUIET,
    )  # fmt: skip


def legend_height(labels: Sequence[str], width: float) -> float:
    return 14.5 * math.ceil(len(labels) / _columns(labels, width)) + 6


def mu_legend(figure: Figure, mus: Sequence[float], *, width: float) -> None:
    """The legend of a whole figure with a line per μ, at the bottom."""
    entries = [(f"mu = {mu_label(mu)}", style) for mu, style in mu_styles(mus).items()]
    figure.legend(
        handles=[_handle(label, style) for label, style in entries], loc="outside lower center",
        ncols=_columns([label for label, _ in entries], width), **_QUIET,
    )  # fmt: skip


def mu_legend_height(mus: Sequence[float], width: float) -> float:
    return legend_height([f"mu = {mu_label(mu)}" for mu in mus], width)


_QUIET: dict[str, Any] = {
    "frameon": False, "fontsize": SMALL, "handlelength": 2.6, "columnspacing": 1.4, "labelspacing": 0.35,
    "handletextpad": 0.6, "borderaxespad": 0.2,
}  # fmt: skip


def _columns(labels: Sequence[str], width: float) -> int:
    """As many columns as fit, with rows of about equal length."""
    widest = 48 + LETTER * max(map(len, labels))
    fitting = max(1, min(len(labels), int((width - 24) / widest)))
    return math.ceil(len(labels) / math.ceil(len(labels) / fitting))


def _handle(label: str, style: LineStyle) -> Any:
    from matplotlib.lines import Line2D

    return Line2D(
        [], [], color=style.colour, linestyle=style.dash, linewidth=1.8, marker=style.marker, markersize=4.2,
        label=label,
    )  # fmt: skip
