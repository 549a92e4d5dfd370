"""Properties that the paper derives from its formulas: C13 to C15."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from commonweal.paper.claims.claim import ALL, Claim, Effect, share_of_rounds, share_without_failure
from commonweal.paper.claims.sample import FINITE, Sample
from commonweal.paper.claims.sentences import joined, loss_makers_without_contribution
from commonweal.paper.experiments import EXPERIMENTS
from commonweal.records import Decision
from commonweal.records.study import Verdict

ROUNDING = 1e-12


def _balanced(sample: Sample) -> Effect:
    return share_of_rounds(sample, lambda decision: not _sums_to_zero(decision))


def _sums_to_zero(decision: Decision) -> bool:
    """Up to 1e-12 of what is moved; raw contributions can move many times the profits."""
    moved = sum(map(abs, decision.transfers.values()))
    return abs(math.fsum(decision.transfers.values())) <= decision.rounding + ROUNDING * moved


def _balance_driver(sample: Sample, verdict: Verdict) -> str:
    largest = max(abs(math.fsum(decision.transfers.values())) for decision in sample.decisions(slice(None)))
    return joined(f"The largest sum of a round's transfers is {largest:.1e}")


def _loss_makers_suffice(sample: Sample) -> Effect:
    """For each replication, the rounds in which eliminating somebody with a profit would be better, and all rounds."""
    counts = [
        (sum(_profit_maker_should_go(decision, mu) for mu, decision in rounds), len(rounds))
        for rounds in _rounds(sample)
    ]
    return Effect(np.array(counts, dtype=float), share_without_failure)


def _rounds(sample: Sample) -> list[list[tuple[float, Decision]]]:
    """The decisions of each replication at finite μ."""
    mus = sample.mus[FINITE]
    return [
        [(mu, record.decision) for mu, history in zip(mus, row[FINITE], strict=True) for record in history.rounds]
        for row in sample.histories
    ]


def _profit_maker_should_go(decision: Decision, mu: float) -> bool:
    """Whether a set with somebody who made no loss is better to eliminate than all sets of loss-makers.

    By the objective Σ profit − μ Q(E) / Q(retained) of every subset of the active clients.
    """
    figures = decision.figures
    profits = np.array([figures.selecting[client] for client in figures.clients])
    contributions = np.array([decision.used_contributions[client] for client in figures.clients])
    gone = _subsets(len(profits))
    lost, kept = gone @ contributions, ~gone @ contributions
    weighed = mu * lost
    penalties = np.where(weighed == 0, 0.0, np.where(kept == 0, np.inf, weighed / np.where(kept == 0, 1.0, kept)))
    objectives = ~gone @ profits - penalties
    of_loss_makers = objectives[~gone[:, profits >= 0].any(axis=1)]
    return bool(objectives.max() > of_loss_makers.max() + decision.rounding)


@cache
def _subsets(count: int) -> NDArray[np.bool_]:
    """Every subset of so many clients, one per row."""
    return np.asarray((np.arange(2**count)[:, None] >> np.arange(count)) % 2 == 1)


def _suffice_driver(sample: Sample, verdict: Verdict) -> str:
    if verdict == "held":
        return ""
    failing = [d for rounds in _rounds(sample) for mu, d in rounds if _profit_maker_should_go(d, mu)]
    negative = sum(min(d.used_contributions.values()) < 0 for d in failing)
    return joined(f"In {negative} of the {len(failing)} rounds where it fails, some contribution is negative")


def _kept_by_some_mu(sample: Sample) -> Effect:
    """For each replication, the loss-makers that no finite μ retains, and all loss-makers, over rounds at finite μ."""
    counts = []
    for rounds in _rounds(sample):
        used = [decision.used_contributions[client] for _, decision in rounds for client in decision.candidates]
        counts.append((sum(q <= 0 for q in used), len(used)))
    return Effect(np.array(counts, dtype=float), share_without_failure)


def _kept_driver(sample: Sample, verdict: Verdict) -> str:
    return joined(loss_makers_without_contribution(sample))


CLAIMS = (
    Claim(
        name="C13",
        quote="We ensure that the money transfer transactions happen in between the clients, with no external "
        "input/output of funds, i.e. the budget balance condition is satisfied",
        statement="In each round, transfers sum to zero.",
        experiments=EXPERIMENTS,
        effect="share of rounds, over all μ, whose transfers sum to zero",
        threshold=ALL,
        measure=_balanced,
        driver=_balance_driver,
        by_construction=True,
    ),
    Claim(
        name="C14",
        quote="Therefore, the set of clients that can be potentially eliminated at round t can be reduced to the set "
        "of clients making a loss at round t.",
        statement="Only clients that make a loss need be considered for elimination.",
        experiments=EXPERIMENTS,
        effect="share of rounds, over the finite μ, in which no subset of all clients is better to eliminate than the "
        "best subset of loss-makers",
        threshold=ALL,
        measure=_loss_makers_suffice,
        driver=_suffice_driver,
        by_construction=True,
    ),
    Claim(
        name="C15",
        quote="the second approach [never eliminate any client] can be obtained by setting μ→∞.",
        statement="A large enough finite μ retains every client.",
        experiments=EXPERIMENTS,
        effect="share of loss-makers, in rounds at finite μ, that contribute something, so that some finite μ retains "
        "them",
        threshold=ALL,
        measure=_kept_by_some_mu,
        driver=_kept_driver,
        knows_no_exception=True,
        least=0.0,
        most=1.0,
    ),
)
