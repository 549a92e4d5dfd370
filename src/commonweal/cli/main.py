"""The command `commonweal`: parses, calls, and turns errors into one sentence and exit code 2."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from commonweal.cli.decide import decide_command
from commonweal.errors import CommonwealError

app = typer.Typer(
    name="commonweal",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="The incentive layer of cross-silo federated learning: who stays, and who pays whom.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"commonweal {version('commonweal')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """The incentive layer of cross-silo federated learning: who stays, and who pays whom."""


app.command("decide")(decide_command)


def main() -> None:
    """Entry point: exit code 0 = done, 2 = the input breaks a rule."""
    try:
        app()
    except CommonwealError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
