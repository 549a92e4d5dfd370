"""Settle the rounds of `commonweal decide` in a ledger."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from commonweal.cli.ledger.options import key_directory
from commonweal.cli.outcome import DecideResult
from commonweal.data.optional_packages import needed_for
from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import CommonwealError
from commonweal.figures_file import Rounds
from commonweal.records.statement import amount_text

if TYPE_CHECKING:
    from commonweal.ledger.agreed_rules import AgreedRules


def settle_outcome(outcome: DecideResult, location: str, keys: Path | None, *, name: str) -> str:
    """Settle every round in order; returns a line that says so.

    The operator vouches for the figures: no client signed them.
    """
    with needed_for("a ledger", "ledger"):
        from commonweal.federation.settlement import FederationLedger
        from commonweal.ledger.sql.location import shown

    history = outcome.replay.history
    members: dict[str, str | None] = dict.fromkeys(history.clients)
    agreed = _agreed(outcome)
    with closing(
        FederationLedger(location, key_directory(keys), name=name, members=members, agreed=agreed)
    ) as federation_ledger:
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


def _agreed(outcome: DecideResult) -> AgreedRules:
    """The rules of these rounds. Grace is counted in rounds of the file, and agreed on by the numbers of rounds."""
    from commonweal.ledger.agreed_rules import AgreedRules

    spared = [record.round_number for record in outcome.replay.history.rounds if record.decision.grace]
    return AgreedRules(
        rules=outcome.rules,
        rules_version=make_mechanism(outcome.rules).version_in_ledgers,
        grace_rounds=max([outcome.grace_rounds, *spared]),
    )


def in_order_of_admission(rounds: Rounds, location: str) -> Rounds:
    """The rounds with their clients in the order in which the ledger admitted or will admit them.

    The order decides ties and odd cents, so that it must not depend on the order of rows.
    """
    with needed_for("a ledger", "ledger"):
        from commonweal.ledger.ledger import Ledger
        from commonweal.ledger.sql.store import has_ledger, open_store

    order: dict[str, int] = {}
    if has_ledger(location):
        with closing(open_store(location)) as store:
            order = {client: place for place, client in enumerate(Ledger(store, None).state.members)}
    for _, figures in rounds:
        for client in figures.clients:
            order.setdefault(client, len(order))
    return [(number, figures.in_order(sorted(figures.clients, key=order.__getitem__))) for number, figures in rounds]
