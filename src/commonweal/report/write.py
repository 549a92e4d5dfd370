"""Everything a reader is given of a federation, into one folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from commonweal.atomic_write import write_atomically
from commonweal.errors import InputError
from commonweal.records import Chronicle
from commonweal.report.drawing import rendered
from commonweal.report.figures import Picture, pictures
from commonweal.report.history_json import write_history
from commonweal.report.html import write_report
from commonweal.report.palette import INK
from commonweal.report.panels import WIDE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TITLE_HEIGHT = 24.0  # points


def write_all(chronicle: Chronicle, directory: Path) -> list[Path]:
    """Write history.json, report.html and figures/*.png, *.svg into an existing folder; returns what was written."""
    if not directory.is_dir():
        raise InputError(f"the report's folder must exist, got {str(directory)!r}; create it first")
    history, report = directory / "history.json", directory / "report.html"
    write_history(chronicle, history)
    write_report(chronicle, report)
    return [history, report, *write_figures(chronicle, directory / "figures")]


def write_figures(chronicle: Chronicle, directory: Path) -> list[Path]:
    """Write each figure of a chronicle as PNG and SVG; the folder is made."""
    return write_pictures(pictures(chronicle), directory)


def write_pictures(shown: Iterable[Picture], directory: Path) -> list[Path]:
    """Write each picture as PNG and SVG; the folder is made."""
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the figures' folder must be writable, got {error.strerror} for {str(directory)!r}; choose another place"
        ) from None
    written = []
    for picture in shown:
        for kind in ("png", "svg"):
            path = directory / f"{picture.name}.{kind}"
            content = rendered(lambda drawn=picture: _titled(drawn), kind, name=picture.name)  # type: ignore[misc]
            write_atomically(path, content, what="the picture")
            written.append(path)
    return written


def _titled(picture: Picture) -> Figure:
    """On a page the heading is the title; a file goes out alone."""
    figure = picture.draw(WIDE)
    figure.set_figheight(figure.get_figheight() + _TITLE_HEIGHT / 72)
    figure.suptitle(picture.title, x=0.01, ha="left", fontsize=11, color=INK)
    return figure
