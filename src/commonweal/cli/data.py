"""`commonweal data`: which samples there are, and how to get more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commonweal.errors import InputError

if TYPE_CHECKING:
    from rich.progress import Progress

    from commonweal.data.fetch import ProgressBar
    from commonweal.data.manifest import Entry

data_app = typer.Typer(
    name="data",
    no_args_is_help=True,
    help="Samples for simulated federations: list the sources, import or fetch originals, verify their files.",
)

DataDirectory = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar="COMMONWEAL_DATA",
        help="The data directory: .npz files and their manifest.json.",
        show_default=False,
    ),
]


@data_app.command("list")
def list_command(data: DataDirectory = None) -> None:
    """List every source that a scenario can name, and whether its file is there and unchanged.

    Example: commonweal data list --data DIR
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from commonweal.cli.text_view import make_console
    from commonweal.data.sources import find_directory, list_sources

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("source", "kind", "state"):
        table.add_column(heading, no_wrap=True)
    table.add_column("samples", justify="right", no_wrap=True)
    table.add_column("image", no_wrap=True)
    table.add_column("what it is; licence")
    directory = find_directory(data)
    for status in list_sources(directory):
        count = "" if status.sample_count is None else f"{status.sample_count:,}"
        shape = "" if status.image_shape is None else "×".join(map(str, status.image_shape))
        about = f"{status.note}. Licence: {status.licence}"
        # As text, not as rich's markup: names and notes may hold brackets.
        table.add_row(status.name, status.kind, status.state, count, shape, Text(about))
    console = make_console()
    console.print(table)
    if directory is None:
        console.print("No data directory: name one with --data DIR or COMMONWEAL_DATA for the originals.")


@data_app.command("import")
def import_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="mnist, svhn, usps, mnistm, ..., or a name of your own.")],
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="The official files of the source, or your own .npz.")
    ],
    data: DataDirectory = None,
    size: Annotated[
        int | None,
        typer.Option(metavar="PIXELS", help="Resize images of your own to so many rows and columns; 28 suits digits."),
    ] = None,
) -> None:
    """Bring official files, or an .npz of your own, into the data directory, and record its checksum.

    Your own .npz holds images (uint8, N×H×W or N×H×W×3) and labels (whole numbers 0 to 9).

    Example: commonweal data import mnist train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz --data DIR
    """
    from commonweal.data.importing import import_source

    directory = _directory(data)
    _say(name, import_source(name, files, directory, size=size), directory)


@data_app.command("fetch")
def fetch_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="mnist, svhn, usps or cifar10; others need --url.")],
    data: DataDirectory = None,
    url: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL", help="Another address, e.g. of a mirror; once for each official file.", show_default=False
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where downloads are kept; by default the user's cache.", show_default=False),
    ] = None,
) -> None:
    """Download the official files of an original, check them, and import them into the data directory.

    Example: commonweal data fetch mnist --data DIR
    """
    from commonweal.data.fetch import default_cache, fetch
    from commonweal.data.importing import import_source

    directory = _directory(data)
    with _progress(name) as progress:
        files = fetch(name, cache or default_cache(), urls=url or (), progress=progress)
    _say(name, import_source(name, files, directory), directory)


@data_app.command("verify")
def verify_command(data: DataDirectory = None) -> None:
    """Read every file of the data directory and compare it with its manifest: exit code 0 if all match, else 1.

    Example: commonweal data verify --data DIR
    """
    from commonweal.data.verifying import verify

    outcome = verify(_directory(data))
    for name in outcome.sound:
        typer.echo(f"ok       {name}")
    for finding in outcome.findings:
        typer.echo(f"finding  {finding}")
    if outcome.findings:
        raise typer.Exit(1)
    if not outcome.sound:
        typer.echo("no data files here")


def _directory(given: Path | None) -> Path:
    from commonweal.data.sources import find_directory

    directory = find_directory(given)
    if directory is None:
        raise InputError("this command works on a data directory, got none; name it with --data DIR or COMMONWEAL_DATA")
    return directory


def _say(name: str, entry: Entry, directory: Path) -> None:
    typer.echo(f"{name}: {entry.sample_count:,} samples in {directory / entry.file}")
    typer.echo(f"{entry.note}. Licence: {entry.licence}")


class _Bar:
    """pooch counts bytes; rich draws them."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=None)

    @property
    def total(self) -> int:
        return int(self._progress.tasks[0].total or 0)

    @total.setter
    def total(self, byte_count: int) -> None:
        self._progress.update(self._task, total=byte_count or None)

    def update(self, byte_count: int, /) -> None:
        self._progress.advance(self._task, byte_count)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """The bar is taken down when all files are there."""


@contextmanager
def _progress(name: str) -> Iterator[ProgressBar]:
    """A bar on the error stream, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield _Bar(progress, name)
