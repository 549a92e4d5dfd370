"""Check what a mechanism decided about the next round, and that those rested in it who were not asked to take part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from commonweal.ledger.plans import left_out, staying
from commonweal.ledger.readable import UNREADABLE
from commonweal.ledger.rounds import resting_in
from commonweal.ledger.verification.replay import LedgerReplay
from commonweal.records import Instructions

WITH_ALL = "the next round is planned with all who stay"


def check_plan(number: int, body: Mapping[str, Any], planned: Instructions | None, replay: LedgerReplay) -> None:
    """The plan follows from the round; only a mechanism that plans something states one.

    Where rules are agreed, it is made with everybody who stays. Who is missing must withdraw: that is found in the next
    round, since the notice follows this one in the ledger. A notice of somebody it was made with is a note, at the end.
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


def note_planned_with_the_gone(replay: LedgerReplay) -> None:
    """Note plans with somebody who had left by its notice, if the others rest or take part because of it.

    An operator could hold back the notice until the plan is made. The client may also have decided to leave after that.
    """
    state = replay.state
    for round_number, entry in sorted(state.rounds.items()):
        planned_with, inputs = replay.planned_with.get(round_number, ()), replay.planned_from.get(round_number)
        gone = [c for c in planned_with if state.withdrawn.get(c, round_number + 1) <= round_number]
        stay = tuple(client for client in planned_with if client not in gone)
        if not gone or not stay or inputs is None or state.terms_of(round_number).terms.agreed is None:
            continue
        try:
            without = replay.recompute(replace(inputs, active=stay)).instructions or Instructions()
        except UNREADABLE:  # a mechanism of somebody's own may not plan with fewer
            continue
        if changed := _changed_by_them(replay.plans[round_number], without, stay):
            notices = ", ".join(f"{client}, whose notice is entry {state.withdrawals[client]}" for client in gone)
            expected, found = f"planned without {', '.join(gone)}", f"planned with {notices}: {changed}"
            replay.notes.add(entry, WITH_ALL, expected, found)


def _changed_by_them(stated: Instructions, without: Instructions, stay: Sequence[str]) -> str:
    """What a plan asks of those who stay because others were counted in it; empty if it asks the same."""
    asked, asked_without = (set(plan.asked(stay)) for plan in (stated, without))
    resting = [client for client in stay if client in asked_without - asked]
    there = [client for client in stay if client in asked - asked_without]
    said = [f"{', '.join(who)} {what}" for who, what in ((resting, "rests"), (there, "takes part")) if who]
    if not said and any(_work_of(c, stated) != _work_of(c, without) for c in asked):
        said = ["other work is asked for"]
    return f"{' and '.join(said)} because of it" if said else ""


def _work_of(client: str, plan: Instructions) -> tuple[object, ...]:
    return plan.data_shares.get(client), plan.model_shares.get(client), plan.iteration_limit
