"""The paper's claims as code: what it says, how large the effect is over replications, and whether the claim held."""

from commonweal.paper.claims.judging import Comparison, alternative_findings, comparisons, findings

__all__ = ["Comparison", "alternative_findings", "comparisons", "findings"]
