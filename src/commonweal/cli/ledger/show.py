"""`commonweal ledger show` and `balances`: the entries and balances of a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from commonweal.cli.ledger.options import Location, opened_store
from commonweal.cli.text_view import make_console
from commonweal.decision.mechanisms import VERSIONS
from commonweal.ledger.fates import harmful_in, is_finished
from commonweal.ledger.rounds import resting_in
from commonweal.ledger.silence import silent_in
from commonweal.ledger.terms import Terms
from commonweal.records import FINISHED, Rules
from commonweal.records.statement import amount_text
from commonweal.report.text import counted


def show_command(
    location: Location,
    entry: Annotated[int | None, typer.Option(metavar="N", help="Show this entry in full.", show_default=False)] = None,
    last: Annotated[int, typer.Option(metavar="N", help="Show the last N entries.", min=1)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print all entries, one JSON document per line.")] = False,
) -> None:
    """Show a ledger's terms and its last entries, or one entry in full.

    Example: commonweal ledger show ledger.db
    """
    with opened_store(location) as store:
        from commonweal.ledger.canonical import parse
        from commonweal.ledger.ledger import Ledger
        from commonweal.ledger.printable import printable, printable_json
        from commonweal.ledger.readable import readable

        ledger = Ledger(store, None)
        if entry is not None:
            print(printable_json(ledger.document(entry), indent=1))
            return
        with store.reading() as reading:
            if as_json:
                for stored in reading.entries():
                    print(
                        printable_json(
                            {"content": parse(stored.content), "hash": stored.hash, "signature": stored.signature}
                        )
                    )
                return
            shown = [stored.content for stored in reading.entries(after=max(0, ledger.state.number - last))]
        state, terms, console = ledger.state, ledger.terms, make_console()
        worth = amount_text(terms.worth, terms.minor_digits)
        console.print(
            Text(f"{terms.name}: one unit of utility is worth {worth} {terms.currency}, settled by {terms.settlement}")
        )
        for line in terms_in_words(terms):
            console.print(Text(printable(line)), soft_wrap=True)
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column("entry", justify="right")
        table.add_column("time (UTC)", no_wrap=True)
        table.add_column("event")
        table.add_column(f"moved ({terms.currency})", justify="right", no_wrap=True)
        for content in shown:
            document = parse(content) or {}
            with readable(document["number"]):
                moved = sum(amount for _, text in document["postings"] if (amount := int(text)) > 0)
                table.add_row(
                    str(document["number"]),
                    Text(printable(document["at"])[:19].replace("T", " ")),
                    Text(printable(_what(document))),
                    amount_text(moved, terms.minor_digits) if moved else "",
                )
        console.print(table)
        counted = f"entries: {state.number}, rounds: {len(state.rounds)}, members: {len(state.members)}"
        console.print(Text(f"{counted}; head {state.head}"), soft_wrap=True)
        for client, rounds in state.silences.items():
            if rounds:
                line = f"{printable(client)} had the model of {_rounds(rounds)} and did not report"
                console.print(Text(line), soft_wrap=True)


def balances_command(
    location: Location,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document, with amounts as decimal strings.")
    ] = False,
) -> None:
    """Show the balance of every account: clients, accrued payoffs, the model's income. They sum to zero.

    Example: commonweal ledger balances ledger.db
    """
    with opened_store(location) as store:
        from commonweal.ledger.entries import accrued_account, client_account
        from commonweal.ledger.ledger import Ledger
        from commonweal.ledger.printable import printable, printable_json

        ledger = Ledger(store, None)
        terms, balances = ledger.terms, ledger.state.balances

        def text(account: str) -> str:
            return amount_text(balances[account], terms.minor_digits)

        accounts = dict.fromkeys(client_account(client) for client in ledger.state.members)
        if terms.settlement == "accruals":
            accounts |= dict.fromkeys(accrued_account(client) for client in ledger.state.members)
        accounts |= dict.fromkeys(sorted(balances))
        if as_json:
            document = {"currency": terms.currency, "balances": {account: text(account) for account in accounts}}
            print(printable_json(document, indent=1))
            return
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column("account")
        table.add_column(f"balance ({terms.currency})", justify="right", no_wrap=True)
        for account in accounts:
            table.add_row(Text(printable(account)), text(account))
        table.add_section()
        table.add_row("sum", amount_text(sum(balances.values()), terms.minor_digits))
        make_console().print(table)


def terms_in_words(terms: Terms) -> list[str]:
    """The agreed rules in force, as two or three lines."""
    agreed = terms.agreed
    if agreed is None:
        return ["no agreed rules: they may differ from round to round"]
    rules = agreed.rules
    cap = "no liability cap" if rules.liability_cap is None else f"liability cap {rules.liability_cap:g}"
    rounds = "any number of rounds" if agreed.round_count is None else counted(agreed.round_count, "round")
    lines = [
        f"agreed: {rules.in_words}, {rules.contribution_rule} contributions, losses by {rules.loss_rule}, {cap}; "
        f"{rounds}, {counted(agreed.grace_rounds, 'grace round')}"
    ]
    if agreed.measure is not None:
        score = "" if agreed.contribution_score is None else f" on the {agreed.contribution_score}"
        lines.append(
            f"measured: {agreed.figures} figures, {agreed.measure} contributions{score}, scorers {agreed.scorers}, "
            f"utility by {agreed.utility} in {agreed.metric}; harm {agreed.harm}, ending {agreed.ending}"
        )
    signing = "every active member" if agreed.quorum is None else f"{agreed.quorum:.0%} of the active members"
    lines.append(f"amendments are signed by {signing}")
    if agreed.silence_charge is not None or agreed.silence_limit is not None:
        charge = "no charge"
        if agreed.silence_charge is not None:
            charge = f"{amount_text(agreed.silence_charge, terms.minor_digits)} {terms.currency}"
        limit = "" if agreed.silence_limit is None else f", at most {counted(agreed.silence_limit, 'time')}"
        lines.append(f"a model without a report: {charge}{limit}")
    return lines


def _amendment(body: dict[str, Any]) -> str:
    members = [row["client"] for row in body["members"]]
    admitted = f"; admitted: {', '.join(members)}" if members else ""
    signed = counted(len(body["signatures"]), "signature")
    return f"amendment {body['amendment']} from round {body['first_round']} on, {signed}{admitted}"


def _rounds(numbers: Sequence[int]) -> str:
    return f"round{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _mechanism(version: str, rules: dict[str, Any]) -> str:
    """ "mu 0.05" for the default mechanism, and for others their label with mu and parameters."""
    if "mechanism" not in rules:
        return f"mu {rules['mu']}"
    known = VERSIONS.get(version)  # a newer commonweal may have more
    return str(rules["mechanism"]) if known is None else known(Rules.from_document(rules)).describe()


def _ending(body: dict[str, Any]) -> str:
    if "ending" not in body:
        return ""
    return f"; {FINISHED}" + ("" if is_finished(body) else " (the operator was told)")


def _what(document: dict[str, Any]) -> str:
    kind, body = document["kind"], document["body"]
    if kind == "round":
        clients = body["decision"]["eliminated"]
        harmful = set(harmful_in(body))
        named = [f"{client} as harmful" if client in harmful else client for client in clients]
        eliminated = f"; eliminated: {', '.join(named)}" if clients else ""
        silent = silent_in(body)
        others = [client for client in body["absent"] if client not in silent]
        absent = (f"; absent: {', '.join(others)}" if others else "") + (
            f"; silent at the report: {', '.join(silent)}" if silent else ""
        )
        if resting := resting_in(body):
            absent += f"; resting: {', '.join(resting)}"
        by = _mechanism(body["rules_version"], body["rules"])
        if "gains" in body:
            by += f", {body['gains']['table']['version'].partition('/')[0]} figures"
        return (
            f"round {body['round']}: {counted(len(body['inputs']), 'client')}, {by}{eliminated}{absent}{_ending(body)}"
        )
    if kind == "amendment":
        return _amendment(body)
    if kind == "terms":
        return "terms agreed on"
    if kind == "admission":
        return "admitted: " + ", ".join(member["client"] for member in body["members"])
    if kind == "realisation":
        return f"income, {body['reference']}"
    if kind == "reversal":
        return f"reversal of entry {body['entry']}: {body['reason']}"
    if kind == "charge":
        return f"charge for silence in round {body['round']}: {body['client']}"
    if kind == "exclusion":
        return f"membership ended: {body['client']}, silent in {_rounds(body['rounds'])}"
    if kind == "late-report":
        return f"late report of round {body['round']}: {body['client']}"
    if kind == "withdrawal":
        return f"withdrawn after round {body['round']}: {body['client']}"
    return "ledger opened" if kind == "opening" else f"the operator's key is now {body['operator'][:16]}…"
