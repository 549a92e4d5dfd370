"""Check what a mechanism decided about the next round, and that those rested in it who were not asked to take part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.ledger.rounds import resting_in
from commonweal.ledger.verification.replay import LedgerReplay
from commonweal.records import Instructions


def check_plan(number: int, body: Mapping[str, Any], planned: Instructions | None, replay: LedgerReplay) -> None:
    """The plan follows from the round; only a mechanism that plans something states one."""
    stated = body["plan"]["instructions"] if "plan" in body else None
    computed = None if planned is None else planned.to_document()
    if computed is not None and "participants" in computed:
        computed["participants"] = list(computed["participants"])
    replay.findings.compare(number, "the plan for the next round follows from this one", computed, stated)


def check_resting(number: int, round_number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """Who rests in a round is who was not asked by the plan that the round before it states."""
    before = max((each for each in replay.state.rounds if each < round_number), default=0)
    listed = replay.state.listed_in(round_number)
    asked = set(replay.plans.get(before, Instructions()).asked(listed))
    expected = [client for client in listed if client not in asked]
    rule = "those rest whom the plan of the round before did not ask to take part"
    replay.findings.compare(number, rule, expected, list(resting_in(body)))
    if "resting" in body and not body["resting"]:
        replay.findings.add(number, rule, "no word of it if nobody rests", "an empty list")
