"""The claim on selection fairness: C8."""

from __future__ import annotations

from commonweal.paper.claims.claim import Claim, Measured
from commonweal.paper.claims.sample import FINITE, LENIENT, STRICT, Sample
from commonweal.paper.claims.sentences import by_mu, joined, loss_makers_without_contribution
from commonweal.paper.experiments import EXPERIMENTS
from commonweal.records.study import Verdict


def _fairer(sample: Sample) -> Measured:
    return Measured(sample.final_tsfi[:, LENIENT] - sample.final_tsfi[:, STRICT])


def _driver(sample: Sample, verdict: Verdict) -> str:
    if verdict == "held":
        return ""
    finite = sample.final_tsfi[:, FINITE]
    outside = ((finite < 0) | (finite > 1)).mean()
    return joined(
        f"Final TSFI is {by_mu(sample, finite.mean(axis=0), 3)}",
        f"It lies outside 0 to 1 in {100 * outside:.3g} % of the cases, where contributions cancel" if outside else "",
        loss_makers_without_contribution(sample),
    )


CLAIMS = (
    Claim(
        name="C8",
        statement="Smaller μ lead to a smaller TSFI.",
        experiments=EXPERIMENTS,
        effect="final TSFI at μ = {mu} less that at μ = 0",
        threshold=0.0,
        measure=_fairer,
        driver=_driver,
    ),
)
