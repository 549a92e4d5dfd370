"""Settle the rounds of `commonweal decide` in a ledger."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from commonweal.cli.ledger.options import key_directory
from commonweal.cli.outcome import DecideResult
from commonweal.data.optional_packages import needed_for
from commonweal.errors import CommonwealError
from commonweal.records.statement import amount_text


def settle_outcome(outcome: DecideResult, location: str, keys: Path | None, *, name: str) -> str:
    """Settle every round in order; returns a line that says so.

    The operator vouches for the figures: no client signed them.
    """
    with needed_for("a ledger", "ledger"):
        from commonweal.federation.settlement import FederationLedger
        from commonweal.ledger.sql.location import shown

    history = outcome.replay.history
    members: dict[str, str | None] = dict.fromkeys(history.clients)
    with closing(FederationLedger(location, key_directory(keys), name=name, members=members)) as federation_ledger:
        federation_ledger.check()
        receipts = []
        for record in history.rounds:
            try:
                receipts.append(federation_ledger.settle(record))
            except CommonwealError as error:
                if not receipts:
                    raise
                raise type(error)(f"{error} The rounds before {record.round_number} are settled.") from None
    fresh = [receipt.entry for receipt in receipts if receipt.fresh]
    known = len(receipts) - len(fresh)
    terms = federation_ledger.terms
    worth = amount_text(terms.worth, terms.minor_digits)
    said = (
        [f"new ledger in {terms.currency}, one unit of utility is worth {worth}"]
        if federation_ledger.has_opened
        else []
    )
    if fresh:
        entries = f"entries {fresh[0]} to {fresh[-1]}" if len(fresh) > 1 else f"entry {fresh[0]}"
        said.append(f"{len(fresh)} round{'s' * (len(fresh) > 1)} settled as {entries}")
    if known:
        said.append(f"{known} round{'s' * (known > 1)} already settled")
    return f"ledger: {shown(location)}: {'; '.join(said)}"
