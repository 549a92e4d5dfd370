"""Claims on payoffs: C9, C10."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from commonweal import metrics
from commonweal.paper.claims.claim import ALL, Claim, Effect, share_of_rounds, share_without_failure
from commonweal.paper.claims.sample import FINITE, Sample
from commonweal.paper.claims.sentences import by_mu, joined, percent
from commonweal.paper.experiments import EXPERIMENTS
from commonweal.records import Decision, History
from commonweal.records.study import Verdict

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


def _rational_for_all(sample: Sample) -> Effect:
    counts = [[_counts_of_all(history) for history in row[FINITE]] for row in sample.histories]
    return Effect(np.array(counts, dtype=float).sum(axis=1), share_without_failure)


def _counts_of_all(history: History) -> tuple[int, int]:
    """How many payoffs of all who took part are negative, and how many there are."""
    decisions = [record.decision for record in history.rounds]
    leaving = sum(d.figures.profits[client] < 0 for d in decisions for client in d.eliminated)
    return leaving + sum(len(d.irrational) for d in decisions), sum(len(d.figures.profits) for d in decisions)


def _rational_in_total(sample: Sample) -> Effect:
    counts = [[_counts_in_total(history) for history in row[FINITE]] for row in sample.histories]
    return Effect(np.array(counts, dtype=float).sum(axis=1), share_without_failure)


def _counts_in_total(history: History) -> tuple[int, int]:
    """How many clients end with a loss, and how many clients there are."""
    totals = _total_payoffs_of_all(history)
    return sum(total < -ROUNDING for total in totals.values()), len(totals)


def _total_payoffs_of_all(history: History) -> dict[str, float]:
    """Σ payoff of each client, with its own loss in the round that eliminated it."""
    totals = metrics.total_payoffs(history)
    for record in history.rounds:
        for client in record.decision.eliminated:
            totals[client] += record.decision.figures.profits[client]
    return totals


def _proportional(sample: Sample) -> Effect:
    """Rounds fail in which some payoff is not its client's share of the budget."""
    return share_of_rounds(sample, lambda decision: not _follows_shares(decision))


def _follows_shares(decision: Decision) -> bool:
    size = sum(map(abs, decision.figures.profits.values()))
    return all(
        abs(payoff - decision.shares[client] * decision.budget)
        <= ROUNDING * size * max(abs(decision.shares[client]), 1)
        for client, payoff in decision.payoffs.items()
    )


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


def _all_rounds_driver(sample: Sample, verdict: Verdict) -> str:
    counts = np.array([[_counts_of_all(h) for h in row] for row in sample.histories]).sum(axis=0)
    failing = [failures / max(cases, 1) for failures, cases in counts.tolist()]
    return joined(f"Share of rounds of all who took part with a negative payoff: {by_mu(sample, failing, 3)}")


def _totals_driver(sample: Sample, verdict: Verdict) -> str:
    counts = np.array([[_counts_in_total(h) for h in row] for row in sample.histories]).sum(axis=0)
    failing = [failures / cases for failures, cases in counts.tolist()]
    losses = [-t for row in sample.histories for h in row[FINITE] for t in _total_payoffs_of_all(h).values() if t < 0]
    return joined(
        f"Share of clients that end with a loss: {by_mu(sample, failing, 3)}",
        f"The mean loss of those is {np.mean(losses):.4f}, the largest {max(losses):.4f}" if losses else "",
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


_TABLE_1 = "Individual rationality: all the participants have non-negative profits (Table 1, ticked)"

CLAIMS = (
    Claim(
        name="C9a",
        quote=_TABLE_1,
        statement="In each round, no client that stays is worse off for it.",
        experiments=EXPERIMENTS,
        effect="share of rounds of retained clients without a negative payoff, over the finite μ",
        threshold=ALL,
        measure=_rational,
        driver=_rational_driver,
        knows_no_exception=True,
        least=0.0,
        most=1.0,
    ),
    Claim(
        name="C9b",
        quote=_TABLE_1,
        statement="In each round, no client that takes part is worse off for it.",
        experiments=EXPERIMENTS,
        effect="share of rounds of all clients that took part without a negative payoff, over the finite μ; the payoff "
        "of a client in the round that eliminates it is its own loss",
        threshold=ALL,
        measure=_rational_for_all,
        driver=_all_rounds_driver,
        knows_no_exception=True,
        least=0.0,
        most=1.0,
    ),
    Claim(
        name="C9c",
        quote=_TABLE_1,
        statement="Over the whole federation, no client is worse off for taking part.",
        experiments=EXPERIMENTS,
        effect="share of clients whose payoffs of all their rounds sum to no loss, over the finite μ",
        threshold=ALL,
        measure=_rational_in_total,
        driver=_totals_driver,
        knows_no_exception=True,
        least=0.0,
        most=1.0,
    ),
    Claim(
        name="C10",
        quote="a money transfer scheme in which the pay-off to a client is proportional to its contribution in the "
        "current round.",
        statement="In each round, payoffs are proportional to contributions.",
        experiments=EXPERIMENTS,
        effect="share of rounds, over all μ, in which every payoff is its client's share of the budget",
        threshold=ALL,
        measure=_proportional,
        driver=_proportional_driver,
        by_construction=True,
    ),
)
