"""Decide a settled round again, with the version of the mechanism that the ledger names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from commonweal.decision.mechanism import Mechanism, RoundDecider
from commonweal.decision.mechanisms import mechanism_of_version
from commonweal.errors import InputError
from commonweal.ledger.verification.replay import Recompute, Recomputed, RecordedInputs
from commonweal.records import Figures, MechanismFile
from commonweal.records.rounds import GAIN, SIMILARITY


def recompute_with(files: Iterable[MechanismFile]) -> Recompute:
    """Recomputes rounds that were decided by files of users, too; a file is run only if a round names its hash."""
    by_version = {file.version: file for file in files}
    return lambda inputs: recompute(replace(inputs, rules=replace(inputs.rules, file=by_version.get(inputs.version))))


def recompute(inputs: RecordedInputs) -> Recomputed:
    """The decision of a round as it was made, with the mechanism's state after it and its plan for the next one."""
    mechanism = mechanism_of_version(inputs.version, inputs.rules)
    if inputs.rules.mechanism != mechanism.name:
        raise InputError(
            f"The rules name the mechanism {inputs.rules.mechanism!r}, but version {inputs.version!r} is one of "
            f"{mechanism.name!r}."
        )
    unknown = sorted(set(dict(inputs.rules.parameters)) - set(mechanism.parameters))
    if unknown:
        raise InputError(f"The mechanism {mechanism.name!r} has no parameter {unknown[0]!r}.")
    unread = next((name for name in inputs.figures.further if not _is_read(name, inputs.figures, mechanism)), None)
    if unread is not None:
        raise InputError(f"The mechanism {mechanism.name!r} reads no figure {unread!r} of a client.")
    decider = RoundDecider(mechanism)
    decider.state = inputs.state
    decision = decider.decide(
        inputs.figures,
        grace=inputs.grace,
        sample_counts=inputs.sample_counts,
        harmful=inputs.harmful,
        finished=inputs.finished,
        round_number=inputs.round_number,
    )
    planned = None
    if mechanism.decides and inputs.active is not None:
        planned = decider.plan(
            decision, inputs.active, sample_counts=inputs.sample_counts, round_number=inputs.round_number
        )
    return Recomputed(decision=decision, state=decider.state, instructions=planned)


def _is_read(name: str, figures: Figures, mechanism: Mechanism) -> bool:
    """Whether a further figure is one that the mechanism reads; of gains, profits follow by agreed rates.

    The name of any other could mean anything to a person, and nobody signs those of similarities.
    """
    if name.startswith(SIMILARITY):
        return "similarity" in mechanism.reads_further and name.removeprefix(SIMILARITY) in figures.clients
    return name == GAIN or name in mechanism.reads_further
