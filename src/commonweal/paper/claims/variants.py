"""Other choices of the settled points, and the claims that each could change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from commonweal.paper.claims.sample import Sample, tsfi_as_printed
from commonweal.records import ContributionRule, LossRule
from commonweal.study.outcomes import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One choice of the settled points."""

    name: str  # "" for ours
    claims: tuple[str, ...] = ("C",)  # what the names of claims that it may change begin with
    contribution_rule: ContributionRule = "clip"
    loss_rule: LossRule = "contribution"
    tsfi_of: Callable[[Outcome], tuple[float, ...]] = tsfi_as_printed
    experiment_suffix: str = ""  # of the experiment that was run for it

    def concerns(self, claim: str) -> bool:
        return claim.startswith(self.claims)

    def applied(self, sample: Sample) -> Sample:
        """The sample with this division of losses and this index."""
        return replace(sample, loss_rule=self.loss_rule, tsfi_of=self.tsfi_of)


SETTLED = Variant(name="")

ALTERNATIVES = (
    Variant(name="raw contributions", contribution_rule="raw"),
    Variant(name="TSFI of the final set", claims=("C8",), tsfi_of=lambda outcome: outcome.tsfi_final_set),
    Variant(name="departed count as zero", claims=("C8",), tsfi_of=lambda outcome: outcome.tsfi_departed_zero),
    Variant(name="losses in equal parts", claims=("C9", "C10"), loss_rule="equal"),
    Variant(name="losses by cost", claims=("C9", "C10"), loss_rule="cost"),
    Variant(name="label noise in training only", claims=("C5", "C11"), experiment_suffix="-training-only"),
)
