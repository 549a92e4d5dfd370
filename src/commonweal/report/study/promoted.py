"""Which experiments a reader is shown: those under the settled contribution rule, and what was run under another alone.

An experiment that was run under another rule only has nothing to be an alternative to, so it takes the settled place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from commonweal.records.study import DEFAULT_RULE, Study


def rule_note(contribution_rule: str) -> str:
    """ " (raw contributions)"; nothing for the settled rule."""
    return "" if contribution_rule == DEFAULT_RULE else f" ({contribution_rule} contributions)"


def promoted(study: Study) -> Study:
    settled = {experiment.name for experiment in study.experiments}
    return replace(
        study,
        experiments=(*study.experiments, *(e for e in study.alternatives if e.name not in settled)),
        alternatives=tuple(e for e in study.alternatives if e.name in settled),
    )


def promoted_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a summary document."""
    settled = {experiment["name"] for experiment in document["experiments"]}
    return {
        **document,
        "experiments": [
            *document["experiments"], *(e for e in document["alternatives"] if e["name"] not in settled)
        ],
        "alternatives": [e for e in document["alternatives"] if e["name"] in settled],
    }  # fmt: skip
