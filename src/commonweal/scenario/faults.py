"""The faults of a scenario, gathered so that one run reports all of them, each with its place."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from commonweal.errors import ScenarioError
from commonweal.scenario.lines import KeyPath, Place

_FAULTS_SHOWN = 10
_EVIDENCE_LIMIT = 60  # characters


@dataclass(slots=True)
class Faults:
    """Sentences of the form "rule, got evidence (place); way out"."""

    origin: str  # the file's name, for messages
    places: Place | None = None  # None: not from a text, so that keys have no lines
    _found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, path: KeyPath, rule: str, evidence: str, way_out: str) -> None:
        line = self.places.line_of(path) if self.places is not None else None
        if line is not None:
            place = f"line {line} of {self.origin}"
        elif self.places is None and path:
            place = f"{_dotted(path)} of {self.origin}"
        else:
            place = self.origin
        self._found.append((line or 0, f"{rule}, got {evidence} ({place}); {way_out}"))

    def raise_if_any(self) -> None:
        sentences = [sentence for _, sentence in sorted(self._found, key=lambda found: found[0])]
        if len(sentences) == 1:
            raise ScenarioError(sentences[0])
        if sentences:
            more = len(sentences) - _FAULTS_SHOWN
            tail = [f"... and {more} more"] if more > 0 else []
            headline = f"{self.origin} has {len(sentences)} faults:"
            raise ScenarioError("\n  ".join([headline, *sentences[:_FAULTS_SHOWN], *tail]))


def shown(value: object) -> str:
    """A value as evidence, much as it stands in the file, cut if it is long."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, bool):
        return json.dumps(value)
    try:
        text = repr(value) if isinstance(value, str | int | float) else str(value)
    except ValueError:  # Python shows no whole number of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= _EVIDENCE_LIMIT else f"{text[:_EVIDENCE_LIMIT]}... ({len(text)} characters)"


def _dotted(path: KeyPath) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")
