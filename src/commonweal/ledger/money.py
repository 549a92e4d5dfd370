"""The one place where figures become money: whole minor units, divided by the method of largest remainders.

Each division rounds down first, then gives one more unit each to the largest remainders; of equal remainders, to those
that come first, counted from the one whose `turn` it is. So no unit is created or lost. What earlier divisions rounded
off can be carried on, so that many small ones come to the same as a large one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

from commonweal.errors import InputError
from commonweal.records.statement import amount_text as amount_text

LARGEST_AMOUNT = 10**15  # minor units in one posting
CARRIED_PARTS = 10**6  # of a minor unit: in these, what was rounded off is carried on

_AMOUNT = re.compile(r"([+-]?)(\d{1,30})(?:\.(\d{0,30}?)0*)?", re.ASCII)  # trailing zeros carry no information


def settle_transfers(transfers: Mapping[str, float], worth: int, *, rounding: float, turn: int = 0) -> dict[str, int]:
    """Transfers in minor units, Σ = 0. One unit of utility is `worth` minor units.

    In units of utility the sum may differ from zero by `rounding`; that difference is divided too.
    """
    exact, denominator = _exact(transfers, worth)
    if abs(sum(exact)) > Decimal(rounding) * worth * denominator + denominator // 1_000_000:
        raise InputError(
            f"The transfers of a round must sum to zero, got {sum(exact) / denominator / worth:.6g}. Settle the "
            "decision unchanged."
        )
    return _named(transfers, largest_remainder(exact, denominator, 0, turn))


def settle_payoffs(payoffs: Mapping[str, float], worth: int, *, turn: int = 0) -> dict[str, int]:
    """Payoffs in minor units; they sum to the budget, rounded to the nearest unit."""
    exact, denominator = _exact(payoffs, worth)
    total = (2 * sum(exact) + denominator) // (2 * denominator)
    return _named(payoffs, largest_remainder(exact, denominator, total, turn))


def in_proportion(
    amount: int, weights: Mapping[str, int], *, turn: int = 0, carried: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The amount divided in proportion to weights >= 0 that are not all zero.

    `carried` is what earlier divisions rounded off, from `rounded_off`; it counts when odd units are given out.
    """
    numerators = [amount * weight for weight in weights.values()]
    claims = [(carried or {}).get(name, 0) for name in weights]
    return _named(weights, largest_remainder(numerators, sum(weights.values()), amount, turn, claims))


def rounded_off(amount: int, weights: Mapping[str, int], parts: Mapping[str, int]) -> dict[str, int]:
    """What a division gave each too little, or (negative) too much, in millionths of a minor unit."""
    total = sum(weights.values())
    return {
        name: amount * weight * CARRIED_PARTS // total - parts.get(name, 0) * CARRIED_PARTS
        for name, weight in weights.items()
    }


def largest_remainder(
    numerators: Sequence[int], denominator: int, total: int, turn: int = 0, carried: Sequence[int] = ()
) -> list[int]:
    """Whole numbers that sum to `total`, as near to numerators / denominator as that allows.

    `carried` is added to the remainders, in millionths.
    """
    if not numerators:
        return []
    parts = [divmod(numerator, denominator) for numerator in numerators]
    for_each, left_over = divmod(total - sum(floor for floor, _ in parts), len(parts))
    places = sorted(range(len(parts)), key=lambda place: (place - turn) % len(parts))
    claims = [remainder * CARRIED_PARTS for _, remainder in parts]
    claims = [claim + more * denominator for claim, more in zip(claims, carried or [0] * len(parts), strict=True)]
    favoured = set(sorted(places, key=lambda place: -claims[place])[:left_over])
    return [floor + for_each + (place in favoured) for place, (floor, _) in enumerate(parts)]


def parse_amount(text: str, minor_digits: int) -> int:
    """Parse "12.34" as minor units; refuse more decimal places than the currency has."""
    found = _AMOUNT.fullmatch(text.strip())
    sign, whole, places = found.groups(default="") if found else ("", "", "")
    if not found or len(places) > minor_digits:
        raise InputError(
            f"An amount must be a number with at most {minor_digits} decimal places, such as "
            f"{amount_text(123_456, minor_digits)}, got {text!r}."
        )
    return int(sign + whole + places.ljust(minor_digits, "0"))


def check_amount(amount: int, what: str) -> int:
    """Refuse an amount that a ledger cannot hold."""
    if abs(amount) > LARGEST_AMOUNT:
        raise InputError(
            f"Amounts in a ledger are at most 10^15 minor units, got {amount} for {what}. Choose a smaller worth of "
            "utility, or a smaller amount."
        )
    return amount


def _exact(amounts: Mapping[str, float], worth: int) -> tuple[list[int], int]:
    """Each amount times the worth, as exact numerators over one power of two."""
    ratios = [amount.as_integer_ratio() for amount in amounts.values()]
    denominator = max((below for _, below in ratios), default=1)
    return [above * (denominator // below) * worth for above, below in ratios], denominator


def _named(names: Mapping[str, object], amounts: Sequence[int]) -> dict[str, int]:
    return {name: check_amount(amount, name) for name, amount in zip(names, amounts, strict=True)}
