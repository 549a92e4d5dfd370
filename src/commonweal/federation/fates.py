"""What is settled about a measured round before its mechanism decides: who is harmful, and whether the end has come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from commonweal.decision.ending import find_ending
from commonweal.decision.reasons import harm_in_words
from commonweal.federation.round_result import MeasuredRound
from commonweal.records import FINISHED, Ending, Event, HarmEvidence, RoundRecord
from commonweal.scenario.spec import FederationPlan
from commonweal.valuation.harm import ScoredRound, find_harm


@dataclass(frozen=True, slots=True, kw_only=True)
class Foregone:
    """What no mechanism can change about a round."""

    harm: tuple[HarmEvidence, ...] = ()
    harmful: tuple[str, ...] = ()  # those who are eliminated for it
    ending: Ending | None = None
    finished: bool = False  # the federation ends for it


def foregone(measured: MeasuredRound, plan: FederationPlan, earlier: Sequence[ScoredRound]) -> Foregone:
    """By the plan's rules; `earlier` are the scored rounds before this one.

    In grace rounds nobody is eliminated and nothing ends, but the operator is told of harm. If half of the clients or
    more came out harmful, it would be their scores that cannot be trusted, so that too is only told.
    """
    mechanism = plan.mechanism
    grace = measured.round_number <= mechanism.grace_rounds
    scored = measured.scored
    harm: tuple[HarmEvidence, ...] = ()
    if mechanism.harm != "none" and scored is not None:
        harm = find_harm([*earlier, scored], test_count=plan.round_count * len(plan.client_names))
    is_minority = 2 * len(harm) < len(measured.figures.clients)
    eliminates = mechanism.harm == "eliminate" and is_minority and not grace
    harmful = tuple(one.client for one in harm) if eliminates else ()
    expected = measured.figures.without(harmful).expected
    ending = None if mechanism.ending == "none" or grace or expected is None else find_ending(expected)
    return Foregone(
        harm=harm,
        harmful=harmful,
        ending=ending,
        finished=ending is not None and mechanism.ending == "stop",
    )


def events_of(record: RoundRecord) -> tuple[Event, ...]:
    """What the operator is told apart from the decision: harm that nobody is eliminated for, and the end."""
    advice = tuple(
        Event(
            kind="harmful",
            client=one.client,
            text=f"{one.client} harms the federation: {harm_in_words(one)}. It is not eliminated for it; look into it.",
        )
        for one in record.harm
        if one.client not in record.decision.harmful
    )
    if record.ending is None:
        return advice
    best = f"the two clients that expect most of it expect {record.ending.best_budget:+.4g} together"
    what = "The federation ends" if record.decision.finished else "Consider ending the federation"
    return (*advice, Event(kind="finished", client=None, text=f"{FINISHED.capitalize()}: {best}. {what}."))
