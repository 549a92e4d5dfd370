"""Matplotlib without pyplot and its process-wide state: the same plot gives the same bytes."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from commonweal.errors import InputError
from commonweal.report.palette import GRID, INK, MUTED
from commonweal.report.text import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE, NARROW = 720.0, 360.0  # points; on a page one point is one pixel at the narrowest
TEXT_SIZE = 10.0
_TITLE_HEIGHT = 24.0  # points


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot that can be drawn at several widths."""

    name: str
    title: str
    draw: Callable[[float], Figure]  # from a width in points

    def titled(self) -> Figure:
        """For a file of its own; on a page the heading is the title."""
        figure = self.draw(WIDE)
        figure.set_figheight(figure.get_figheight() + _TITLE_HEIGHT / 72)
        figure.suptitle(self.title, x=0.01, ha="left", fontsize=11, color=INK)
        return figure


def figure_class() -> Any:
    """matplotlib's Figure, or an error that says how to get it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("Plots need matplotlib, which is not installed: pip install 'commonweal[plot]'.") from None
    return Figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; width and height are in points."""
    figure: Figure = figure_class()(figsize=(width / 72, height / 72), layout="constrained")
    return figure


def blank_figure(width: float, why: str) -> Figure:
    """A figure that says why it has nothing to show."""
    figure = new_figure(width, 90.0)
    figure.text(0.5, 0.5, why, ha="center", va="center", fontsize=TEXT_SIZE, color=MUTED)
    return figure


def quiet(axes: Axes) -> None:
    """Mute axes and ticks, so that the data stand out."""
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


def amount_text(value: float) -> str:
    return number(float(f"{value:.6g}"), signed=True)


def rendered(make: Callable[[], Figure], kind: str, *, name: str = "commonweal", transparent: bool = False) -> bytes:
    """The figure as a PNG, SVG or PDF file; the same figure gives the same bytes.

    `name` keeps the identifiers inside an SVG apart from those of other figures on a page. Text in an SVG stays text:
    it can be searched, read aloud, and drawn in any script that the reader's machine has.
    """
    (file,) = rendered_as([kind], make, name=name, transparent=transparent)
    return file


def rendered_as(
    kinds: Iterable[str], make: Callable[[], Figure], *, name: str, transparent: bool = False
) -> list[bytes]:
    """The figure as a file of each kind. The layout is computed once, which takes longer than a file."""
    figure_class()
    with _fixed_style(name), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a PNG shows a box instead
        figure = make()
        _fix_layout(figure)
        return [_saved(figure, kind, transparent=transparent) for kind in kinds]


def _fix_layout(figure: Figure) -> None:
    """Round the panels' places to a millionth: the last digits of the layout solver differ between runs."""
    engine = figure.get_layout_engine()
    if engine is not None and figure.axes:
        engine.execute(figure)
    figure.set_layout_engine(None)  # with an engine, even "none", every file would be drawn twice
    for axes in figure.axes:
        left, bottom, width, height = axes.get_position(original=True).bounds
        axes.set_position((round(left, 6), round(bottom, 6), round(width, 6), round(height, 6)))


def _saved(figure: Figure, kind: str, *, transparent: bool) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, dpi=150, metadata=_METADATA.get(kind), transparent=transparent)
    return file.getvalue()


_INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color")
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


@contextmanager
def _fixed_style(name: str) -> Iterator[None]:
    """Matplotlib's defaults, whatever the user's own settings are; those are restored afterwards."""
    import matplotlib.style

    ours: dict[Any, Any] = {
        "svg.hashsalt": name,
        "svg.fonttype": "none",
        "text.parse_math": False,  # a dollar sign in a client's name must not start a formula
        **dict.fromkeys(_INKED, INK),
    }
    with matplotlib.style.context("default"), matplotlib.rc_context(ours):
        yield
