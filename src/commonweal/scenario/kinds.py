"""The kinds of values a scenario holds, each with its one rule and its way out.

A truth value is no number, a number in quotes is none either, and 3.0 is no whole number: who wrote it may have meant
something else. A whole number is a number, though: 100 stands for 100.0.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from commonweal.errors import ScenarioError
from commonweal.scenario.faults import shown

SMALLEST_MU, LARGEST_MU = 1e-50, 1e50  # beyond these the decision's arithmetic ends
SMALLEST_AMOUNT, LARGEST_AMOUNT = 1e-30, 1e30  # times samples, steps and accuracies these stay within the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a value must be."""

    rule: str  # completes "<key> must be ..."
    example: str  # as it is written in TOML
    read: Callable[[object], Any]  # the value as a scenario holds it; ValueError or OverflowError if it breaks the rule
    hint: str = ""  # a better way out than the example

    @property
    def way_out(self) -> str:
        return self.hint or f"write e.g. {self.example}"

    def checked(self, what: str, value: object) -> Any:
        """The value as a scenario holds it, refused under the name `what`."""
        try:
            return self.read(value)
        except (ValueError, OverflowError):
            raise ScenarioError(f"{what} must be {self.rule}, got {shown(value)}; {self.way_out}") from None


def number(rule: str, example: str, allowed: Callable[[float], bool], *, hint: str = "") -> Kind:
    """`allowed` must be false of nan, as comparisons are."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        figure = float(value) + 0.0  # -0.0 becomes 0.0
        if not allowed(figure):
            raise ValueError
        return figure

    return Kind(rule=rule, example=example, read=read, hint=hint)


def amount(example: str, *, hint: str = "") -> Kind:
    """Worth or cost, in units of utility."""
    return number(
        f"a finite number >= 0 (0, or between {SMALLEST_AMOUNT:g} and {LARGEST_AMOUNT:g})",
        example,
        lambda figure: figure == 0 or SMALLEST_AMOUNT <= figure <= LARGEST_AMOUNT,
        hint=hint,
    )


def whole_number(lowest: int, highest: int, example: int) -> Kind:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
            raise ValueError
        return value

    return Kind(rule=f"a whole number from {lowest} to {highest}", example=f"{example}", read=read)


def truth() -> Kind:
    def read(value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    return Kind(rule="true or false", example="true", read=read, hint="write true or false, without quotes")


def one_of(names: tuple[str, ...]) -> Kind:
    def read(value: object) -> str:
        if not isinstance(value, str) or value not in names:
            raise ValueError
        return value

    return Kind(
        rule=f"one of {', '.join(names)}", example=f'"{names[0]}"', read=read, hint="choose one of those, in quotes"
    )


def name(longest: int, example: str) -> Kind:
    """A name of one line; what looks the same is made the same, so that no client is two."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError
        tidy = unicodedata.normalize("NFC", value.strip())
        if not tidy.isprintable() or not 1 <= len(tidy) <= longest:
            raise ValueError
        return tidy

    return Kind(rule=f"1 to {longest} printable characters in quotes", example=f'"{example}"', read=read)


def prose(longest: int) -> Kind:
    """Free text; its lines are joined."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError
        tidy = " ".join(unicodedata.normalize("NFC", value).split())
        if not tidy.isprintable() or len(tidy) > longest:
            raise ValueError
        return tidy

    return Kind(rule=f"at most {longest} printable characters in quotes", example='"a trial"', read=read)


def leniency() -> Kind:
    def allowed(figure: float) -> bool:
        return figure == 0 or figure == math.inf or SMALLEST_MU <= figure <= LARGEST_MU

    finite = number("", "0.05", allowed)
    return Kind(
        rule=f'0, a number between {SMALLEST_MU:g} and {LARGEST_MU:g}, or "inf"',
        example="0.05",
        read=lambda value: finite.read(math.inf if value == "inf" else value),
        hint="0 is the least lenient, inf keeps everybody",
    )
