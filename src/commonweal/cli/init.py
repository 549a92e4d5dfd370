"""`commonweal init`: a commented scenario to start from."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from commonweal.atomic_write import write_atomically
from commonweal.errors import InputError
from commonweal.report.text import counted
from commonweal.scenario.lines import key_places
from commonweal.scenario.shipped import FIRST, load, shipped_names, shipped_text
from commonweal.scenario.toml_file import parse_scenario

DEFAULT_FILE = "scenario.toml"


def init_command(
    file: Annotated[
        str | None, typer.Argument(help=f"The file to write (default: {DEFAULT_FILE}).", show_default=False)
    ] = None,
    template: Annotated[
        str, typer.Option("--from", metavar="NAME", help="The shipped scenario to start from.")
    ] = FIRST,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List the shipped scenarios and exit.")] = False,
) -> None:
    """Write a commented scenario to start from.

    Example: commonweal init my.toml --from label-noise
    """
    if show_list:
        if file is not None:
            raise InputError(f"--list writes no file, got {file!r}. Leave one of them out.")
        _list()
        return
    path = Path(DEFAULT_FILE if file is None else file)
    _check_suffix(path)
    text = _renamed(shipped_text(template), path)
    scenario = parse_scenario(text, str(path))  # what is written must be valid
    _write(path, text, force=force)
    typer.echo(
        f"Wrote {path}, a copy of {template}: {counted(len(scenario.clients), 'client')}, "
        f"{counted(scenario.round_count, 'round')}.\n"
        f"Edit it, then run:\n  commonweal run {shlex.quote(str(path))}"
    )


def _list() -> None:
    width = max(map(len, shipped_names()))
    for name in shipped_names():
        typer.echo(f"{name:<{width}}  {load(name).description}")


def _check_suffix(path: Path) -> None:
    """Without .toml, a file could have the name of a shipped scenario, which `commonweal run` prefers."""
    if path.suffix != ".toml":
        hint = f", or use --from {path} to start from that scenario" if str(path) in shipped_names() else ""
        raise InputError(f"FILE must end in .toml, got {str(path)!r}. Write {f'{path}.toml'!r}{hint}.")


def _renamed(text: str, path: Path) -> str:
    """The scenario, named after its new file."""
    line = key_places(text).line_of(("name",))
    assert line is not None, "every scenario has a name"
    lines = text.split("\n")
    lines[line - 1] = f"name = {json.dumps(path.stem, ensure_ascii=False)}"  # JSON strings are valid in TOML
    return "\n".join(lines)


def _write(path: Path, text: str, *, force: bool) -> None:
    if not force and path.exists():
        raise InputError(f"{path} exists. Choose another name, or overwrite it with --force.")
    write_atomically(path, text.encode(), what="the file", way_out="choose another folder that exists")
