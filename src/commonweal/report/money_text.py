"""Money as people read it: a real minus sign, and a thin space between thousands."""

from __future__ import annotations

from commonweal.records.statement import Statement

_THIN_SPACE = "\u202f"  # that does not break


def money(statement: Statement, amount: int, *, signed: bool = False) -> str:
    """An amount with all decimals of the statement's currency."""
    whole, point, decimals = statement.money(abs(amount)).partition(".")
    sign = "−" if amount < 0 else "+" if signed and amount else ""
    return f"{sign}{int(whole):,}".replace(",", _THIN_SPACE) + point + decimals
