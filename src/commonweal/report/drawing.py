"""Matplotlib without pyplot and its process-wide state, and without anything that would differ between two runs."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from commonweal.errors import InputError
from commonweal.report.palette import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure_class() -> Any:
    """matplotlib's Figure, or the way to get it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(
            "drawing needs matplotlib, which is not installed; install it with: pip install 'commonweal[plot]'"
        ) from None
    return Figure


def rendered(make: Callable[[], Figure], kind: str, *, name: str = "commonweal", transparent: bool = False) -> bytes:
    """The figure as a PNG, SVG or PDF file; the same figure gives the same bytes.

    `name` keeps the identifiers inside an SVG apart from those of other figures on a page. Text in SVG stays text:
    it is found by a search, read aloud, and drawn in any script that the reader's machine has.
    """
    figure_class()
    with _settled_style(name), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # in a PNG shown as a box
        file, figure = io.BytesIO(), make()
        _settle_layout(figure)
        figure.savefig(file, format=kind, dpi=150, metadata=_METADATA.get(kind), transparent=transparent)
        return file.getvalue()


def _settle_layout(figure: Figure) -> None:
    """Panels where the layout puts them, to a millionth: its solver's last digits differ from one run to the next."""
    if len(figure.axes) > 1:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for axes in figure.axes:
            left, bottom, width, height = axes.get_position(original=True).bounds
            axes.set_position((round(left, 6), round(bottom, 6), round(width, 6), round(height, 6)))


_INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color")
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


@contextmanager
def _settled_style(name: str) -> Iterator[None]:
    """Matplotlib's defaults, whatever the user's own settings are, and put back afterwards."""
    import matplotlib.style

    ours: dict[Any, Any] = {
        "svg.hashsalt": name,
        "svg.fonttype": "none",
        "text.parse_math": False,  # a dollar sign in a client's name starts no formula
        **dict.fromkeys(_INKED, INK),
    }
    with matplotlib.style.context("default"), matplotlib.rc_context(ours):
        yield
