"""Claims on payoffs: C9, C10."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from commonweal import metrics
from commonweal.paper.claims.claim import ALL, Claim, Effect, share_without_failure
from commonweal.paper.claims.sample import FINITE, NEVER, Sample
from commonweal.paper.claims.sentences import by_mu, joined, percent
from commonweal.paper.experiments import EXPERIMENTS
from commonweal.records import Decision, History, LossRule
from commonweal.records.study import Verdict

_BORNE: dict[LossRule, str] = {
    "contribution": "of which the largest contributor bears the most",
    "equal": "which all bear equally",
    "cost": "which is shared in proportion to cost",
    "loss": "which those bear who made losses",
}

ROUNDING = 1e-9
"""Relative to the round's sum of absolute profits, and to the share where that exceeds 1."""


def _rational(sample: Sample) -> Effect:
    return Effect(
        np.array([_irrational_counts(row[FINITE]) for row in sample.histories], dtype=float), share_without_failure
    )


def _irrational_counts(histories: tuple[History, ...]) -> tuple[int, int]:
    """How many payoffs of retained clients are negative, and how many payoffs there are."""
    decisions = [record.decision for history in histories for record in history.rounds]
    return sum(len(d.irrational) for d in decisions), sum(len(d.retained) for d in decisions)


def _proportional(sample: Sample) -> Effect:
    """For each replication, the rounds with a payoff that is not its client's share of the budget, and all rounds."""
    counts = []
    for row in sample.histories:
        rounds = [record.decision for history in row for record in history.rounds]
        counts.append((sum(not _follows_shares(decision) for decision in rounds), len(rounds)))
    return Effect(np.array(counts, dtype=float), share_without_failure)


def _follows_shares(decision: Decision) -> bool:
    size = sum(map(abs, decision.figures.profits.values()))
    return all(
        abs(payoff - decision.shares[client] * decision.budget)
        <= ROUNDING * size * max(abs(decision.shares[client]), 1)
        for client, payoff in decision.payoffs.items()
    )


def _correlation(sample: Sample) -> Effect:
    """Mean over the finite μ; 0 where payoffs or contributions do not differ."""
    rows = [[metrics.payoff_contribution_correlation(h) or 0.0 for h in row[FINITE]] for row in sample.histories]
    return Effect(np.array(rows).mean(axis=1))


def _rational_driver(sample: Sample, verdict: Verdict) -> str:
    sizes: dict[str, list[float]] = defaultdict(list)
    for decision in sample.decisions(FINITE):
        for client, size in decision.irrational.items():
            sizes[client].append(size)
    if not sizes:
        return ""
    counts = np.array([[_irrational_counts((h,)) for h in row] for row in sample.histories]).sum(axis=0)
    failing = [failures / max(retained, 1) for failures, retained in counts.tolist()]
    most = max(sizes, key=lambda client: len(sizes[client]))
    every = [size for some in sizes.values() for size in some]
    losing = [d for d in sample.decisions(FINITE) if d.irrational]
    in_the_red = sum(d.budget < 0 for d in losing) / len(losing)
    return joined(
        f"Share of its rounds in which a retained client's payoff is negative: {by_mu(sample, failing, 4)}",
        f"Of {len(every)} failures at finite μ, {len(sizes[most])} concern {most}; the mean loss is "
        f"{np.mean(every):.4f}, the largest {max(every):.4f}",
        f"In {percent(in_the_red)} of the rounds with a failure the budget is negative, so somebody must bear a loss",
    )


def _proportional_driver(sample: Sample, verdict: Verdict) -> str:
    rounds = list(sample.decisions(slice(None)))
    paying = [d for d in rounds if d.retained]
    unknown = [d for d in paying if sum(d.used_contributions[client] for client in d.retained) == 0]
    broken = [d for d in rounds if not _follows_shares(d)]
    red = sum(d.budget < 0 for d in broken)
    return joined(
        f"In {percent(len(unknown) / len(paying))} of the rounds the retained clients have no contribution and get "
        "equal shares"
        if unknown
        else "",
        f"In {len(broken)} of {len(rounds)} rounds the budget is not divided in proportion; it is negative in {red} of "
        "these rounds"
        if broken
        else "",
    )


def _correlation_driver(sample: Sample, verdict: Verdict) -> str:
    if verdict == "held":
        return ""
    never = [metrics.payoff_contribution_correlation(row[NEVER]) or 0.0 for row in sample.histories]
    red = [d.budget < 0 for d in sample.decisions(FINITE)]
    return joined(
        f"Of the rounds at finite μ {percent(sum(red) / len(red))} have a negative budget, {_BORNE[sample.loss_rule]}; "
        f"at μ = inf the correlation is {np.mean(never):.2f}"
    )


CLAIMS = (
    Claim(
        name="C9",
        statement="The mechanism is individually rational: no client that stays is worse off for it.",
        experiments=EXPERIMENTS,
        effect="share of rounds of retained clients without a negative payoff, over the finite μ",
        threshold=ALL,
        measure=_rational,
        driver=_rational_driver,
        knows_no_exception=True,
    ),
    Claim(
        name="C10a",
        statement="In each round, payoffs are proportional to contributions.",
        experiments=EXPERIMENTS,
        effect="share of rounds, over all μ, in which every payoff is its client's share of the budget",
        threshold=ALL,
        measure=_proportional,
        driver=_proportional_driver,
        by_construction=True,
    ),
    Claim(
        name="C10b",
        statement="Rewards are distributed fairly: over the whole federation, payoffs follow contributions.",
        experiments=EXPERIMENTS,
        effect="correlation over clients of total payoff and total contribution, mean over the finite μ",
        threshold=0.0,
        measure=_correlation,
        driver=_correlation_driver,
    ),
)
