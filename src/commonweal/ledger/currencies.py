"""How many decimal places a currency has.

From ISO 4217, list one, which SIX maintains. All currencies that are not named here have two.
"""

from __future__ import annotations

from commonweal.ledger.terms import Terms
from commonweal.records.statement import amount_text

TEST_CURRENCY = "XTS"

_OTHERS = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
_MINOR_DIGITS = {code: digits for digits, codes in _OTHERS.items() for code in codes.split()}
_WITHOUT = frozenset(
    ["XAG", "XAU", "XBA", "XBB", "XBC", "XBD", "XDR", "XPD", "XPT", "XSU", "XUA", "XXX"]
)  # metals, bonds, units of account; XXX is ISO's code for "no currency"


def minor_digits_of(currency: str) -> int | None:
    """The decimal places of a currency; None for codes that ISO 4217 gives none. The code for tests has two."""
    return None if currency in _WITHOUT else _MINOR_DIGITS.get(currency, 2)


def money_in_words(terms: Terms) -> str:
    """ "in EUR, one unit of utility is worth 1000.00"; with what is unusual about the currency."""
    usual, remark = minor_digits_of(terms.currency), ""
    if terms.currency == TEST_CURRENCY:
        remark = " (the code for tests)"
    elif usual not in (None, terms.minor_digits):
        remark = f" (with {terms.minor_digits} decimal places; ISO 4217 has {usual})"
    return f"in {terms.currency}{remark}, one unit of utility is worth {amount_text(terms.worth, terms.minor_digits)}"
