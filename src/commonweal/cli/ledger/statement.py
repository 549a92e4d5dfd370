"""`commonweal ledger statement`, and `commonweal verify-statement` for the member who receives one."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from commonweal.cli.ledger.options import Keys, Location, Out, key_directory, opened_store, put_out
from commonweal.cli.text_view import make_console
from commonweal.data.optional_packages import needed_for

if TYPE_CHECKING:
    from commonweal.records.statement import Statement, StatementLine


class StatementFormat(StrEnum):
    text = "text"
    html = "html"
    csv = "csv"
    json = "json"


def statement_command(
    location: Location,
    client: Annotated[str, typer.Argument(help="The client to write the statement for.")],
    form: Annotated[
        StatementFormat,
        typer.Option("--format", help="json is signed by the operator; the client checks it with verify-statement."),
    ] = StatementFormat.text,
    out: Out = None,
    keys: Keys = None,
) -> None:
    """Write a client's statement: every entry that concerns it, its balance, and the head of the ledger.

    Example: commonweal ledger statement ledger.db north --format json --out north.json
    """
    with opened_store(location) as store:
        from commonweal.ledger.entries import time_text
        from commonweal.ledger.ledger import system_clock
        from commonweal.ledger.printable import printable
        from commonweal.ledger.statements import make_statement, signed_statement
        from commonweal.report.statement import to_csv, to_html

        at = time_text(system_clock())
        if form is StatementFormat.json:
            put_out(signed_statement(store, client, key_directory(keys), at=at), out, "signed statement")
            return
        statement = make_statement(store, client, at=at)
        key = None if statement.client_key is None else printable(statement.client_key)
        statement = replace(statement, client=printable(client), client_key=key)
        if form is StatementFormat.text and out is None:
            _show(statement, make_console())
        elif form is StatementFormat.text:
            console = Console(width=120, highlight=False, emoji=False, no_color=True, force_terminal=False)
            with console.capture() as capture:
                _show(statement, console)
            put_out(capture.get().encode(), out, "statement")
        elif form is StatementFormat.html:
            put_out(to_html(statement).encode(), out, "statement")
        else:
            put_out(to_csv(statement).encode(), out, "statement")


def verify_statement_command(
    file: Annotated[
        Path, typer.Argument(help="A signed statement, or a part of one: the JSON file that the operator sent.")
    ],
    key: Annotated[Path, typer.Option(metavar="PUB", help="The operator's public key (PEM).")],
) -> None:
    """Check a signed statement offline: the operator's signature, and its sums. Exit code 1 if either is wrong.

    Example: commonweal verify-statement north.json --key operator.pub.pem
    """
    with needed_for("checking a statement", "ledger"):
        from commonweal.ledger.keys import read_operator_key
        from commonweal.ledger.statement_parts import faults_of_part, read_part

    part, signed = read_part(file)
    found = faults_of_part(part, signed, read_operator_key(key))
    for fault in found:
        print(f"finding: {fault}")
    if found:
        raise typer.Exit(1)
    if part.before.count:
        print(f"Lines 1 to {part.before.count} are in earlier statements; here are the others.")
    _show(part.statement, make_console(), totals=(part.after.balance, part.after.accrued))
    print("sound: signed by the operator, and the lines add up. Keep the file: it proves what the operator told you.")


def _show(statement: Statement, console: Console, *, totals: tuple[int, int] | None = None) -> None:
    """`totals` are the balance and what accrued, where they do not follow from the lines shown."""
    from commonweal.ledger.money import amount_text

    def money(amount: int) -> str:
        return amount_text(amount, statement.minor_digits)

    accrues = statement.settlement == "accruals"
    console.print(
        Text(f"{statement.client} in {statement.name}, up to entry {statement.head_number} ({statement.at[:10]})")
    )
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("entry", justify="right")
    table.add_column("time (UTC)", no_wrap=True)
    table.add_column("event")
    for heading in ("profit", "contribution", "share", "payoff"):
        table.add_column(heading, justify="right", no_wrap=True)
    columns = ("accrued", "total accrued") if accrues else ()
    for heading in (*columns, f"{statement.currency}", "balance"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in statement.lines:
        accrued = (money(line.accrued), money(line.accrued_balance)) if accrues else ()
        table.add_row(
            str(line.entry),
            line.at[:19].replace("T", " "),
            Text(_said(line)[0]),
            *(_figure(value) for value in (line.profit, line.contribution, line.share, line.payoff)),
            *accrued,
            money(line.amount),
            money(line.balance),
        )
    console.print(table)
    for line in statement.lines:
        for sentence in _said(line)[1:]:
            console.print(Text(f"entry {line.entry}: {sentence}"), soft_wrap=True)
    balance, accrued_total = totals or (statement.balance, statement.accrued)
    in_all = f", accrued {money(accrued_total)}" if accrues else ""
    console.print(Text(f"balance {money(balance)} {statement.currency}{in_all}"))
    key = "nobody: the operator vouches for them" if statement.client_key is None else statement.client_key
    console.print(Text(f"reports signed by: {key}"), soft_wrap=True)
    console.print(Text(f"head of the ledger: entry {statement.head_number}, {statement.head}"), soft_wrap=True)


def _said(line: StatementLine) -> list[str]:
    """What happened, and then how it is explained, if it is."""
    what, _, why = (line.text + _gains(line)).partition("; ")
    return [what, why] if why else [what]


def _gains(line: StatementLine) -> str:
    """The gain that the profit follows from, beside the client's own; "" if the profit is as measured."""
    if line.used_gain is None:
        return ""
    paired = "not measurable" if line.measured_gain is None else f"{line.measured_gain:+.4g}"
    expected = "" if line.expected_gain is None else f", {line.expected_gain:+.4g} expected next"
    return f"; paired gain {paired}, {line.used_gain:+.4g} as used{expected}"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
