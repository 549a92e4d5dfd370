"""One replication under many mechanisms at once: those that have decided alike so far share the next round.

The rounds form a tree: a node is a round after one history, and its branches are the different steps that mechanisms
take next. Each node is trained once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from commonweal.comparison.contenders import Contender
from commonweal.comparison.histories import Histories, Step, Steps, TrainedRound
from commonweal.decision.mechanism import RoundDecider
from commonweal.errors import CommonwealError, InputError
from commonweal.federation.fates import KnownFates, known_fates
from commonweal.federation.session import decide_measured
from commonweal.records import History, Instructions, RoundRecord
from commonweal.records.rounds import GAIN, SIMILARITY
from commonweal.scenario.spec import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A mechanism's own history in one replication."""

    contender: Contender
    rounds: tuple[tuple[TrainedRound, RoundRecord], ...]
    refusal: str | None = None  # why it could not decide a round; then `rounds` are those before it

    def history(self, scenario: Scenario) -> History:
        return History(clients=scenario.client_names, rounds=tuple(record for _, record in self.rounds))

    def steps(self, scenario: Scenario) -> list[Steps]:
        """The history up to each of its rounds."""
        active, instructions = scenario.client_names, Instructions()
        found: list[Steps] = []
        for _, record in self.rounds:
            before = found[-1] if found else ()
            found.append((*before, Step.of(active, instructions, scenario)))
            active, instructions = _next(active, record), record.instructions
        return found


@dataclass(slots=True, kw_only=True)
class _Follower:
    contender: Contender
    decider: RoundDecider
    rounds: list[tuple[TrainedRound, RoundRecord]] = field(default_factory=list)


def follow(histories: Histories, contenders: Sequence[Contender]) -> list[Followed]:
    """Run the federation by each of the mechanisms; results are in their order.

    A mechanism that refuses a round is left there, with its reason; one that was asked for by name is an error.
    """
    scenario = histories.scenario
    everybody = [_Follower(contender=one, decider=RoundDecider(_seeded(one, scenario).mechanism)) for one in contenders]
    first = (Step.of(scenario.client_names, Instructions(), scenario),)
    waiting: list[tuple[Steps, list[_Follower]]] = [(first, everybody)]
    continuations: Counter[Steps] = Counter()  # that are still waiting, by the history they continue
    refusals: dict[str, str] = {}
    while waiting:
        steps, followers = waiting.pop()
        trained = histories.round(steps)
        if steps[:-1]:
            continuations[steps[:-1]] -= 1
            if not continuations[steps[:-1]]:
                histories.forget_state(steps[:-1])
        scored = [histories.round(steps[:count]).measured.scored for count in range(1, len(steps))]
        known = known_fates(trained.measured, scenario, scored)
        branches: dict[Step, list[_Follower]] = defaultdict(list)
        for follower in followers:
            try:
                record = _decided(follower, trained, steps[-1], known, scenario)
            except CommonwealError as error:
                reason = f"in round {len(steps)} (seed {scenario.seed}): {error}"
                if follower.contender.is_asked_for:
                    raise InputError(f"The mechanism {follower.contender.name!r} cannot decide {reason}") from None
                refusals[follower.contender.name] = reason
                continue
            follower.rounds.append((trained, record))
            active = _next(steps[-1].active, record)
            if len(active) >= 2 and len(steps) < scenario.round_count and not known.finished:
                branches[Step.of(active, record.instructions, scenario)].append(follower)
        continuations[steps] = len(branches)
        if not branches:
            histories.forget_state(steps)
        waiting.extend(((*steps, step), some) for step, some in branches.items())
    return [
        Followed(contender=one.contender, rounds=tuple(one.rounds), refusal=refusals.get(one.contender.name))
        for one in everybody
    ]


def _next(active: tuple[str, ...], record: RoundRecord) -> tuple[str, ...]:
    """Who is active after a round."""
    return tuple(client for client in active if client not in record.left)


def _seeded(contender: Contender, scenario: Scenario) -> Contender:
    """With the replication's seed among the rules, if the mechanism draws lots."""
    spec = replace(scenario.mechanism, rules=contender.rules).seeded(scenario.seed)
    return replace(contender, rules=spec.rules)


def _decided(
    follower: _Follower, trained: TrainedRound, step: Step, known: KnownFates, scenario: Scenario
) -> RoundRecord:
    """The round as the mechanism decides it, with its instructions for the next one."""
    decider, measured = follower.decider, trained.measured
    reads = decider.mechanism.reads_further
    columns = {
        name: column
        for name, column in measured.figures.further.items()
        if name == GAIN or ("similarity" if name.startswith(SIMILARITY) else name) in reads
    }
    own = replace(measured, figures=replace(measured.figures, further=columns))
    decision = decide_measured(own, decider, scenario, known)
    instructions = decider.plan(
        decision,
        [client for client in step.active if client not in decision.eliminated],
        sample_counts=measured.sample_counts,
        round_number=measured.round_number,
    )
    return RoundRecord(
        round_number=measured.round_number,
        decision=decision,
        harm=known.harm,
        ending=known.ending,
        gains=measured.gains,
        resting=tuple(client for client in step.active if client not in step.asked),
        instructions=instructions,
    )
