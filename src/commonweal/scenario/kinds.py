"""The kinds of values in a scenario, each with its rule and an example.

Nothing is converted silently: true, "3" and 3.0 are not whole numbers. Only 100 is accepted for 100.0.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from commonweal.errors import ScenarioError
from commonweal.names import tidy_name
from commonweal.scenario.faults import shown

SMALLEST_MU, LARGEST_MU = 1e-50, 1e50  # the limits of the decision's arithmetic
SMALLEST_AMOUNT, LARGEST_AMOUNT = (
    1e-30,
    1e30,
)  # so that sums and products stay within the limits of mu


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a value must be."""

    rule: str  # completes "<key> must be ..."
    example: str  # as it is written in TOML
    read: Callable[[object], Any]  # the value as a scenario holds it; ValueError or OverflowError if it breaks the rule
    hint: str = ""  # advice that is better than the example

    @property
    def way_out(self) -> str:
        return self.hint or f"Write e.g. {self.example}"

    def checked(self, what: str, value: object) -> Any:
        """The value as a scenario holds it; a ScenarioError names it as `what`."""
        try:
            return self.read(value)
        except (ValueError, OverflowError):
            raise ScenarioError(f"{what} must be {self.rule}, got {shown(value)}. {self.way_out}.") from None


def number(rule: str, example: str, allowed: Callable[[float], bool], *, hint: str = "") -> Kind:
    """`allowed` must be false for nan, as comparisons are."""

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
        f"0 or a number from {SMALLEST_AMOUNT:g} to {LARGEST_AMOUNT:g}",
        example,
        lambda figure: figure == 0 or SMALLEST_AMOUNT <= figure <= LARGEST_AMOUNT,
        hint=hint,
    )


def signed_amount(example: str, *, hint: str = "") -> Kind:
    """A profit, in units of utility."""
    return number(
        f"0, or a number from {SMALLEST_AMOUNT:g} to {LARGEST_AMOUNT:g} in size",
        example,
        lambda figure: figure == 0 or SMALLEST_AMOUNT <= abs(figure) <= LARGEST_AMOUNT,
        hint=hint,
    )


def curve() -> Kind:
    """Points (metric, worth) of a curve from a metric to its worth, by rising metric."""

    def read(value: object) -> tuple[tuple[float, float], ...]:
        if not isinstance(value, list | tuple) or not 2 <= len(value) <= 100:
            raise ValueError
        points = []
        for point in value:
            if not isinstance(point, list | tuple) or len(point) != 2:
                raise ValueError
            at, worth = (_FINITE.read(figure) for figure in point)
            points.append((at, worth))
        if any(after[0] <= before[0] for before, after in pairwise(points)):
            raise ValueError
        return tuple(points)

    return Kind(
        rule="2 to 100 points [metric, worth], each metric larger than the one before",
        example="[[0.7, 0.0], [0.9, 1.0]]",
        read=read,
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

    return Kind(rule="true or false", example="true", read=read, hint="Write true or false, without quotes")


def one_of(names: tuple[str, ...]) -> Kind:
    def read(value: object) -> str:
        if not isinstance(value, str) or value not in names:
            raise ValueError
        return value

    return Kind(
        rule=f"one of {', '.join(names)}", example=f'"{names[0]}"', read=read, hint="Choose one of these, in quotes"
    )


def name(longest: int, example: str) -> Kind:
    """A name on one line; spellings that look the same are normalised, so that they name the same client."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError
        tidy = tidy_name(value)
        if not tidy.isprintable() or not 1 <= len(tidy) <= longest:
            raise ValueError
        return tidy

    return Kind(rule=f"1 to {longest} printable characters in quotes", example=f'"{example}"', read=read)


def prose(longest: int) -> Kind:
    """Free text; line breaks become spaces."""

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
        rule=f'0, a number from {SMALLEST_MU:g} to {LARGEST_MU:g}, or "inf"',
        example="0.05",
        read=lambda value: finite.read(math.inf if value == "inf" else value),
        hint="Write e.g. 0.05; 0 is the strictest, inf retains everybody",
    )


_FINITE = number("", "1.0", lambda figure: abs(figure) <= LARGEST_AMOUNT)
