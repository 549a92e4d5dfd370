"""Settle the rounds of `commonweal decide` in a ledger."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from commonweal.cli.ledger.opening_terms import check_same_terms, opening_terms
from commonweal.cli.ledger.options import key_directory
from commonweal.cli.outcome import DecideResult
from commonweal.data.optional_packages import needed_for
from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import CommonwealError, InputError
from commonweal.figures_file import Rounds

if TYPE_CHECKING:
    from commonweal.ledger.agreed_rules import AgreedRules
    from commonweal.ledger.terms import Terms


def terms_to_settle_by(
    location: str, keys: Path | None, *, name: str, currency: str | None, worth: str | None
) -> Terms:
    """The terms of the ledger, or those that it is to be opened with; refused before anything is computed."""
    with needed_for("a ledger", "ledger"):
        from commonweal.federation.settlement import FederationLedger
        from commonweal.ledger.sql.location import shown
        from commonweal.ledger.sql.store import has_ledger

    if has_ledger(location):
        terms = FederationLedger(location, key_directory(keys), name=name, members={}).terms_in_force
        check_same_terms(terms, currency=currency, worth=worth)
        return terms
    if currency is None or worth is None:
        raise InputError(
            f"There is no ledger in {shown(location)} yet, and nothing says what its money is. Create it with "
            "`commonweal ledger init`, or add --currency and --worth, the worth of one unit of utility: --currency EUR "
            "--worth 1 if the figures are in euros. Check the name if there should be one."
        )
    return opening_terms(name, currency=currency, worth=worth)


def settle_outcome(
    outcome: DecideResult, location: str, keys: Path | None, *, terms: Terms, names_rounds: Callable[[], bool]
) -> str:
    """Settle every round in order; returns a line that says so.

    The operator vouches for the figures: no client signed them. `names_rounds` tells whether their file does.
    """
    with needed_for("a ledger", "ledger"):
        from commonweal.federation.settlement import FederationLedger
        from commonweal.ledger.currencies import money_in_words
        from commonweal.ledger.sql.location import shown

    history = outcome.replay.history
    members: dict[str, str | None] = dict.fromkeys(history.clients)
    agreed = _agreed(outcome)
    with closing(
        FederationLedger(location, key_directory(keys), name=terms.name, members=members, terms=terms, agreed=agreed)
    ) as federation_ledger:
        federation_ledger.check()
        receipts = []
        for record in history.rounds:
            try:
                receipts.append(federation_ledger.settle(record, outcome.replay.sample_counts.get(record.round_number)))
            except CommonwealError as error:
                settled = federation_ledger.settled_rounds
                if record.round_number in settled and not names_rounds():
                    raise type(error)(
                        f"{error} The file has no column round, so its figures count as round 1. If they are those of "
                        f"another round, add the column: {max(settled) + 1} is the next one."
                    ) from None
                if not receipts:
                    raise
                raise type(error)(f"{error} The rounds before {record.round_number} are settled.") from None
    fresh = [receipt.entry for receipt in receipts if receipt.fresh]
    known = len(receipts) - len(fresh)
    said = [f"new ledger {money_in_words(terms)}"] if federation_ledger.has_opened else []
    if fresh:
        entries = f"entries {fresh[0]} to {fresh[-1]}" if len(fresh) > 1 else f"entry {fresh[0]}"
        said.append(f"{len(fresh)} round{'s' * (len(fresh) > 1)} settled as {entries}")
    if known:
        said.append(f"{known} round{'s' * (known > 1)} already settled")
        if not names_rounds():
            said.append("the file has no column round, so its figures count as round 1")
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
