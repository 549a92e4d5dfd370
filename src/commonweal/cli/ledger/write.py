"""`commonweal ledger realise`, `reverse`, `charge` and `rotate-key`: entries that a treasurer adds by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from commonweal.cli.ledger.options import Keys, Location, key_directory, opened_ledger
from commonweal.errors import InputError, LedgerError


def realise_command(
    location: Location,
    amount: Annotated[str, typer.Argument(metavar="AMOUNT", help="Income of the model, in the currency.")],
    reference: Annotated[
        str, typer.Option(metavar="REF", help="Reference of the income, such as an invoice number; use each only once.")
    ],
    without: Annotated[
        list[int] | None,
        typer.Option(
            "--without-round",
            metavar="T",
            help="A reversed round that has no part in this income. Repeat the option for each.",
            show_default=False,
        ),
    ] = None,
    keys: Keys = None,
) -> None:
    """Divide income of the model in proportion to max(accrued payoff, 0). Repeating a reference changes nothing.

    Example: commonweal ledger realise ledger.db 2500.00 --reference invoice-7
    """
    with opened_ledger(location, keys) as ledger:
        from commonweal.ledger.money import amount_text, parse_amount

        terms = ledger.terms
        if terms.settlement != "accruals":
            raise LedgerError("This ledger accrues no payoffs. Create one with: commonweal ledger init --accrue")
        income = parse_amount(amount, terms.minor_digits)
        receipt = ledger.realise(income, reference, without=without or ())
        if not receipt.fresh:
            print(f"{reference} was already realised as entry {receipt.entry}; nothing was done")
            return
        print(f"entry {receipt.entry}: {amount_text(income, terms.minor_digits)} {terms.currency}, {reference}")
        for account, text in ledger.document(receipt.entry)["postings"][1:]:
            print(f"  {account.partition('/')[2]}: {amount_text(int(text), terms.minor_digits)}")


def reverse_command(
    location: Location,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, which is recorded in the ledger.")],
    round_number: Annotated[
        int | None, typer.Option("--round", metavar="T", help="The settled round to reverse.", show_default=False)
    ] = None,
    entry: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="The entry to reverse: a round, a realisation, a charge or an exclusion.",
            show_default=False,
        ),
    ] = None,
    keys: Keys = None,
) -> None:
    """Reverse a round or a realisation by a new entry. A reversed round can be settled again.

    Example: commonweal ledger reverse ledger.db --round 3 --reason "north sent last month's figures"
    """
    if (round_number is None) == (entry is None):
        raise InputError("Give either --round or --entry, to name what to reverse.")
    with opened_ledger(location, keys) as ledger:
        if round_number is not None:
            receipt = ledger.reverse_round(round_number, reason)
        else:
            assert entry is not None
            receipt = ledger.reverse(entry, reason)
        if receipt.fresh:
            print(f"entry {receipt.entry}: reversal of entry {ledger.document(receipt.entry)['body']['entry']}")
        else:
            print(f"already reversed by entry {receipt.entry}; nothing was done")


def charge_command(
    location: Location,
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="The client that was silent.")],
    round_number: Annotated[
        int, typer.Option("--round", metavar="T", help="The round whose model it had, and did not report.")
    ],
    keys: Keys = None,
) -> None:
    """Charge a client for its silence, as the terms state; those who were retained in the round share it equally.

    Example: commonweal ledger charge ledger.db north --round 3
    """
    with opened_ledger(location, keys) as ledger:
        from commonweal.ledger.money import amount_text

        terms, receipt = ledger.terms, ledger.charge(client, round_number)
        if not receipt.fresh:
            print(f"{client} was already charged for round {round_number} by entry {receipt.entry}; nothing was done")
            return
        print(f"entry {receipt.entry}: charge for silence in round {round_number}, {terms.currency}")
        for account, text in ledger.document(receipt.entry)["postings"]:
            print(f"  {account.partition('/')[2]}: {amount_text(int(text), terms.minor_digits)}")


def rotate_key_command(location: Location, keys: Keys = None) -> None:
    """Sign with a new key from now on. The old key signs the change, so old public keys still verify the ledger.

    Example: commonweal ledger rotate-key ledger.db
    """
    with opened_ledger(location, keys) as ledger:
        receipt = ledger.rotate_key()
        public = ledger.state.operator
        print(f"entry {receipt.entry}: the operator's key is now {public[:16]}…")
        print(f"operator's public key (send it to every member): {key_directory(keys).public_file(public)}")
