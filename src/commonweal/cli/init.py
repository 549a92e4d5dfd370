"""`commonweal init`: a commented scenario to start from."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from commonweal.atomic_write import write_atomically
from commonweal.errors import InputError
from commonweal.scenario.lines import key_places
from commonweal.scenario.shipped import FIRST, load, shipped_names, shipped_text
from commonweal.scenario.toml_file import parse_scenario

DEFAULT_FILE = "scenario.toml"


def init_command(
    file: Annotated[
        str | None, typer.Argument(help=f"The file to write, {DEFAULT_FILE} if left out.", show_default=False)
    ] = None,
    template: Annotated[
        str, typer.Option("--from", metavar="NAME", help="The shipped scenario to start from.")
    ] = FIRST,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it is there.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="Show the shipped scenarios, and write nothing.")] = False,
) -> None:
    """Write a commented scenario to start from.

    Example: commonweal init my.toml --from label-noise
    """
    if show_list:
        if file is not None:
            raise InputError(f"--list writes nothing, got the file {file!r} too; drop one of them")
        _list()
        return
    path = Path(DEFAULT_FILE if file is None else file)
    _check_suffix(path)
    text = _renamed(shipped_text(template), path)
    scenario = parse_scenario(text, str(path))  # never write what cannot be read
    _write(path, text, force=force)
    typer.echo(
        f"wrote {path}, after {template}: {len(scenario.clients)} clients, {scenario.round_count} rounds\n"
        f"next: edit it, then type\n  commonweal run {shlex.quote(str(path))}"
    )


def _list() -> None:
    width = max(map(len, shipped_names()))
    for name in shipped_names():
        typer.echo(f"{name:<{width}}  {load(name).description}")


def _check_suffix(path: Path) -> None:
    """`commonweal run heterogeneous` runs the shipped scenario, so no file may get such a name."""
    if path.suffix != ".toml":
        hint = f", or --from {path} to start from that one" if str(path) in shipped_names() else ""
        raise InputError(f"FILE must end in .toml, got {str(path)!r}; write {f'{path}.toml'!r}{hint}")


def _renamed(text: str, path: Path) -> str:
    """The scenario under the name of its new file."""
    line = key_places(text).line_of(("name",))
    assert line is not None, "every scenario has a name"
    lines = text.split("\n")
    lines[line - 1] = f"name = {json.dumps(path.stem, ensure_ascii=False)}"  # JSON's strings are TOML's too
    return "\n".join(lines)


def _write(path: Path, text: str, *, force: bool) -> None:
    if not force and path.exists():
        raise InputError(
            f"init must not overwrite a file, got {path}, which exists; choose another name, or add --force"
        )
    write_atomically(path, text.encode(), what="the file", way_out="choose a folder that exists and is yours")
