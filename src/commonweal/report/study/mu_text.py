"""Values and ranges of mu, and what is recommended, in words."""

from __future__ import annotations

import math

from commonweal.records import MuRange
from commonweal.report.number_text import number
from commonweal.study import Recommendation


def mu_text(mu: float) -> str:
    return "inf" if math.isinf(mu) else f"{mu:.6g}"


def mu_label(mu: float) -> str:
    """The baselines are named: "0 (least lenient)", "inf (most lenient)"."""
    baseline = {0.0: " (least lenient)", math.inf: " (most lenient)"}
    return f"{mu_text(mu)}{baseline.get(mu, '')}"


def range_text(mus: MuRange) -> str:
    """ "any mu", "mu = inf", "mu > 0.3 (finite)", "mu in [0.01, 0.02)"."""
    if mus.exact_lower == mus.exact_upper:
        return f"mu = {mu_text(mus.lower)}"
    words = str(mus)
    if words == "any":
        return "any mu" if mus.closed_above else "any finite mu"
    return f"mu {words}" if words.startswith(">") else f"mu in {words}"


def recommendation_sentence(recommendation: Recommendation) -> str:
    target, step = number(recommendation.fairness_target), recommendation.step
    if step is None:
        return f"TSFI of at least {target}: no mu is that fair."
    return (
        f"TSFI of at least {target}: {range_text(step.mus)}, with a TSW of {number(step.tsw.value)} and a TSFI of "
        f"{number(step.tsfi.value)}."
    )
