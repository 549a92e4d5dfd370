"""How many decimal places a currency has.

From ISO 4217, list one, which SIX maintains.
"""

from __future__ import annotations

from commonweal.ledger.terms import Terms
from commonweal.records.statement import amount_text

TEST_CURRENCY = "XTS"

_CODES = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    2: """AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF
        CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG
        HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR
        MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD
        SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD
        XCG XTS YER ZAR ZMW ZWG""",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
_MINOR_DIGITS = {code: digits for digits, codes in _CODES.items() for code in codes.split()}


def minor_digits_of(currency: str) -> int | None:
    """The decimal places of a currency. The code for tests has two.

    None for codes that ISO 4217 does not have, or gives none: metals, bonds, units of account, and "no currency" (XXX).
    """
    return _MINOR_DIGITS.get(currency)


def money_in_words(terms: Terms) -> str:
    """ "in EUR, one unit of utility is worth 1000.00"; with what is unusual about the currency."""
    usual, remark = minor_digits_of(terms.currency), ""
    if terms.currency == TEST_CURRENCY:
        remark = " (the code for tests)"
    elif usual not in (None, terms.minor_digits):
        remark = f" (with {terms.minor_digits} decimal places; ISO 4217 has {usual})"
    return f"in {terms.currency}{remark}, one unit of utility is worth {amount_text(terms.worth, terms.minor_digits)}"
