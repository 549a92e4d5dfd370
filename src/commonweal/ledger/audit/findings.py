"""What an audit finds, as values: one run names all that is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from commonweal.ledger.difference import first_difference

_LENGTH_LIMIT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is not as it must be."""

    entry: int  # 0: rows that no entry can have
    rule: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"entry {self.entry}: {self.rule}: expected {self.expected}, found {self.found}"


class Findings:
    """What was found so far."""

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def add(self, entry: int, rule: str, expected: str, found: str) -> None:
        self._found.append(
            Finding(entry=entry, rule=_printable(rule), expected=_printable(expected), found=_printable(found))
        )

    def compare(self, entry: int, rule: str, expected: Any, found: Any) -> bool:
        """Whether both are the same; if not, the first difference is a finding."""
        difference = first_difference(expected, found)
        if difference is None:
            return True
        path, wanted, got = difference
        self.add(entry, rule, f"{path} {wanted}".strip(), got)
        return False

    def all(self) -> tuple[Finding, ...]:
        return tuple(self._found)


def _printable(text: str) -> str:
    """What is found may be anything: nothing of it shall command a terminal."""
    text = text if len(text) <= _LENGTH_LIMIT else text[: _LENGTH_LIMIT - 1] + "…"
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
