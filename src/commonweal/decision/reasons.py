"""The reason for a client's fate in words: what it brought, what it earned or lost, how sure that is; then why.

"north contributed nothing measurable (−0.002 ± 0.004) and lost 0.005 ± 0.006; in 61 of 100 draws it would have stayed.
It is eliminated: ..."
"""

from __future__ import annotations

import math

from commonweal.records import Decision, Evidence, Stability

_UNKNOWN = Evidence()
_HARM = 2.0  # standard errors below zero from which on a contribution counts as negative beyond doubt
_DIGITS = 4  # of a figure without an error
_DECIMALS = 8  # smaller figures have an exponent


def reason(decision: Decision, client: str, evidence: Evidence | None, explained: str) -> str:
    """The whole reason; `explained` is the mechanism's own explanation, which it ends with."""
    can_go = not decision.grace and decision.mu < math.inf
    total = math.fsum(decision.used_contributions.values())
    used = decision.used_contributions[client]
    figures = brought_and_earned(
        profit=decision.figures.profits[client],
        contribution=decision.figures.contributions[client],
        evidence=evidence,
        part=used / total if decision.rules.contribution_rule == "clip" and total > 0 else None,
    )
    sure = how_sure(client not in decision.eliminated, (evidence or _UNKNOWN).stability) if can_go else ""
    rest = explained.removeprefix(f"{client} ")
    return f"{client} {figures}{f'; {sure}' if sure else ''}. {'It ' if rest != explained else ''}{rest}"


def brought_and_earned(*, profit: float, contribution: float, evidence: Evidence | None, part: float | None) -> str:
    """ "contributed 0.012 ± 0.004 (31 % of the total) and lost 0.005 ± 0.006"; errors only where they are known."""
    evidence = evidence or _UNKNOWN
    brought = _brought(contribution, evidence.contribution_error, part)
    if profit == 0:
        return f"{brought} and neither earned nor lost anything"
    verb = "lost" if profit < 0 else "earned"
    return f"{brought} and {verb} {in_figures(abs(profit), evidence.profit_error)}"


def how_sure(stays: bool, stability: Stability | None) -> str:
    """In how many draws the fate would have been another; "" if that is not known."""
    if stability is None:
        return ""
    other = stability.draw_count - stability.same_count
    if other == 0:
        return f"it {'stays' if stays else 'is eliminated'} in all {stability.draw_count} draws"
    return f"in {other} of {stability.draw_count} draws it would have {'been eliminated' if stays else 'stayed'}"


def _brought(contribution: float, error: float | None, part: float | None) -> str:
    shown = in_figures(contribution, error)
    if error and -_HARM * error <= contribution <= error:
        return f"contributed nothing measurable ({shown})"
    if contribution == 0:
        return "contributed nothing"
    if contribution < 0:
        sure = f"made the shared model worse (contribution {shown})"
        return f"contributed less than nothing ({shown})" if error is None else sure
    return f"contributed {shown}" + ("" if part is None else f" ({100 * part:.0f} % of the total)")


def in_figures(value: float, error: float | None) -> str:
    """ "−0.002 ± 0.004": as many decimals as the error has meaning, and enough to show that the value is not zero."""
    sign, size = "−" if value < 0 else "", abs(value)
    if not error:
        return sign + (f"{size:.{_DIGITS}g}" if size < 10**_DIGITS else f"{size:.0f}")
    decimals = _decimals(error) + (f"{error:.1e}"[0] == "1")  # 0.0012 has two digits, 0.004 one
    if max(decimals, _decimals(size) if size else 0) > _DECIMALS:
        return f"{sign}{size:.2g} ± {error:.2g}"
    return f"{sign}{size:.{max(decimals, _decimals(size) if size else 0)}f} ± {error:.{decimals}f}"


def _decimals(size: float) -> int:
    """The place of the first digit behind the point; 0 for sizes of 1 or more."""
    return max(0, -math.floor(math.log10(size)))
