"""What a decision maximises.

f(E) = Σ_{n retained} profit(n) − μ · Q(E) / Q(retained),      Q(S) = Σ_{n in S} q(n)
"""

from __future__ import annotations

import math
from fractions import Fraction

from commonweal.decision.exact import BoolArray, FloatArray, exact_sum

Number = Fraction | float


def penalty(eliminated: Number, retained: Number, mu: Number) -> Number:
    """μ · Q(E) / Q(retained); 0 if nothing is lost, +∞ if the retained clients contribute nothing.

    With μ > 0, a retained set whose contributions sum to zero is never chosen, whatever the sign of Q(E), because the
    ratio has no meaning there.
    """
    if mu == 0 or eliminated == 0:
        return 0
    if retained == 0:
        return math.inf
    return mu * eliminated / retained


def exact_objective(profits: FloatArray, contributions: FloatArray, retained: BoolArray, mu: float) -> Number:
    """f(E) as the rational number that the doubles give, or −∞."""
    gone, kept = exact_sum(contributions[~retained]), exact_sum(contributions[retained])
    return exact_sum(profits[retained]) - penalty(gone, kept, Fraction(mu))


def objective(profits: FloatArray, contributions: FloatArray, retained: BoolArray, mu: float) -> float:
    """f(E) of a round with the given retained set, in units of utility."""
    welfare = math.fsum(profits[retained].tolist())
    if retained.all():
        return welfare
    gone, kept = math.fsum(contributions[~retained].tolist()), math.fsum(contributions[retained].tolist())
    return float(welfare - penalty(gone, kept, mu))
