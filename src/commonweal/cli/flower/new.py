"""`commonweal flower new`: a federation to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from commonweal.data.optional_packages import needed_for


def new_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make.")],
    members: Annotated[int, typer.Option(metavar="N", help="How many members it starts with.")] = 3,
) -> None:
    """Write a federation that runs at once: a Flower app, the operator's terms, and members for a rehearsal.

    Example: commonweal flower new my-federation --members 3
    """
    with needed_for("a federation on Flower", "flower"):
        from commonweal.flower.starting.new_federation import make_federation

    names = make_federation(directory, members)
    typer.echo(
        f"wrote {directory}: an app, federation.toml, and the members {', '.join(names)}\n"
        f"next: read {directory / 'README.md'}, or type\n"
        f"  commonweal flower rehearse {shlex.quote(str(directory))}"
    )
