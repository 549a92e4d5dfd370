"""Claims on selection fairness and on contributions: C8, C11."""

from __future__ import annotations

import numpy as np

from commonweal import metrics
from commonweal.paper.claims.claim import Claim, Effect
from commonweal.paper.claims.sample import FINITE, LENIENT, NEVER, STRICT, Sample, Values
from commonweal.paper.claims.sentences import by_mu, joined, loss_makers_without_contribution
from commonweal.paper.experiments import EXPERIMENTS
from commonweal.records.study import Verdict


def _fairer(sample: Sample) -> Effect:
    return Effect(sample.final_tsfi[:, LENIENT] - sample.final_tsfi[:, STRICT])


def _fairness_driver(sample: Sample, verdict: Verdict) -> str:
    if verdict == "held":
        return ""
    finite = sample.final_tsfi[:, FINITE]
    outside = ((finite < 0) | (finite > 1)).mean()
    return joined(
        f"Final TSFI: {by_mu(sample, finite.mean(axis=0), 3)}",
        f"In {100 * outside:.3g} % of the cases it lies outside 0 to 1: contributions cancel out" if outside else "",
        loss_makers_without_contribution(sample),
    )


def _mean_contributions(sample: Sample) -> Values:
    """Per round, by replication and client, at μ = inf, where everybody takes part in every round."""
    totals = [metrics.total_contributions(row[NEVER]) for row in sample.histories]
    return np.array([[total[client] for client in sample.clients] for total in totals]) / sample.round_count


def _smaller(sample: Sample) -> Effect:
    means = _mean_contributions(sample)
    return Effect(means[:, 1:].mean(axis=1) - means[:, 0])


def _contribution_driver(sample: Sample, verdict: Verdict) -> str:
    means = _mean_contributions(sample).mean(axis=0)
    text = ", ".join(f"{client} {mean:.4f}" for client, mean in zip(sample.clients, means.tolist(), strict=True))
    share = f"; {sample.clients[0]} has {100 * means[0] / means.sum():.3g} % of all" if means.sum() > 0 else ""
    return joined(f"Mean contributions per round: {text}{share}")


CLAIMS = (
    Claim(
        name="C8",
        quote="smaller values of μ parameter also lead to decreased total selection fairness index",
        statement="A smaller μ leads to a smaller TSFI.",
        experiments=EXPERIMENTS,
        effect="final TSFI at μ = {mu} minus that at μ = 0",
        threshold=0.0,
        measure=_fairer,
        driver=_fairness_driver,
    ),
    Claim(
        name="C11",
        quote="Hence, the relative contribution of client 0 is smaller in comparison to other clients.",
        statement="The client with noisy labels contributes less than the others.",
        experiments=("label-noise",),
        effect="mean contribution per round of the others minus that of client 0, at μ = inf, in accuracy",
        threshold=0.0,
        measure=_smaller,
        driver=_contribution_driver,
    ),
)
