"""Values and ranges of mu, and what is recommended, in words."""

from __future__ import annotations

import math
from collections.abc import Iterable

from commonweal.records import MuRange
from commonweal.records.study import Recommendation
from commonweal.report.number_text import number

_DIGITS = 3  # of a bound: where it lies differs more than that from one set of replications to the next
_ROUNDING = 1e-9
NO_RECOMMENDATION = "TSFI leaves 0 to 1: no recommendation"


def mu_text(mu: float) -> str:
    return "inf" if math.isinf(mu) else f"{mu:.6g}"


def mu_label(mu: float) -> str:
    """The baselines are named: "0 (least lenient)", "inf (most lenient)"."""
    baseline = {0.0: " (least lenient)", math.inf: " (most lenient)"}
    return f"{mu_text(mu)}{baseline.get(mu, '')}"


def range_text(mus: MuRange) -> str:
    """ "any mu", "mu = inf", "mu > 0.3 (finite)", "mu in [0.01, 0.02)".

    In three digits, more where the bounds would else look the same. As in the range's own text, whether an end is
    included is told of the digits shown.
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
    """Whether a mean TSFI says nothing of fairness any more, as it can with raw contributions."""
    return any(not -_ROUNDING <= tsfi <= 1 + _ROUNDING for tsfi in tsfis)


def recommendation_sentence(recommendation: Recommendation) -> str:
    target, step = number(recommendation.fairness_target), recommendation.step
    if step is None:
        return f"TSFI of at least {target}: no mu is that fair."
    return (
        f"TSFI of at least {target}: {range_text(step.mus)}, with a TSW of {number(step.tsw.value)} and a TSFI of "
        f"{number(step.tsfi.value)}."
    )
