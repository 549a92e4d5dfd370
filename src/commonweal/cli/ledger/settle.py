"""Rounds that `commonweal decide` decided, into a ledger."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from commonweal.cli.ledger.options import key_directory
from commonweal.cli.outcome import Outcome
from commonweal.data.optional_packages import needed_for
from commonweal.errors import CommonwealError, InputError
from commonweal.records.statement import amount_text


def settle_outcome(outcome: Outcome, location: str, keys: Path | None, *, name: str) -> str:
    """Settle every round in order; returns the sentence that says so.

    The figures are the operator's word: nobody signed them.
    """
    with needed_for("a ledger", "ledger"):
        from commonweal.federation.settlement import FederationLedger
        from commonweal.ledger.sql.location import shown

    history = outcome.replay.history
    members: dict[str, str | None] = dict.fromkeys(history.clients)
    with closing(FederationLedger(location, key_directory(keys), name=name, members=members)) as treasury:
        treasury.check()
        receipts = []
        for record in history.rounds:
            try:
                receipts.append(treasury.settle(record))
            except CommonwealError as error:
                if not receipts:
                    raise
                raise InputError(f"{error} (the rounds before {record.round_number} are settled)") from None
    fresh = [receipt.entry for receipt in receipts if receipt.fresh]
    known = len(receipts) - len(fresh)
    terms = treasury.terms
    worth = amount_text(terms.worth, terms.minor_digits)
    said = [f"new ledger opened in {terms.currency}, one unit of utility is {worth}"] if treasury.has_opened else []
    if fresh:
        entries = f"entries {fresh[0]} to {fresh[-1]}" if len(fresh) > 1 else f"entry {fresh[0]}"
        said.append(f"{len(fresh)} round{'s' * (len(fresh) > 1)} settled as {entries}")
    if known:
        said.append(f"{known} settled before, nothing done for {'them' if known > 1 else 'it'}")
    return f"ledger: {shown(location)}: {'; '.join(said)}"
