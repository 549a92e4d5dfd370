"""`commonweal ledger`: create, show, verify and export a ledger, divide income, reverse entries."""

from __future__ import annotations

import typer

from commonweal.cli.ledger.amend import amend_app
from commonweal.cli.ledger.export import export_command
from commonweal.cli.ledger.init import init_command
from commonweal.cli.ledger.show import balances_command, show_command
from commonweal.cli.ledger.statement import statement_command
from commonweal.cli.ledger.verify import verify_command
from commonweal.cli.ledger.write import charge_command, realise_command, reverse_command, rotate_key_command

ledger_app = typer.Typer(
    name="ledger",
    no_args_is_help=True,
    help="The ledger of settlements: create it, show it, verify it, divide income, reverse, amend its terms, export.",
)
ledger_app.command("init")(init_command)
ledger_app.command("show")(show_command)
ledger_app.command("balances")(balances_command)
ledger_app.command("statement")(statement_command)
ledger_app.command("verify")(verify_command)
# Parse a negative amount as an amount, not as an option, so that the error is about the amount.
ledger_app.command("realise", context_settings={"ignore_unknown_options": True})(realise_command)
ledger_app.command("reverse")(reverse_command)
ledger_app.command("charge")(charge_command)
ledger_app.command("export")(export_command)
ledger_app.command("rotate-key")(rotate_key_command)
ledger_app.add_typer(amend_app)
