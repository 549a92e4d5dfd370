"""`commonweal data`: list, import, fetch and verify sources of samples."""

from __future__ import annotations

import re
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
    help="Data for simulated federations: list the sources, fetch or import data sets, verify files.",
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
    """List all sources that a scenario can name, and whether their files are present and unchanged.

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
    table.add_column("classes", justify="right", no_wrap=True)
    table.add_column("description and licence")
    directory = find_directory(data)
    for status in list_sources(directory):
        count = "" if status.sample_count is None else f"{status.sample_count:,}"
        shape = "" if status.image_shape is None else "×".join(map(str, status.image_shape))
        classes = "" if status.class_count is None else str(status.class_count)
        about = f"{status.note}. Licence: {status.licence}"
        # As plain text, because names and notes may contain brackets, which are markup to rich.
        table.add_row(status.name, status.kind, status.state, count, shape, classes, Text(about))
    console = make_console()
    console.print(table)
    if directory is None:
        console.print("No data directory given. For the originals, name one with --data DIR or COMMONWEAL_DATA.")


@data_app.command("import")
def import_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A source such as mnist (see `data list`), or a new name for your own images."
        ),
    ],
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="The official files of the source; or your own .npz file or two idx files."
        ),
    ],
    data: DataDirectory = None,
    size: Annotated[
        str | None,
        typer.Option(
            metavar="PIXELS", help="Resize your own images: 28 for 28×28 pixels, 20x12 for 20 rows and 12 columns."
        ),
    ] = None,
    classes: Annotated[
        int | None,
        typer.Option(metavar="N", help="The number of classes, if some of them have no images in your own files."),
    ] = None,
) -> None:
    """Import official files, or your own images, into the data directory, and record the checksum.

    Your own images are two idx files (images and labels, gzipped or not), or one .npz file with images and labels.

    They are uint8, N×H×W or N×H×W×3, 8 to 1024 pixels high and wide, with labels 0, 1, 2, ... of 2 to 1000 classes.

    Example: commonweal data import fashion-mnist train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz --data DIR
    """
    from commonweal.data.importing import import_source

    directory = _directory(data)
    pixels = None if size is None else _rows_and_columns(size)
    _say(name, import_source(name, files, directory, size=pixels, class_count=classes), directory)


@data_app.command("fetch")
def fetch_command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A published source, e.g. mnist or cifar10; some need --url.")
    ],
    data: DataDirectory = None,
    url: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Another address, e.g. of a mirror; repeat the option for each official file.",
            show_default=False,
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to keep downloads (default: your cache folder).", show_default=False),
    ] = None,
) -> None:
    """Download the official files of a source, check them, and import them into the data directory.

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
    """Compare every file of the data directory with its manifest. Exit code: 0 if all match, otherwise 1.

    Example: commonweal data verify --data DIR
    """
    from commonweal.data.sources import verify

    outcome = verify(_directory(data))
    for name in outcome.sound:
        typer.echo(f"ok       {name}")
    for problem in outcome.problems:
        typer.echo(f"problem  {problem}")
    if outcome.problems:
        raise typer.Exit(1)
    if not outcome.sound:
        typer.echo("No data files found.")


def _directory(given: Path | None) -> Path:
    from commonweal.data.sources import find_directory

    directory = find_directory(given)
    if directory is None:
        raise InputError("No data directory given. Name one with --data DIR or COMMONWEAL_DATA.")
    return directory


def _rows_and_columns(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,6})(?:[x×]([0-9]{1,6}))?", text)
    if found is None:
        raise InputError(
            f"--size must be a number of pixels such as 28, or rows and columns such as 20x12, got {text!r}."
        )
    return int(found[1]), int(found[2] or found[1])


def _say(name: str, entry: Entry, directory: Path) -> None:
    from commonweal.data.catalogue import EXTERNAL

    rows, columns, channels = entry.image_shape
    typer.echo(f"{name}: {entry.sample_count:,} samples in {directory / entry.file}")
    typer.echo(f"{entry.class_count} classes; {'grey' if channels == 1 else 'RGB'} images of {rows}×{columns} pixels")
    typer.echo(f"{entry.note}. Licence: {entry.licence}")
    if name in EXTERNAL and not entry.is_published:
        typer.echo("If these are other images in the same format, import them under a name of their own.")


class _Bar:
    """Shows pooch's download progress with rich."""

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
        """Nothing to do: the bar disappears after the last file."""


@contextmanager
def _progress(name: str) -> Iterator[ProgressBar]:
    """A progress bar on the error stream, if that is a terminal."""
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
