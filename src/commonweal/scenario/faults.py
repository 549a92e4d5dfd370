"""What is wrong with a file, collected so that one run reports everything, each with its line."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from commonweal.errors import ScenarioError
from commonweal.scenario.lines import KeyPath, Place

_FAULTS_SHOWN = 10
_VALUE_LIMIT = 60  # characters


@dataclass(slots=True)
class Faults:
    """Messages of the form "my.toml, line 12: what is wrong. What to do." """

    origin: str  # the file's name, for messages
    places: Place | None = None  # None: not read from a text, so keys have no lines
    _found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, path: KeyPath, problem: str, way_out: str = "") -> None:
        """Record a problem of the key at `path`; a full stop is added where one is missing."""
        line = self.places.line_of(path) if self.places is not None else None
        if line is not None:
            place = f"{self.origin}, line {line}"
        elif self.places is None and path:
            place = f"{self.origin}, {_dotted(path)}"
        else:
            place = self.origin
        self._found.append((line or 0, " ".join([f"{place}:", *map(_ended, filter(None, (problem, way_out)))])))

    def raise_if_any(self) -> None:
        """Raise a ScenarioError with all problems, in the order of the file."""
        sentences = [sentence for _, sentence in sorted(self._found, key=lambda found: found[0])]
        if len(sentences) == 1:
            raise ScenarioError(sentences[0])
        if sentences:
            more = len(sentences) - _FAULTS_SHOWN
            tail = [f"... and {more} more"] if more > 0 else []
            headline = f"{self.origin} has {len(sentences)} errors:"
            raise ScenarioError("\n  ".join([headline, *sentences[:_FAULTS_SHOWN], *tail]))


def shown(value: object) -> str:
    """A value for a message, much as it is written in the file, shortened if it is long."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, bool):
        return json.dumps(value)
    try:
        text = repr(value) if isinstance(value, str | int | float) else str(value)
    except ValueError:  # Python does not print integers of more than 4,300 digits
        return "a number with thousands of digits"
    return text if len(text) <= _VALUE_LIMIT else f"{text[:_VALUE_LIMIT]}... ({len(text)} characters)"


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


def _dotted(path: KeyPath) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")
