"""The paper's claims as code: what it says, how large the effect is over replications, and whether the claim held."""

from commonweal.paper.claims.judging import Comparison, comparisons, findings, regime_comparisons, results_of

__all__ = ["Comparison", "comparisons", "findings", "regime_comparisons", "results_of"]
