"""The study of the paper's experiments, with its claims; users can add experiments of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from commonweal.paper.claims import Comparison, comparisons, findings, regime_comparisons, results_of
from commonweal.paper.experiments import EVERY_ONE, MUS
from commonweal.records.study import Study
from commonweal.study.outcomes import OutcomesByKey
from commonweal.study.summary import ClaimResults, summarise


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperStudy:
    """A study, with the claims under other choices and in other regimes beside ours."""

    study: Study
    variants: tuple[Comparison, ...]
    regimes: tuple[Comparison, ...]


def make_study(directory: Path, data_directory: Path | None, *, mus: Sequence[float] = ()) -> PaperStudy:
    """What a reader is shown of the results in a directory; `mus` are shown in addition to the paper's values."""
    variants: tuple[Comparison, ...] = ()
    regimes: tuple[Comparison, ...] = ()

    def tested(outcomes: OutcomesByKey) -> ClaimResults:
        nonlocal variants, regimes
        variants, regimes = comparisons(outcomes), regime_comparisons(outcomes)
        return ClaimResults(findings=findings(outcomes), alternative_findings=results_of(variants))

    study = summarise(directory, data_directory, title=_title, grid=MUS, claims=tested, mus=mus)
    return PaperStudy(study=study, variants=variants, regimes=regimes)


def _title(experiments: Sequence[str]) -> str:
    if set(experiments) <= set(EVERY_ONE):
        return "The paper's experiments, reproduced"
    return "Experiments, replicated"
