"""`commonweal ledger init`: create a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from commonweal.cli.ledger.opening_terms import opening_terms
from commonweal.cli.ledger.options import Keys, Location, key_directory
from commonweal.data.optional_packages import needed_for
from commonweal.errors import InputError
from commonweal.names import tidy_name


def init_command(
    location: Location,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name of the ledger (default: that of its file or database).", show_default=False
        ),
    ] = None,
    currency: Annotated[
        str | None,
        typer.Option(metavar="CODE", help="ISO 4217 code (default: XTS, which is for tests).", show_default=False),
    ] = None,
    minor_digits: Annotated[
        int | None,
        typer.Option(
            metavar="D", help="Decimal places of the currency (default: those of ISO 4217).", show_default=False
        ),
    ] = None,
    worth: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT",
            help="Worth of one unit of utility, in the currency: 1 if figures are in the currency already (default: "
            "1000, for tests only).",
            show_default=False,
        ),
    ] = None,
    accrue: Annotated[
        bool,
        typer.Option(
            "--accrue", help="Accrue payoffs per round, and divide money when the model earns some (see realise)."
        ),
    ] = False,
    largest_share: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Largest share to accept with raw contributions (default: only shares from 0 to 1).",
            show_default=False,
        ),
    ] = None,
    member: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=PUB]",
            help="A client, with the file of the public key that signs its reports: Ed25519 in PEM, or the P-384 "
            "key of its Flower node in PEM or OpenSSH format. Repeat for each member (default: the clients of the "
            "first federation that settles here).",
            show_default=False,
        ),
    ] = None,
    keys: Keys = None,
) -> None:
    """Create a ledger with its currency, worth of utility and members; create the operator's key if there is none.

    Example: commonweal ledger init ledger.db --currency EUR --worth 1000 --member north --member south
    """
    with needed_for("a ledger", "ledger"):
        from commonweal.ledger.checks import check_look_alikes, check_names
        from commonweal.ledger.currencies import money_in_words
        from commonweal.ledger.ledger import Ledger
        from commonweal.ledger.sql.location import url_of
        from commonweal.ledger.sql.store import open_store

    terms = opening_terms(
        (Path(url_of(location).database or "").stem or "ledger") if name is None else name,
        currency=currency,
        worth=worth,
        minor_digits=minor_digits,
        settlement="accruals" if accrue else "transfers",
        largest_share=largest_share,
    )
    members = read_members(member or [])
    check_names(members)
    check_look_alikes(members)
    directory = key_directory(keys)
    directory.current()  # fail on an unusable key directory before the ledger is created
    store = open_store(location, create=True)
    try:
        ledger = Ledger.start(store, terms, directory)
        if members:
            ledger.admit(members)
        public = ledger.state.operator
        print(f"ledger {terms.name}: {store.location}")
        print(f"identity: {ledger.identity}")
        print(f"money: {money_in_words(terms)}")
        print(f"members: {', '.join(members) or 'the clients of the first federation that settles here'}")
        print(f"operator's public key (send it to every member): {directory.public_file(public)}")
    finally:
        store.close()


def read_members(given: list[str], *, option: str = "--member") -> dict[str, str | None]:
    """Members with their public keys, from values NAME or NAME=PUB of an option."""
    from commonweal.ledger.keys import read_public_key

    members: dict[str, str | None] = {}
    for text in given:
        spelt, has_key, file = text.partition("=")
        client = tidy_name(spelt)
        if not client or client in members:
            raise InputError(
                f"{option} {text!r} {'names a member twice' if client else 'has no name'}; write {option} NAME or "
                f"{option} NAME=PUB."
            )
        members[client] = read_public_key(Path(file)) if has_key else None
    return members
