"""Check what a mechanism decided about the next round, and that those rested in it who were not asked to take part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.ledger.plans import left_out, staying
from commonweal.ledger.rounds import resting_in
from commonweal.ledger.verification.replay import LedgerReplay
from commonweal.records import Instructions

WITH_ALL = "the next round is planned with all who stay"


def check_plan(number: int, body: Mapping[str, Any], planned: Instructions | None, replay: LedgerReplay) -> None:
    """The plan follows from the round; only a mechanism that plans something states one.

    Where rules are agreed, it is made with everybody who stays. Who is missing must withdraw: that is found in the next
    round, since the notice follows this one in the ledger.
    """
    stated = body["plan"]["instructions"] if "plan" in body else None
    computed = None if planned is None else planned.to_document()
    if computed is not None and "participants" in computed:
        computed["participants"] = list(computed["participants"])
    replay.findings.compare(number, "the plan for the next round follows from this one", computed, stated)
    if "plan" in body and replay.state.has_rules:
        active = body["plan"]["active"]
        expected = [client for client in staying(body, replay.state) if client in active]
        replay.findings.compare(number, f"{WITH_ALL}, in the order of admission", expected, active)


def check_resting(number: int, round_number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """Who rests in a round is who was not asked by the plan that the round before it states."""
    before = max((each for each in replay.state.rounds if each < round_number), default=0)
    listed = replay.state.listed_in(round_number)
    asked = set(replay.plans.get(before, Instructions()).asked(listed))
    expected = [client for client in listed if client not in asked]
    rule = "those rest whom the plan of the round before did not ask to take part"
    replay.findings.compare(number, rule, expected, list(resting_in(body)))
    if replay.state.has_rules and before in replay.planned_with:
        for client in left_out(replay.planned_with[before], round_number, replay.state):
            found = f"planned without it in entry {replay.state.rounds[before]}, and {client} is still a member"
            replay.findings.add(number, WITH_ALL, f"round {round_number} planned with {client}", found)
    if "resting" in body and not body["resting"]:
        replay.findings.add(number, rule, "no word of it if nobody rests", "an empty list")
