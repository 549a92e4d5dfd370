"""What a decision maximises.

f(E) = Σ_{n retained} profit(n) − μ · Q(E) / Q(retained),      Q(S) = Σ_{n in S} q(n)
"""

from __future__ import annotations

import math
from fractions import Fraction

from commonweal.decision.exact import BoolArray, FloatArray

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


def objective(profits: FloatArray, contributions: FloatArray, retained: BoolArray, mu: float) -> float:
    """f(E) of a round with the given retained set, in units of utility."""
    welfare = math.fsum(profits[retained].tolist())
    if retained.all():
        return welfare
    gone, kept = math.fsum(contributions[~retained].tolist()), math.fsum(contributions[retained].tolist())
    return float(welfare - penalty(gone, kept, mu))
