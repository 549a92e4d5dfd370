"""The claim on contributions: C11."""

from __future__ import annotations

import numpy as np

from commonweal import metrics
from commonweal.paper.claims.claim import Claim, Measured
from commonweal.paper.claims.sample import NEVER, Sample, Values
from commonweal.paper.claims.sentences import joined
from commonweal.records.study import Verdict


def _mean_contributions(sample: Sample) -> Values:
    """By replication and client, of a round, where everybody is in every round."""
    totals = [metrics.total_contributions(row[NEVER]) for row in sample.histories]
    return np.array([[total[client] for client in sample.clients] for total in totals]) / sample.round_count


def _smallest(sample: Sample) -> Measured:
    return Measured(_mean_contributions(sample), _least_other_less_own)


def _least_other_less_own(means: Values) -> Values:
    return np.asarray(means[:, 1:].min(axis=1) - means[:, 0])


def _driver(sample: Sample, verdict: Verdict) -> str:
    means = _mean_contributions(sample).mean(axis=0)
    text = ", ".join(f"{client} {mean:.4f}" for client, mean in zip(sample.clients, means.tolist(), strict=True))
    share = f"; {sample.clients[0]} has {100 * means[0] / means.sum():.3g} % of all" if means.sum() > 0 else ""
    return joined(f"Mean contributions of a round are: {text}{share}")


CLAIMS = (
    Claim(
        name="C11",
        statement="The relative contribution of the client with noisy labels is the smallest.",
        experiments=("label-noise",),
        effect="least mean contribution of another client in a round less that of client 0, at μ = inf, in accuracy",
        threshold=0.0,
        measure=_smallest,
        driver=_driver,
    ),
)
