"""Everything a reader is given of a federation, into one folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from commonweal.atomic_write import write_atomically
from commonweal.errors import InputError
from commonweal.records import RunReport
from commonweal.report.drawing import rendered
from commonweal.report.figures import Picture, pictures
from commonweal.report.history_json import write_history
from commonweal.report.html import write_report
from commonweal.report.palette import INK
from commonweal.report.panels import WIDE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TITLE_HEIGHT = 24.0  # points


def write_all(chronicle: RunReport, directory: Path) -> list[Path]:
    """Write history.json, report.html and figures/*.png, *.svg into an existing folder; returns what was written."""
    if not directory.is_dir():
        raise InputError(f"the report's folder must exist, got {str(directory)!r}; create it first")
    history, report = directory / "history.json", directory / "report.html"
    write_history(chronicle, history)
    write_report(chronicle, report)
    return [history, report, *write_figures(chronicle, directory / "figures")]


def write_figures(chronicle: RunReport, directory: Path) -> list[Path]:
    """Write each figure of a chronicle as PNG and SVG; the folder is made."""
    return write_images(rendered_pictures(pictures(chronicle)), directory)


def rendered_pictures(shown: Iterable[Picture]) -> dict[str, bytes]:
    """Each picture as PNG and SVG, by the name of its file."""
    return {
        f"{picture.name}.{kind}": rendered(lambda drawn=picture: _titled(drawn), kind, name=picture.name)  # type: ignore[misc]
        for picture in shown
        for kind in ("png", "svg")
    }


def write_images(images: Mapping[str, bytes], directory: Path) -> list[Path]:
    """Write the files of pictures; the folder is made."""
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the figures' folder must be writable, got {error.strerror} for {str(directory)!r}; choose another place"
        ) from None
    for name, content in images.items():
        write_atomically(directory / name, content, what="the picture")
    return [directory / name for name in images]


def _titled(picture: Picture) -> Figure:
    """On a page the heading is the title; a file goes out alone."""
    figure = picture.draw(WIDE)
    figure.set_figheight(figure.get_figheight() + _TITLE_HEIGHT / 72)
    figure.suptitle(picture.title, x=0.01, ha="left", fontsize=11, color=INK)
    return figure
