"""Numbers as people read them: four significant digits, a real minus sign, and one number of decimals in a column."""

from __future__ import annotations

import math
from collections.abc import Iterable

from commonweal.records import Estimate

MISSING = "–"
_DIGITS = 4


def decimals_for(values: Iterable[float | None]) -> int | None:
    """Decimals with which the largest value has four digits; None where decimals would be too many or too few."""
    largest = max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0)
    if largest == 0:
        return _DIGITS
    decimals = _DIGITS - 1 - math.floor(math.log10(largest))
    return max(decimals, 0) if -3 <= decimals <= 7 else None


def number(value: float, *, decimals: int | None = None, signed: bool = False) -> str:
    """A number with given decimals, or with four significant digits; what rounds to zero has no sign."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{abs(value):.{_DIGITS}g}" if decimals is None else f"{abs(value):.{decimals}f}"
    if float(text) == 0:
        return text
    return f"{'−' if value < 0 else '+' if signed else ''}{text}"


def with_error(estimate: Estimate, *, decimals: int | None = None, signed: bool = False) -> str:
    """value ± standard error; the error is left out where it is unknown or the value is exact."""
    text = number(estimate.value, decimals=decimals, signed=signed)
    if not estimate.standard_error:
        return text
    error = f"{estimate.standard_error:.2g}" if decimals is None else number(estimate.standard_error, decimals=decimals)
    return f"{text} ± {error}"


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def counted(count: int, noun: str) -> str:
    """ "1 round", "2 rounds"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
