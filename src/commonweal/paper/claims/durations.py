"""Claims on how long clients take part: C1 to C5."""

from __future__ import annotations

import numpy as np

from commonweal.paper.claims.claim import Claim, Effect
from commonweal.paper.claims.sample import FINITE, LENIENT, STRICT, Sample, Values
from commonweal.paper.claims.sentences import (
    by_mu,
    client_0_beside_others,
    joined,
    loss_makers_without_contribution,
    saturation,
)
from commonweal.paper.experiments import EXPERIMENTS
from commonweal.records.study import Verdict

MUCH = 0.25
"""What "much earlier" means: client 0 stays for less than three quarters of the others' time."""

AT_ONCE_ROUNDS = 2.0
"""Nobody can be eliminated before the end of round 1, so leaving after round 2 on average is not at once."""


def _longer(sample: Sample) -> Effect:
    mean = sample.durations.mean(axis=2)
    return Effect(mean[:, LENIENT] - mean[:, STRICT])


def _others_longer(sample: Sample) -> Effect:
    others = sample.durations[:, :, 1:].mean(axis=2)
    return Effect(others[:, LENIENT] - others[:, STRICT])


def _lead(sample: Sample) -> Effect:
    return Effect(np.stack(_own_and_others(sample), axis=1), _relative_lead)


def _stays_longer(sample: Sample) -> Effect:
    own, others = _own_and_others(sample)
    return Effect(own - others)


def _own_duration(sample: Sample) -> Effect:
    own, _ = _own_and_others(sample)
    return Effect(own)


def _own_and_others(sample: Sample) -> tuple[Values, Values]:
    """The duration of client 0 and the mean of the others in each replication, as means over the finite μ."""
    finite = sample.durations[:, FINITE]
    return finite[:, :, 0].mean(axis=1), finite[:, :, 1:].mean(axis=(1, 2))


def _relative_lead(means: Values) -> Values:
    return np.asarray(1 - means[:, 0] / means[:, 1])


def _falls(sample: Sample) -> str:
    """A larger μ can shorten a client's stay, in the same round or after a different history."""
    falling = (np.diff(sample.durations[:, FINITE], axis=1) < 0).any(axis=(1, 2)).sum()
    if not falling:
        return ""
    return (
        f"In {falling} of {sample.replication_count} replications some client stays for a shorter time at the larger "
        "of two finite μ, because different decisions lead to different training and retained sets need not be nested"
    )


def _growth_driver(sample: Sample, verdict: Verdict) -> str:
    if verdict == "held":
        return joined(_falls(sample))
    return joined(_falls(sample), loss_makers_without_contribution(sample), saturation(sample))


def _others_growth_driver(sample: Sample, verdict: Verdict) -> str:
    others = sample.durations[:, FINITE, 1:].mean(axis=(0, 2))
    course = f"Mean duration of the others in rounds: {by_mu(sample, others)}"
    if verdict == "held":
        return joined(course)
    return joined(course, loss_makers_without_contribution(sample), saturation(sample))


def _beside_others_driver(sample: Sample, verdict: Verdict) -> str:
    if verdict == "held":
        return ""
    finite = sample.durations[:, FINITE]
    longer = finite[:, :, 0].mean(axis=0) - finite[:, :, 1:].mean(axis=(0, 2))
    return joined(
        f"Mean duration of {sample.clients[0]} minus that of the others, in rounds: {by_mu(sample, longer)}",
        client_0_beside_others(sample),
    )


def _own_driver(sample: Sample, verdict: Verdict) -> str:
    own = sample.durations[:, FINITE, 0].mean(axis=0)
    course = f"Mean duration of {sample.clients[0]} in rounds: {by_mu(sample, own)}"
    return joined(course) if verdict == "held" else joined(course, saturation(sample))


_LEAD = "how much shorter client 0 stays than the others, relative to them, mean over the finite μ"

CLAIMS = (
    Claim(
        name="C1",
        statement="The larger μ is, the longer clients stay.",
        experiments=EXPERIMENTS,
        effect="duration at μ = {mu} minus that at μ = 0, mean over clients, in rounds",
        threshold=0.0,
        measure=_longer,
        driver=_growth_driver,
    ),
    Claim(
        name="C2",
        statement="The large client on MNIST leaves much earlier than the others.",
        experiments=("large-mnist",),
        effect=_LEAD,
        threshold=MUCH,
        measure=_lead,
        driver=_beside_others_driver,
    ),
    Claim(
        name="C3a",
        statement="The large client on CIFAR-10 leaves before the others.",
        experiments=("large-cifar10",),
        effect=_LEAD,
        threshold=0.0,
        measure=_lead,
        driver=_beside_others_driver,
    ),
    Claim(
        name="C3b",
        statement="The large client on CIFAR-10 is not eliminated immediately.",
        experiments=("large-cifar10",),
        effect="duration of client 0, mean over the finite μ, in rounds",
        threshold=AT_ONCE_ROUNDS,
        measure=_own_duration,
        driver=_own_driver,
    ),
    Claim(
        name="C4",
        statement="The small client stays longer than the others.",
        experiments=("small-mnist", "small-cifar10"),
        effect="duration of client 0 minus that of the others, mean over the finite μ, in rounds",
        threshold=0.0,
        measure=_stays_longer,
        driver=_beside_others_driver,
    ),
    Claim(
        name="C5a",
        statement="The client with noisy labels leaves very early.",
        experiments=("label-noise",),
        effect=_LEAD,
        threshold=MUCH,
        measure=_lead,
        driver=_beside_others_driver,
    ),
    Claim(
        name="C5b",
        statement="The durations of the clients with clean labels grow with μ.",
        experiments=("label-noise",),
        effect="duration at μ = {mu} minus that at μ = 0, mean over all clients except client 0, in rounds",
        threshold=0.0,
        measure=_others_longer,
        driver=_others_growth_driver,
    ),
)
