"""Intervals as people read them."""

from __future__ import annotations

import math

from commonweal.report.number_text import decimals_for, number


def threshold_text(threshold: float) -> str:
    """ "0.25"; one next to 1, by which an effect of exactly 1 is wanted, is "just below 1"."""
    shown = number(threshold)
    exact = float(shown.replace("−", "-"))
    if exact != threshold and math.isclose(exact, threshold, rel_tol=1e-9):
        return f"just {'below' if threshold < exact else 'above'} {shown}"
    return shown


def interval_text(value: float, lower: float, upper: float, *, decimals: int | None = None) -> str:
    """ "5.41 (4.79 to 6.03)", by default with three digits of the largest; the value alone where there is no width."""
    if decimals is None and (for_four := decimals_for((value, lower, upper))) is not None:
        decimals = max(for_four - 1, 0)
    shown = number(value, decimals=decimals)
    if lower == upper == value:
        return shown
    return f"{shown} ({number(lower, decimals=decimals)} to {number(upper, decimals=decimals)})"
