"""Intervals, values of mu, verdicts and recommendations as people read them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from commonweal.records import MuRange
from commonweal.records.study import DEFAULT_RULE, VERDICTS, Recommendation, Verdict
from commonweal.report.text import decimals_for, number

_DIGITS = 3  # significant digits of a bound of mu; further digits change with the replications
_ROUNDING = 1e-9
NO_RECOMMENDATION = "TSFI is outside 0 to 1, so there is no recommendation"

# A verdict has a symbol and a word wherever it is shown, so that nothing depends on colour.
SYMBOLS: Mapping[Verdict, str] = dict(zip(VERDICTS, "✓✗?–", strict=True))
MEANINGS: Mapping[Verdict, str] = dict(
    zip(
        VERDICTS,
        ("above the threshold", "at or below it", "too uncertain to tell", "the results say nothing about it"),
        strict=True,
    )
)


def threshold_text(threshold: float) -> str:
    """ "0.25", or "just below 1" for the double next to 1: then only an effect of exactly 1 exceeds it."""
    shown = number(threshold)
    exact = float(shown.replace("−", "-"))
    if exact != threshold and math.isclose(exact, threshold, rel_tol=1e-9):
        return f"just {'below' if threshold < exact else 'above'} {shown}"
    return shown


def interval_text(value: float, lower: float, upper: float, *, decimals: int | None = None) -> str:
    """ "5.41 (4.79 to 6.03)", by default with three digits of the largest; only the value if there is no width."""
    if decimals is None and (for_four := decimals_for((value, lower, upper))) is not None:
        decimals = max(for_four - 1, 0)
    shown = number(value, decimals=decimals)
    if lower == upper == value:
        return shown
    return f"{shown} ({number(lower, decimals=decimals)} to {number(upper, decimals=decimals)})"


def mu_text(mu: float) -> str:
    return "inf" if math.isinf(mu) else f"{mu:.6g}"


def mu_label(mu: float) -> str:
    """The baselines are named: "0 (least lenient)", "inf (most lenient)"."""
    baseline = {0.0: " (least lenient)", math.inf: " (most lenient)"}
    return f"{mu_text(mu)}{baseline.get(mu, '')}"


def range_text(mus: MuRange) -> str:
    """ "any mu", "mu = inf", "mu > 0.3 (finite)", "mu in [0.01, 0.02)".

    In three digits, or more where the bounds would look the same. As in the range's own text, brackets say whether the
    digits shown are included.
    """
    if mus.exact_lower == mus.exact_upper:
        return f"mu = {mu_text(mus.lower)}"
    if math.isinf(mus.upper):
        finite = "" if mus.closed_above else "finite"
        if mus.exact_lower == 0 and mus.closed_below:
            return f"any {finite} mu".replace("  ", " ")
        low = f"{mus.lower:.{_DIGITS}g}"
        return f"mu {'>=' if float(low) in mus else '>'} {low}{f' ({finite})' if finite else ''}"
    low, high = _told_apart(mus.lower, mus.upper)
    return f"mu in {'[' if float(low) in mus else '('}{low}, {high}{']' if float(high) in mus else ')'}"


def _told_apart(lower: float, upper: float) -> tuple[str, str]:
    texts = ((f"{lower:.{digits}g}", f"{upper:.{digits}g}") for digits in range(_DIGITS, 18))
    return next(pair for pair in texts if pair[0] != pair[1] or lower == upper)


def leaves_unit_interval(tsfis: Iterable[float]) -> bool:
    """Whether mean TSFIs no longer measure fairness, as can happen with raw contributions."""
    return any(not -_ROUNDING <= tsfi <= 1 + _ROUNDING for tsfi in tsfis)


def recommendation_sentence(recommendation: Recommendation) -> str:
    target, step = number(recommendation.fairness_target), recommendation.step
    if step is None:
        return f"TSFI of at least {target}: no mu is that fair."
    return (
        f"TSFI of at least {target}: {range_text(step.mus)}, with a TSW of {number(step.tsw.value)} and a TSFI of "
        f"{number(step.tsfi.value)}."
    )


def verdict_text(verdict: Verdict) -> str:
    """ "✓ held"."""
    return f"{SYMBOLS[verdict]} {verdict}"


def verdict_of(shown: str) -> Verdict:
    """The verdict that a text shows."""
    return next(verdict for verdict in VERDICTS if shown == verdict_text(verdict))


def legend() -> str:
    """ "✓ held, ✗ not held, ? undecided, – not testable"."""
    return ", ".join(map(verdict_text, VERDICTS))


def rule_note(contribution_rule: str) -> str:
    """ " (raw contributions)"; nothing for the default rule."""
    return "" if contribution_rule == DEFAULT_RULE else f" ({contribution_rule} contributions)"
