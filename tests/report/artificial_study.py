"""A study of made-up replications: the larger mu is, the later each client leaves; the rest follows from that."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from commonweal.records import MuRange
from commonweal.records.study import (
    ClaimResult,
    ExperimentStudy,
    Interval,
    MuOutcome,
    MuStep,
    Recommendation,
    SampleSheet,
    Study,
    SweepCost,
)

MUS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, math.inf)
ROUND_COUNT = 15
REBUILT = "SynthDigits is rebuilt, not the original."
ODD_NAME = '<b>&"'
HETEROGENEOUS = ("mnist", "svhn", "usps", "synthdigits-rebuilt", "mnist-m")
ALIKE = ("client-0", "client-1", "client-2", "client-3", "client-4")
LABELS = {
    "mnist": "MNIST",
    "svhn": "SVHN",
    "usps": "USPS",
    "synthdigits-rebuilt": "SynthDigits (rebuilt, not the original)",
    "mnist-m": "MNIST-M",
}


def interval(values):
    """Mean and normal interval; a point if all values are equal."""
    values = np.asarray(values, dtype=float)
    half = 1.96 * values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    mean = float(values.mean())
    return Interval(value=mean, lower=mean - float(half), upper=mean + float(half))


class Replications:
    """Durations, TSW and TSFI of each replication at any mu."""

    def __init__(self, clients, count, seed, early):
        random = np.random.default_rng(seed)
        self.clients, self.count = clients, count
        self.needed_mu = random.lognormal(-3.6, 1.0, (count, len(clients)))  # from which on a client stays
        self.first_departure = random.integers(2, 8, (count, len(clients)))
        self.gain = random.normal(1.0, 0.08, count)
        for client in early:
            place = clients.index(client)
            self.needed_mu[:, place] = 0.5  # where all replications change at once
            self.first_departure[:, place] = 1

    @property
    def breakpoints(self):
        return sorted({float(mu) for mu in (*self.needed_mu.flat, *(self.needed_mu / 3).flat)})

    def durations(self, mu):
        halfway = np.where(self.needed_mu / 3 <= mu, ROUND_COUNT - 4, self.first_departure)
        return np.where(self.needed_mu <= mu, ROUND_COUNT, halfway)

    def tsw(self, mu):
        rounds = np.arange(1, ROUND_COUNT + 1)
        stays = self.durations(mu)[:, :, None] >= rounds
        early = 2.6 * (1 - np.exp(-rounds / 2.2)) / len(self.clients)
        gains = np.diff(early, prepend=0) - 0.018
        return np.cumsum((stays * gains).sum(axis=1), axis=1) * self.gain[:, None]

    def tsfi(self, mu):
        rounds = np.arange(1, ROUND_COUNT + 1)
        stays = self.durations(mu)[:, :, None] >= rounds
        return np.cumsum(0.5 + 0.5 * stays.mean(axis=1), axis=1) / rounds


def outcome(replications, mu):
    durations, tsw, tsfi = replications.durations(mu), replications.tsw(mu), replications.tsfi(mu)
    return MuOutcome(
        mu=mu,
        replication_count=replications.count,
        durations={client: interval(durations[:, place]) for place, client in enumerate(replications.clients)},
        tsw=tuple(interval(after) for after in tsw.T),
        tsfi=tuple(interval(after) for after in tsfi.T),
        welfare_of_all=interval(tsw[:, -1] - 0.125),
        ended_early_share=float(((durations == ROUND_COUNT).sum(axis=1) <= 1).mean()),
    )


def axis_steps(replications):
    """The whole axis from 0 on, half-open pieces, and infinity as a point."""
    edges = [0.0, *replications.breakpoints, math.inf]
    exact = [edge if math.isinf(edge) else Fraction(edge) for edge in edges]
    ranges = [
        MuRange(exact_lower=lower, exact_upper=upper, closed_below=True, closed_above=False)
        for lower, upper in pairwise(exact)
    ]
    ranges.append(MuRange(exact_lower=math.inf, exact_upper=math.inf, closed_below=True, closed_above=True))

    def step(mus):
        at = outcome(replications, mus.lower)
        return MuStep(mus=mus, durations=at.durations, tsw=at.tsw[-1], tsfi=at.tsfi[-1])

    return tuple(map(step, ranges))


def recommendations(steps, targets=(0.8, 0.9, 0.95, 1.01)):
    """The last target is out of reach."""
    found = []
    for target in targets:
        fair = [step for step in steps if step.tsfi.value >= target]
        found.append(
            Recommendation(fairness_target=target, step=max(fair, key=lambda s: s.tsw.value) if fair else None)
        )
    return tuple(found)


def experiment(
    name, clients, *, seed, early=(), note="", axis_count=0, replication_count=20, rule="clip", description=""
):
    replications = Replications(clients, replication_count, seed, early)
    steps = axis_steps(Replications(clients, axis_count, seed, early)) if axis_count else ()
    return ExperimentStudy(
        name=name,
        description=description or f"The made-up experiment {name}.",
        data_note=note,
        contribution_rule=rule,
        clients=tuple(clients),
        round_count=ROUND_COUNT,
        replication_count=replication_count,
        axis_replication_count=axis_count,
        scenario_digest=f"{seed:x}" * 64,
        outcomes=tuple(outcome(replications, mu) for mu in MUS),
        steps=steps,
        recommendations=recommendations(steps) if steps else (),
        sweep_cost=SweepCost(replication_count=axis_count, most_lenient=15.0, grid=41.5, whole_axis=93.25)
        if axis_count
        else None,
        processor_seconds=Interval(value=61.5, lower=58.0, upper=65.25),
        peak_memory_bytes=1_300_000_000,
    )


def at_mus(made, mus):
    """The experiment at other values of mu; its outcomes there do not matter."""
    outcomes = [replace(made.outcomes[place % len(made.outcomes)], mu=mu) for place, mu in enumerate(mus)]
    return replace(made, outcomes=tuple(outcomes))


def finding(claim, statement, where, effect, value, half, *, threshold=0.0, variant="", driver="", count=20):
    lower, upper = value - half, value + half
    verdict = "held" if lower > threshold else "not held" if upper <= threshold else "undecided"
    return ClaimResult(
        claim=claim,
        statement=statement,
        experiment=where,
        variant=variant,
        effect=effect,
        interval=Interval(value=value, lower=lower, upper=upper),
        threshold=threshold,
        verdict=verdict,
        replication_count=count,
        driver=driver,
    )


LONGER = "The larger mu, the longer clients take part."
EARLIER = "Client 0 leaves much earlier than the others."
NOISE = "Client 0 leaves very early while the others' durations grow with mu."
WELFARE = "In later rounds total social welfare grows with mu on average."
SLOPE = "rise of the mean duration from mu = 0 to mu = 0.2, in rounds"


def findings():
    return (
        finding("C1", LONGER, "heterogeneous", SLOPE, 5.41, 0.62),
        finding("C1", LONGER, "large-mnist", SLOPE, 6.02, 0.4),
        finding("C1", LONGER, "label-noise", SLOPE, 4.8, 0.7),
        finding("C2", EARLIER, "large-mnist", "the others' mean duration minus client 0's, in rounds", 9.3, 1.1,
                threshold=1.0, driver="Client 0 pays for five times the data of the others."),
        finding("C5a", NOISE, "label-noise", "the others' mean duration minus client 0's, in rounds", 0.4, 0.9,
                driver="Its validation labels are noisy too, so that it gains little and loses little."),
        finding("C6", "Total social welfare rises fast, then may fall.", "heterogeneous",
                "largest TSW minus the last, in units of utility", 0.031, 0.012),
        finding("C7", WELFARE, "heterogeneous", "TSW at mu = 0.2 minus TSW at mu = 0 after the last round", -0.142,
                0.05, driver="Clients that stay keep paying for data that no longer help."),
        finding("C8", "The smaller mu, the lower the selection fairness.", "heterogeneous",
                "rank correlation of mu and TSFI", 1.0, 0.0, driver="By construction."),
        finding("C9", "No client that stays has a negative payoff (individual rationality).", "small-mnist",
                "share of client rounds with a payoff of at least 0", 0.31, 0.04, threshold=0.999,
                driver="Budgets turn negative once accuracies have levelled off."),
        finding("C10", "Payoff is proportional to contribution.", "small-mnist", "share of rounds", 1.0, 0.0,
                threshold=math.nextafter(1, 0)),
    )  # fmt: skip


def alternative_findings():
    gap = "the others' mean duration minus client 0's, in rounds"
    rise = "TSW at mu = 0.2 minus TSW at mu = 0 after the last round"
    return (
        finding("C2", EARLIER, "large-mnist", gap, 9.1, 2.0, threshold=1.0, count=8),
        finding("C2", EARLIER, "large-mnist", gap, 8.7, 2.2, threshold=1.0, variant="raw contributions", count=8),
        finding("C7", WELFARE, "heterogeneous", rise, -0.12, 0.09, count=8),
        finding("C7", WELFARE, "heterogeneous", rise, 0.02, 0.11, variant="raw contributions", count=8,
                driver="Raw shares explode in two replications."),
        finding("C8", "The smaller mu, the lower the selection fairness.", "heterogeneous",
                "rank correlation of mu and TSFI", -0.4, 0.2, variant="TSFI of the final set"),
    )  # fmt: skip


def sheets():
    """Ten images per source: grey, coloured and small ones."""
    random = np.random.default_rng(3)
    shapes = {"mnist": (28, 28, 1), "svhn": (32, 32, 3), "usps": (16, 16, 1), "synthdigits-rebuilt": (32, 32, 3),
              "mnist-m": (28, 28, 3)}  # fmt: skip
    made = []
    for source, (height, width, channels) in shapes.items():
        across, down = np.meshgrid(np.linspace(-1, 1, width), np.linspace(-1, 1, height))
        ring = np.exp(-(((np.hypot(across, 0.8 * down) - 0.55) / 0.18) ** 2))[None, :, :, None]
        background = random.integers(0, 90, (10, 1, 1, channels)) if channels == 3 else 0
        noise = random.integers(0, 25, (10, height, width, channels))
        images = np.clip(ring * 220 + background + noise, 0, 255).astype(np.uint8)
        made.append(SampleSheet(source=source, label=LABELS[source], images=images))
    return tuple(made)


def study():
    """Four experiments, two of them with the whole axis; verdicts of all three kinds."""
    noisy = (ODD_NAME, *ALIKE[1:])
    return Study(
        title="The paper's experiments, made up",
        facts={
            "code version": "0.1.0 (abc1234)",
            "processor": 'made-up <CPU> & "more", 2 cores',
            "time": "2 h 3 min",
            "largest memory": "1.3 GB",
            "seeds": "1 to 20",
            "intervals": "95%, normal",
            "command": "commonweal reproduce all --replications 20 --out <folder>",
        },
        experiments=(
            experiment("heterogeneous", HETEROGENEOUS, seed=1, note=REBUILT, axis_count=12, early=("mnist",)),
            experiment("large-mnist", ALIKE, seed=2, early=("client-0",)),
            experiment("small-mnist", ALIKE, seed=3, axis_count=3, replication_count=3),
            experiment("label-noise", noisy, seed=4, early=(ODD_NAME,)),
        ),
        alternatives=(
            experiment("heterogeneous", HETEROGENEOUS, seed=5, note=REBUILT, replication_count=8, rule="raw"),
        ),
        findings=findings(),
        alternative_findings=alternative_findings(),
        sheets=sheets(),
    )


def raw_only():
    """Nothing under the default rule, and a TSFI that leaves 0 to 1, as it does with raw contributions."""
    made = (
        experiment("heterogeneous", HETEROGENEOUS, seed=5, note=REBUILT, axis_count=4, replication_count=8, rule="raw"),
        experiment("label-noise", ALIKE, seed=6, axis_count=4, replication_count=8, rule="raw"),
    )
    whole = study()
    return replace(
        whole,
        experiments=(),
        alternatives=(with_wild_tsfi(made[0]), made[1]),
        findings=(),
        alternative_findings=(),
    )


def with_wild_tsfi(made):
    """The experiment with a step whose TSFI is above 1."""
    wild = replace(made.steps[2], tsfi=Interval(value=1.4, lower=0.9, upper=2.2))
    return replace(made, steps=(*made.steps[:2], wild, *made.steps[3:]))


def nothing_in_common():
    """Replications that were run at different mu: there is no mu with a mean over all of them."""
    whole = study()
    return replace(whole, experiments=tuple(replace(e, outcomes=()) for e in whole.experiments[:2]), alternatives=())


def bare():
    """One experiment with two clients at one mu, and nothing else known."""
    lone = experiment("lone", ("a", "b"), seed=6, replication_count=1)
    return Study(
        title="Bare",
        facts={},
        experiments=(
            ExperimentStudy(
                name=lone.name,
                description="",
                data_note="",
                contribution_rule="clip",
                clients=lone.clients,
                round_count=lone.round_count,
                replication_count=1,
                axis_replication_count=0,
                scenario_digest=lone.scenario_digest,
                outcomes=lone.outcomes[2:3],
                steps=(),
                recommendations=(),
                sweep_cost=None,
                processor_seconds=lone.processor_seconds,
                peak_memory_bytes=0,
            ),
        ),
        alternatives=(),
        findings=(),
        alternative_findings=(),
        sheets=(),
    )


def rude():
    """Names and texts that try to break out of wherever they are put."""
    breakout = "</figure><script>document.title = 'owned'</script> | *x* `y` $\\frac{1}{0}$ {{ title }} {% x %} url(#a)"
    clients = ("</b><img src=x onerror=alert(1)>", "Saint " + "Very-Long-" * 20 + "Hospital", "病院", ODD_NAME)
    one = experiment(f"a/../b {breakout}", clients, seed=7, note=breakout, axis_count=4)
    other = experiment(f"a/../b {breakout}!", clients, seed=8, note=breakout, description=breakout)
    return Study(
        title=breakout,
        facts={breakout: breakout},
        experiments=(one, other),
        alternatives=(),
        findings=(finding("C1", breakout, one.name, breakout, 1.0, 2.0, driver=breakout),),
        alternative_findings=(finding("C1", breakout, one.name, breakout, 1.0, 0.2, variant=breakout),),
        sheets=(SampleSheet(source="x", label=breakout, images=np.zeros((3, 8, 8, 1), dtype=np.uint8)),),
    )
