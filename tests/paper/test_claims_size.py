"""Each claim's own test on simulated result sets in which its effect lies exactly at the threshold.

In reality an effect can be there only by accident, so every decision is an error. Figures at different μ come from the
same training and are correlated, as here.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from commonweal.paper.claims import fairness
from commonweal.paper.claims.claim import verdict
from commonweal.paper.claims.judging import CLAIMS
from commonweal.paper.experiments import MUS

CLIENT_COUNT, ROUND_COUNT, DRAWS = 5, 15, 2000
ESTIMATED = [claim for claim in CLAIMS if claim.is_estimated]


def durations(rng, count, means):
    """Rounds, by replication, μ and client; a client's rounds at two μ have a correlation of a half or 0.9."""
    shape = (count, len(MUS), CLIENT_COUNT)
    shared = 0.9 if rng.random() < 0.5 else 0.5
    means = np.asarray(means) - 1.0
    common = rng.poisson(shared * means, size=(count, 1, CLIENT_COUNT))
    return 1.0 + common + rng.poisson((1 - shared) * means, size=shape)


def welfare(rng, count, *, course):
    """TSW by replication, μ and round: a course that all share, at a level of each replication, with steps of noise."""
    level = 1 + 0.15 * rng.normal(size=(count, 1, 1))
    noise = np.cumsum(0.02 * rng.normal(size=(count, len(MUS), ROUND_COUNT)), axis=2)
    common = np.cumsum(0.05 * rng.normal(size=(count, 1, ROUND_COUNT)), axis=2)
    return level * np.asarray(course) + common + noise


EARLY_RISE = np.minimum(np.arange(1, ROUND_COUNT + 1) / 5, 1) * 0.8 + np.maximum(np.arange(ROUND_COUNT) - 4, 0) * 0.02
"""Up to 0.8 after a third of the rounds, and to 1 at the end."""

FLAT = np.minimum(np.arange(1, ROUND_COUNT + 1) / 3, 1)


def result_set(rng, count, claim):
    """A sample in which the claim's effect is at its threshold."""
    quarter = claim.name in ("C2", "C5a")  # client 0 stays for three quarters of the others' time
    own = 6.0 if quarter else 8.0
    tsfi = rng.beta(4, 2, size=(count, 1)) * 0.5 + rng.beta(4, 2, size=(count, len(MUS))) * 0.5
    made = SimpleNamespace(
        mus=MUS,
        clients=tuple(range(CLIENT_COUNT)),
        round_count=ROUND_COUNT,
        replication_count=count,
        durations=durations(rng, count, [own, 8.0, 8.0, 8.0, 8.0]),
        tsw=welfare(rng, count, course=EARLY_RISE if claim.name == "C6a" else FLAT),
        final_tsfi=tsfi,
    )
    made.beside = SimpleNamespace(durations=durations(rng, count, [8.0] * 5)) if claim.beside else None
    return made


@pytest.mark.soak
@pytest.mark.parametrize("count", [5, 20])
@pytest.mark.parametrize("claim", ESTIMATED, ids=lambda claim: claim.name)
def test_a_claim_at_its_threshold_is_rarely_decided(claim, count, monkeypatch):
    monkeypatch.setattr(
        fairness,
        "_mean_contributions",
        lambda made: rng.normal(0.01, 0.02, size=(made.replication_count, CLIENT_COUNT)),
    )
    rng = np.random.default_rng([count, *claim.name.encode()])
    wrong = 0
    for _ in range(DRAWS):
        found = claim.measure(result_set(rng, count, claim)).test(claim.threshold)
        interval = found.interval.within(claim.least, claim.most)
        wrong += verdict(interval, claim.threshold, p_value=found.p_value, replication_count=count) != "undecided"
    assert wrong / DRAWS <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / DRAWS)
