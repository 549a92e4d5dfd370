"""Decide rounds whose figures were measured elsewhere, one after another.

Tracks who is active, ignores the figures of eliminated clients, and records who is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from commonweal.decision.mechanism import Mechanism, RoundDecider
from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import InputError
from commonweal.federation.evidence import Pooling, stated_evidence
from commonweal.records import Figures, History, RoundRecord, Rules
from commonweal.valuation.pooled_utilities import with_pooled_utilities


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The decided history, and which figures were not used."""

    history: History
    ignored: dict[int, tuple[str, ...]]  # by round: clients that had been eliminated before
    ended_after: int | None  # the round after which fewer than two clients were left, if rounds follow it
    measured: Mapping[int, Figures] = field(default_factory=dict)  # by round: as given, if others were used
    sample_counts: Mapping[int, Mapping[str, int]] = field(default_factory=dict)  # by round, where they are read
    explained: Mapping[int, Mapping[str, str]] = field(default_factory=dict)  # by round: why clients were eliminated


def replay(
    rounds: Sequence[tuple[int, Figures]],
    rules: Rules,
    *,
    grace_rounds: int = 0,
    figures_rule: Literal["measured", "pooled"] = "measured",
    progress: Callable[[int], None] | None = None,
) -> Replay:
    """Decide the rounds in order; in the first `grace_rounds` of them nobody is eliminated.

    All clients are active from the start: a client without figures in a round is absent from it and may return. The
    federation ends when eliminations leave fewer than two clients. With the figures rule "pooled", utilities are pooled
    over the clients that take part in a round, without those that do so for the first time after the first round. What
    the mechanism decides about the next round is recorded, but not carried out: the figures say who took part.
    """
    if not isinstance(grace_rounds, int) or isinstance(grace_rounds, bool) or grace_rounds < 0:
        raise InputError(
            f"grace_rounds must be a whole number of at least 0, got {grace_rounds!r}. Use 0 for no grace rounds."
        )
    active = dict.fromkeys(client for _, figures in rounds for client in figures.profits)
    clients = tuple(active)
    if figures_rule not in ("measured", "pooled"):
        raise InputError(f"figures_rule must be measured or pooled, got {figures_rule!r}.")
    records: list[RoundRecord] = []
    measured: dict[int, Figures] = {}
    ignored: dict[int, tuple[str, ...]] = {}
    sample_counts: dict[int, Mapping[str, int]] = {}
    explained: dict[int, Mapping[str, str]] = {}
    ended_after: int | None = None
    seen: set[str] = set()
    decider = RoundDecider(make_mechanism(rules))
    for position, (round_number, figures) in enumerate(rounds):
        if len(active) < min(2, len(clients)):
            ended_after = records[-1].round_number
            break
        late = tuple(client for client in figures.profits if client not in active)
        if late:
            ignored[round_number] = late
            figures = figures.without(late)
        if figures.profits:
            newcomers = [client for client in figures.profits if records and client not in seen]
            seen.update(figures.profits)
            given = figures
            if figures_rule == "pooled":
                measured[round_number], figures = given, with_pooled_utilities(given, newcomers)
            figures, counts = read_by(decider.mechanism, figures)
            state = decider.state
            decision = decider.decide(
                figures, grace=position < grace_rounds, sample_counts=counts, round_number=round_number
            )
            if counts:
                sample_counts[round_number] = counts
            if not decider.mechanism.takes_mu:
                explained[round_number] = decider.explanations(
                    decision, state, sample_counts=counts, round_number=round_number
                )
            absent = (
                tuple(client for client in active if client not in figures.profits)
                if len(figures.profits) < len(active)
                else ()
            )
            pooling = None if figures_rule == "measured" else Pooling(measured=given, newcomers=newcomers)
            evidence = stated_evidence(
                decision, decider.mechanism, state, round_number, pooling=pooling, sample_counts=counts
            )
            for client in decision.eliminated:
                del active[client]
            records.append(
                RoundRecord(
                    round_number=round_number,
                    decision=decision,
                    absent=absent,
                    evidence=evidence,
                    instructions=decider.plan(decision, tuple(active), sample_counts=counts, round_number=round_number),
                )
            )
        if progress is not None:
            progress(position + 1)
    return Replay(
        history=History(clients=clients, rounds=tuple(records)),
        ignored=ignored,
        ended_after=ended_after,
        measured=measured,
        sample_counts=sample_counts,
        explained=explained,
    )


def read_by(mechanism: Mechanism, figures: Figures) -> tuple[Figures, dict[str, int]]:
    """The figures that the mechanism reads, and the new samples of each client, if it reads those."""
    counts = figures.further.get("sample_count", {}) if "sample_count" in mechanism.reads else {}
    if "sample_count" in mechanism.reads and not counts:
        raise InputError(f"Mechanism {mechanism.name!r} needs the sample_count of each client. Give it.")
    further = {name: column for name, column in figures.further.items() if name in mechanism.reads_further}
    return replace(figures, further=further), {client: int(count) for client, count in counts.items()}
