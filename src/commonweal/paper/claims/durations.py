"""Claims on how long clients take part: C1 to C5."""

from __future__ import annotations

import numpy as np

from commonweal.paper.claims.claim import Claim, Effect
from commonweal.paper.claims.sample import FINITE, LENIENT, POSITIVE, STRICT, Sample, Values
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


def _longer(sample: Sample) -> Effect:
    mean = sample.durations.mean(axis=2)
    return Effect(mean[:, LENIENT] - mean[:, STRICT])


def _others_longer(sample: Sample) -> Effect:
    others = sample.durations[:, :, 1:].mean(axis=2)
    return Effect(others[:, LENIENT] - others[:, STRICT])


def _lead(sample: Sample) -> Effect:
    return Effect(np.stack(_own_and_others(sample), axis=1), _relative_lead)


def _lead_above_0(sample: Sample) -> Effect:
    """At μ = 0 contributions play no part, so a sentence about them is about μ > 0."""
    return Effect(np.stack(_own_and_others(sample, POSITIVE), axis=1), _relative_lead)


def _others_grow_more(sample: Sample) -> Effect:
    grown = sample.durations[:, LENIENT] - sample.durations[:, STRICT]
    return Effect(grown[:, 1:].mean(axis=1) - grown[:, 0])


def _later_than_beside(sample: Sample) -> Effect:
    assert sample.beside is not None
    own, beside = _own_and_others(sample)[0], _own_and_others(sample.beside)[0]
    return Effect(own - beside)


def _stays_longer(sample: Sample) -> Effect:
    own, others = _own_and_others(sample)
    return Effect(own - others)


def _own_and_others(sample: Sample, mus: slice = FINITE) -> tuple[Values, Values]:
    """The duration of client 0 and the mean of the others in each replication, as means over the finite μ."""
    finite = sample.durations[:, mus]
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


def _grow_more_driver(sample: Sample, verdict: Verdict) -> str:
    own, others = sample.durations[:, FINITE, 0].mean(axis=0), sample.durations[:, FINITE, 1:].mean(axis=(0, 2))
    return joined(
        f"Mean duration of {sample.clients[0]} in rounds: {by_mu(sample, own)}",
        f"Of the others: {by_mu(sample, others)}",
    )


def _beside_driver(sample: Sample, verdict: Verdict) -> str:
    assert sample.beside is not None
    own, beside = (one.durations[:, FINITE, 0].mean(axis=0) for one in (sample, sample.beside))
    return joined(
        f"Mean duration of {sample.clients[0]} in rounds: {by_mu(sample, own)}",
        f"Of {sample.beside.clients[0]} in the other experiment: {by_mu(sample.beside, beside)}",
    )


_LEAD = "how much shorter client 0 stays than the others, relative to them, mean over the finite μ"

CLAIMS = (
    Claim(
        name="C1",
        quote="We can observe that setting a larger value for μ allows a longer duration for clients to stay in the "
        "federation.",
        statement="The larger μ is, the longer clients stay.",
        experiments=EXPERIMENTS,
        effect="duration at μ = {mu} minus that at μ = 0, mean over clients, in rounds",
        threshold=0.0,
        measure=_longer,
        driver=_growth_driver,
    ),
    Claim(
        name="C2",
        quote="we notice that the client MNIST0 gets eliminated much earlier in comparison to other MNIST clients.",
        statement="The large client on MNIST leaves much earlier than the others.",
        experiments=("large-mnist",),
        effect=_LEAD,
        threshold=MUCH,
        measure=_lead,
        driver=_beside_others_driver,
        most=1.0,
    ),
    Claim(
        name="C3a",
        quote="it is eliminated before other CIFAR clients.",
        statement="The large client on CIFAR-10 leaves before the others.",
        experiments=("large-cifar10",),
        effect=_LEAD,
        threshold=0.0,
        measure=_lead,
        driver=_beside_others_driver,
        most=1.0,
    ),
    Claim(
        name="C3b",
        quote="For the CIFAR-10 dataset, the effective number of effective samples to stabilize the federated learning "
        "model is relatively larger. Hence, the client CIFAR0 is not eliminated immediately",
        statement="The large client stays longer on CIFAR-10 than on MNIST.",
        experiments=("large-cifar10",),
        effect="duration of client 0 on CIFAR-10 minus that on MNIST, mean over the finite μ, in rounds",
        threshold=0.0,
        measure=_later_than_beside,
        driver=_beside_driver,
        beside="large-mnist",
    ),
    Claim(
        name="C4",
        quote="we observe that the average elimination round for client 0 is larger in comparison to other clients, as "
        "expected.",
        statement="The small client stays longer than the others.",
        experiments=("small-mnist", "small-cifar10"),
        effect="duration of client 0 minus that of the others, mean over the finite μ, in rounds",
        threshold=0.0,
        measure=_stays_longer,
        driver=_beside_others_driver,
    ),
    Claim(
        name="C5a",
        quote="We observe that the low-quality client 0 is eliminated very early",
        statement="The client with noisy labels leaves very early.",
        experiments=("label-noise",),
        effect="how much shorter client 0 stays than the others, relative to them, mean over the finite μ > 0",
        threshold=MUCH,
        measure=_lead_above_0,
        driver=_beside_others_driver,
        most=1.0,
    ),
    Claim(
        name="C5b",
        quote="whereas the average elimination round for other clients grows steadily as we grow the parameter μ.",
        statement="The durations of the clients with clean labels grow with μ.",
        experiments=("label-noise",),
        effect="duration at μ = {mu} minus that at μ = 0, mean over all clients except client 0, in rounds",
        threshold=0.0,
        measure=_others_longer,
        driver=_others_growth_driver,
    ),
    Claim(
        name="C5c",
        quote="the low-quality client 0 is eliminated very early, whereas the average elimination round for other "
        "clients grows steadily as we grow the parameter μ.",
        statement="The durations of the clients with clean labels grow more with μ than that of the client with noisy "
        "ones.",
        experiments=("label-noise",),
        effect="growth of the duration from μ = 0 to μ = {mu}: mean of the others minus client 0, in rounds",
        threshold=0.0,
        measure=_others_grow_more,
        driver=_grow_more_driver,
    ),
)
