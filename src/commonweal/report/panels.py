"""What all figures share: size, quiet axes, an axis of rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commonweal.report.drawing import figure_class
from commonweal.report.number_text import number
from commonweal.report.palette import GRID, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE, NARROW = 720.0, 360.0  # points; on a page one point is one pixel at the narrowest
TEXT_SIZE = 10.0


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many points."""
    figure: Figure = figure_class()(figsize=(width / 72, height / 72), layout="constrained")
    return figure


def blank_figure(width: float, why: str) -> Figure:
    """A figure with nothing to show, which says so."""
    figure = new_figure(width, 90.0)
    figure.text(0.5, 0.5, why, ha="center", va="center", fontsize=TEXT_SIZE, color=MUTED)
    return figure


def quiet(axes: Axes) -> None:
    """Little ink for what is not data."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.tick_params(colors=MUTED, labelsize=TEXT_SIZE, length=0)
    axes.set_axisbelow(True)


def round_axis(axes: Axes, last_round: int) -> None:
    """Whole rounds from the first to the last."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(0.7 if last_round > 1 else 0.5, last_round + (0.03 * last_round if last_round > 1 else 0.5))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, steps=[1, 2, 5, 10]))
    axes.set_xlabel("round", fontsize=TEXT_SIZE, color=MUTED)
    axes.grid(axis="y", color=GRID, linewidth=0.8)


def percent_text(value: float) -> str:
    return f"{100 * value:.0f} %"


def amount_text(value: float) -> str:
    return number(float(f"{value:.6g}"), signed=True)
