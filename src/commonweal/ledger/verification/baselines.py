"""Check that each round goes on from the one before: with its model, and from what each client measured on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.ledger.reports import bases_in
from commonweal.ledger.verification.replay import LedgerReplay


def check_goes_on(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """Rounds that were reversed count too: a reversal does not change what members have trained and measured."""
    round_number, bases = body["round"], bases_in(body)
    before = {each: rounds for each, rounds in replay.bases.items() if each < round_number}
    if before and bases:
        last = max(before)
        models = {basis.model for own in before[last].values() for basis in own}
        client, first = next(iter(bases.items()))
        if first.opening_model not in models:
            rule = "a round opens with the model of the round before"
            expected = f"the model of round {last}, {' or '.join(sorted(model[:16] for model in models))}…"
            replay.findings.add(number, rule, expected, f"{first.opening_model[:16]}… in the report of {client}")
    for client, basis in bases.items():
        rounds = [each for each, settled in before.items() if client in settled]
        if not rounds or basis.measured is None:
            continue
        measured = [each.measured for each in before[max(rounds)][client]]
        if None not in measured and basis.baseline not in measured:
            rule = "utility is measured from what the client measured in its last settled round"
            expected = f"{' or '.join(map(str, measured))} as {client} signed in round {max(rounds)}"
            replay.findings.add(number, rule, expected, str(basis.baseline))
    for client, basis in bases.items():
        replay.bases.setdefault(round_number, {}).setdefault(client, []).append(basis)
