"""What is known about a measured round before its mechanism decides: who is harmful, and whether the end has come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from commonweal.decision.ending import find_ending
from commonweal.decision.reasons import harm_in_words, how_sure_of_the_end
from commonweal.federation.round_result import MeasuredRound
from commonweal.records import FINISHED, Ending, Event, HarmEvidence, RoundRecord
from commonweal.scenario.spec import FederationPlan
from commonweal.valuation.harm import ScoredRound, find_harm, is_minority


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFates:
    """What is known about the fates of a round before its mechanism decides."""

    harm: tuple[HarmEvidence, ...] = ()
    harmful: tuple[str, ...] = ()  # those who are eliminated for it
    ending: Ending | None = None
    finished: bool = False  # the federation ends for it


def known_fates(measured: MeasuredRound, plan: FederationPlan, earlier: Sequence[ScoredRound | None]) -> KnownFates:
    """By the plan's rules; `earlier` are the scored rounds before this one.

    A grace round settles nothing, and is no evidence of harm in later ones either: effects on a model that has hardly
    been trained say little. If half of the clients or more come out harmful, it may be their scores that are wrong, so
    the operator is told, and nobody is eliminated for it.
    """
    mechanism, grace_rounds = plan.mechanism, plan.mechanism.grace_rounds
    if measured.round_number <= grace_rounds:
        return KnownFates()
    scored = [each for each in (*earlier, measured.scored) if each is not None and each.number > grace_rounds]
    harm: tuple[HarmEvidence, ...] = ()
    if mechanism.harm != "none" and scored:
        harm = find_harm(scored, test_count=(plan.round_count - grace_rounds) * len(plan.client_names))
    are_few = is_minority(len(harm), len(measured.figures.clients))
    harmful = tuple(one.client for one in harm) if mechanism.harm == "eliminate" and are_few else ()
    expected = measured.figures.without(harmful).expected
    ending = None if mechanism.ending == "none" or expected is None else find_ending(expected)
    return KnownFates(
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
    sure = how_sure_of_the_end(record.ending_stability, is_advice=not record.decision.finished)
    known = f"{best}; {sure}" if sure else best
    what = "The federation ends" if record.decision.finished else "Consider ending the federation"
    return (*advice, Event(kind="finished", client=None, text=f"{FINISHED.capitalize()} ({known}). {what}."))
