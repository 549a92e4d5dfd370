"""The study of the paper's experiments, with its claims; users can add experiments of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from commonweal.paper.claims import alternative_findings, findings
from commonweal.paper.experiments import EVERY_ONE, MUS
from commonweal.records.study import Study
from commonweal.study.outcomes import OutcomesByKey
from commonweal.study.summary import ClaimResults, summarise


def make_study(directory: Path, data_directory: Path | None, *, mus: Sequence[float] = ()) -> Study:
    """What a reader is shown of the results in a directory; `mus` are shown in addition to the paper's values."""
    return summarise(directory, data_directory, title=_title, grid=MUS, claims=_tested, mus=mus)


def _title(experiments: Sequence[str]) -> str:
    if set(experiments) <= set(EVERY_ONE):
        return "The paper's experiments, reproduced"
    return "Experiments, replicated"


def _tested(outcomes: OutcomesByKey) -> ClaimResults:
    return ClaimResults(findings=findings(outcomes), alternative_findings=alternative_findings(outcomes))
