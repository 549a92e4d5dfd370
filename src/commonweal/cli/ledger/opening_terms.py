"""The terms of a new ledger from options: nothing that turns figures into money is assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commonweal.errors import InputError

if TYPE_CHECKING:
    from commonweal.ledger.terms import SettlementKind, Terms

_TEST_WORTH = "1000"


def opening_terms(
    name: str,
    *,
    currency: str | None,
    worth: str | None,
    minor_digits: int | None = None,
    settlement: SettlementKind = "transfers",
    largest_share: float | None = None,
) -> Terms:
    """Without a currency, the ledger is for tests. A currency needs a worth, and has the decimal places of ISO 4217."""
    from commonweal.ledger.currencies import TEST_CURRENCY, minor_digits_of
    from commonweal.ledger.money import parse_amount
    from commonweal.ledger.terms import Terms

    code = TEST_CURRENCY if currency is None else currency
    Terms(name="checked", currency=code)  # before the code is used
    if worth is None and code != TEST_CURRENCY:
        raise InputError(
            f"--currency {code} needs --worth: what one unit of utility is worth in {code}. Write --worth 1 if the "
            f"figures are in {code} already."
        )
    digits = minor_digits_of(code) if minor_digits is None else minor_digits
    if digits is None:
        raise InputError(
            f"ISO 4217 gives {code} no decimal places. Correct the code, or add --minor-digits, e.g. --minor-digits 2."
        )
    Terms(name="checked", minor_digits=digits)  # before the digits are used
    return Terms(
        name=name,
        currency=code,
        minor_digits=digits,
        worth=parse_amount(_TEST_WORTH if worth is None else worth, digits),
        settlement=settlement,
        largest_share=largest_share,
    )


def check_same_terms(terms: Terms, *, currency: str | None, worth: str | None) -> None:
    """Refuse options that differ from the terms of a ledger that exists."""
    from commonweal.ledger.money import amount_text, parse_amount

    kept = "Leave it out, or name another ledger."
    if currency not in (None, terms.currency):
        raise InputError(f"The ledger {terms.name} is kept in {terms.currency}, got --currency {currency}. {kept}")
    if worth is not None and parse_amount(worth, terms.minor_digits) != terms.worth:
        raise InputError(
            f"In the ledger {terms.name}, one unit of utility is worth {amount_text(terms.worth, terms.minor_digits)} "
            f"{terms.currency}, got --worth {worth}. {kept}"
        )
