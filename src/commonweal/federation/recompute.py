"""Decide a settled round again, with the version of the mechanism that the ledger names."""

from __future__ import annotations

from commonweal.decision.mechanism import State, decide_round
from commonweal.decision.mechanisms import mechanism_of_version
from commonweal.errors import InputError
from commonweal.ledger.verification.replay import RecordedInputs
from commonweal.records import Decision


def recompute(inputs: RecordedInputs) -> tuple[Decision, State]:
    """The decision of a round as it was made, and the mechanism's state after it."""
    mechanism = mechanism_of_version(inputs.version, inputs.rules)
    if inputs.rules.mechanism != mechanism.name:
        raise InputError(
            f"The rules name the mechanism {inputs.rules.mechanism!r}, but version {inputs.version!r} is one of "
            f"{mechanism.name!r}."
        )
    unknown = sorted(set(dict(inputs.rules.parameters)) - set(mechanism.parameters))
    if unknown:
        raise InputError(f"The mechanism {mechanism.name!r} has no parameter {unknown[0]!r}.")
    return decide_round(
        mechanism,
        inputs.figures,
        inputs.state,
        grace=inputs.grace,
        sample_counts=inputs.sample_counts,
        harmful=inputs.harmful,
        finished=inputs.finished,
    )
