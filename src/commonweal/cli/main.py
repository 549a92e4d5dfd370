"""The command `commonweal`. An error becomes one sentence on the error stream and exit code 2."""

from __future__ import annotations

import io
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn, TextIO

import typer

from commonweal.cli.advise import advise_command
from commonweal.cli.audit import audit_command
from commonweal.cli.claims import claims_command
from commonweal.cli.compare import compare_command
from commonweal.cli.data import data_app
from commonweal.cli.decide import decide_command
from commonweal.cli.flower import flower_app
from commonweal.cli.init import init_command
from commonweal.cli.ledger import ledger_app
from commonweal.cli.ledger.statement import verify_statement_command
from commonweal.cli.reproduce import reproduce_command
from commonweal.cli.run import run_command
from commonweal.errors import CommonwealError, os_reason

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


app.command("run")(run_command)
app.command("advise")(advise_command)
app.command("decide")(decide_command)
app.command("audit")(audit_command)
app.command("compare")(compare_command)
app.command("reproduce")(reproduce_command)
app.command("claims")(claims_command)
app.add_typer(ledger_app)
app.command("verify-statement")(verify_statement_command)
app.add_typer(data_app)
app.add_typer(flower_app)
app.command("init")(init_command)


def main() -> None:
    """Entry point. Exit code 0: done; 2: the input is invalid, or the output cannot be written."""
    if sys.stdout is None:  # closed by the caller
        sys.stdout = _nowhere()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a character shows ? instead
    try:
        app()
    except CommonwealError as error:
        _fail(str(error))
    except OSError as error:
        sys.stdout = _nowhere()  # so that the interpreter does not try again when it exits
        what = "write the output" if error.filename is None else f"open {error.filename!r}"
        _fail(f"Cannot {what}: {os_reason(error)}.")


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w")


def _fail(sentence: str) -> NoReturn:
    # It may quote a ledger or a file: strip terminal control characters.
    plain = "".join(each if each.isprintable() or each in "\n\xa0" else ascii(each)[1:-1] for each in sentence)
    print(f"error: {plain}", file=sys.stderr)
    sys.exit(2)
