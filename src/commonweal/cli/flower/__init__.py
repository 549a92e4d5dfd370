"""`commonweal flower`: a federation between machines, from an empty folder to a rehearsal on one machine."""

from __future__ import annotations

import typer

from commonweal.cli.flower.member import member_command, withdraw_command
from commonweal.cli.flower.operator import certificates_command, new_command
from commonweal.cli.flower.rehearse import rehearse_command

flower_app = typer.Typer(
    name="flower",
    no_args_is_help=True,
    help="Federations between machines, on Flower: create, rehearse, join and leave one.",
)
flower_app.command("new")(new_command)
flower_app.command("rehearse")(rehearse_command)
# Parse a negative amount as an amount, not as an option, so that the error is about the amount.
flower_app.command("member", context_settings={"ignore_unknown_options": True})(member_command)
flower_app.command("certificates")(certificates_command)
flower_app.command("withdraw")(withdraw_command)
