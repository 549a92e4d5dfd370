"""The output of a run in one folder: a page, plots, and numbers for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from commonweal.atomic_write import write_atomically
from commonweal.errors import StorageError, os_reason
from commonweal.records import RunReport
from commonweal.report.drawing import Plot, rendered_as
from commonweal.report.history_json import write_history
from commonweal.report.plots import plots
from commonweal.report.run_page.page import to_page

_KINDS = ("png", "svg")


def write_all(run_report: RunReport, directory: Path) -> list[Path]:
    """Write history.json, report.html and figures/*.png, *.svg into an existing folder; returns what was written."""
    if not directory.is_dir():
        raise StorageError(f"Cannot write the report: the folder {str(directory)!r} does not exist. Create it first.")
    history, report = directory / "history.json", directory / "report.html"
    write_history(run_report, history)
    write_report(run_report, report)
    return [history, report, *write_images(rendered_plots(plots(run_report)), directory / "figures")]


def write_report(run_report: RunReport, path: Path) -> None:
    """Write report.html; the same run report gives the same bytes."""
    write_atomically(path, to_page(run_report).encode(), what="the report")


def rendered_plots(plots: Iterable[Plot]) -> dict[str, bytes]:
    """Each plot as PNG and SVG, by the name of its file."""
    return {
        f"{plot.name}.{kind}": content
        for plot in plots
        for kind, content in zip(_KINDS, rendered_as(_KINDS, plot.titled, name=plot.name), strict=True)
    }


def write_images(images: Mapping[str, bytes], directory: Path) -> list[Path]:
    """Write the files of plots; creates the folder."""
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"Cannot write plots to {str(directory)!r}: {os_reason(error)}. Choose another folder."
        ) from None
    for name, content in images.items():
        write_atomically(directory / name, content, what="the plot")
    return [directory / name for name in images]
