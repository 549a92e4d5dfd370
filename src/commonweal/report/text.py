"""Numbers, money and names as people read them."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence

from commonweal.records import Estimate
from commonweal.records.statement import Statement

MISSING = "–"
Parts = tuple[str, str]  # a value and its standard error, or ""
_DIGITS = 4
_THIN_SPACE = "\u202f"  # lines do not break there
_UNSHOWABLE = {"Cc", "Cs", "Co", "Cn"}  # control, surrogate, private, unassigned: XML and fonts reject some of them


def decimals_for(values: Iterable[float | None]) -> int | None:
    """Decimals with which the largest value of a column has four digits; None if those would be too many or too few."""
    largest = max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0)
    if largest == 0:
        return _DIGITS
    decimals = _DIGITS - 1 - math.floor(math.log10(largest))
    return max(decimals, 0) if -3 <= decimals <= 7 else None


def number(value: float | None, *, decimals: int | None = None, signed: bool = False) -> str:
    """A number with the given decimals, or with four significant digits; what rounds to zero has no sign."""
    if value is None:
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{abs(value):.{_DIGITS}g}" if decimals is None else f"{abs(value):.{decimals}f}"
    if float(text) == 0:
        return text
    return f"{'−' if value < 0 else '+' if signed else ''}{text}"


def estimate_parts(estimate: Estimate | None, *, decimals: int | None = None, signed: bool = False) -> Parts:
    """The value, and its standard error: "?" if it is unknown, "0" if there is none, "" without a value."""
    if estimate is None or math.isnan(estimate.value):
        return MISSING, ""
    text = number(estimate.value, decimals=decimals, signed=signed)
    if estimate.standard_error is None:
        return text, "?"
    if estimate.standard_error == 0:
        return text, "0"
    error = f"{estimate.standard_error:.2g}" if decimals is None else number(estimate.standard_error, decimals=decimals)
    return text, error


def with_error(estimate: Estimate, *, decimals: int | None = None, signed: bool = False) -> str:
    """ "0.500 ± 0.012"."""
    text, error = estimate_parts(estimate, decimals=decimals, signed=signed)
    return f"{text} ± {error}" if error else text


def counted(count: int, noun: str, plural: str = "") -> str:
    """ "1 round", "2 rounds"; the plural is given if it is not the noun with an s."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def money(statement: Statement, amount: int, *, signed: bool = False) -> str:
    """An amount with all decimals of the statement's currency and a thin space between thousands."""
    whole, point, decimals = statement.money(abs(amount)).partition(".")
    sign = "−" if amount < 0 else "+" if signed and amount else ""
    return f"{sign}{int(whole):,}".replace(",", _THIN_SPACE) + point + decimals


def shown(name: str) -> str:
    """The name with a replacement character for each character that cannot be shown."""
    return "".join("\ufffd" if unicodedata.category(letter) in _UNSHOWABLE else letter for letter in name)


def shortened(name: str, limit: int = 22) -> str:
    """Both ends of a long name, because the names of a consortium's members often start alike."""
    name = shown(name)
    if len(name) <= limit:
        return name
    tail = limit // 3
    return f"{name[: limit - tail - 1]}…{name[-tail:]}"


def numbered_rounds(rounds: Sequence[int]) -> str:
    """ "Round 3", "Rounds 1 to 3, 5"."""
    runs: list[list[int]] = []
    for each in rounds:
        if runs and each == runs[-1][-1] + 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    spans = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return f"Round{'s' if len(rounds) > 1 else ''} {', '.join(spans)}"


def percent(share: float | None) -> str:
    return MISSING if share is None else f"{100 * share:.0f} %"
