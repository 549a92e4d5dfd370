"""Student's t distribution with a whole number of degrees of freedom, by its closed form; without scipy.

With θ = arctan(t/√ν), P(|T| ≤ t) is (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)

    ν even   sin θ · (1 + ½ cos²θ + (1·3)/(2·4) cos⁴θ + ... up to cos^(ν−2) θ)
    ν odd    2/π · (θ + sin θ · (cos θ + 2/3 cos³θ + (2·4)/(3·5) cos⁵θ + ... up to cos^(ν−2) θ))
"""

from __future__ import annotations

import math

from commonweal.errors import InputError

_STEPS = 200  # of the bisection: more than a double has digits


def probability_beyond(t: float, freedom: int) -> float:
    """P(T > t), for t ≥ 0. Below about 1e-14, only the order of magnitude is right."""
    if freedom < 1 or not t >= 0:
        raise InputError(f"t must be at least 0 and the degrees of freedom at least 1, got {t!r} and {freedom!r}.")
    if math.isinf(t):
        return 0.0
    angle = math.atan2(t, math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    is_even = freedom % 2 == 0
    term = 1.0 if is_even else cosine
    total = 0.0
    for power in range(0 if is_even else 1, freedom - 1, 2):  # of the cosine
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    within = sine * total if is_even else 2 / math.pi * (angle + sine * total)
    return max(0.0, (1 - within) / 2)


def upper_quantile(level: float, freedom: int) -> float:
    """The t with P(T > t) = `level`, for levels from 1e-12 to one half."""
    if not 1e-12 <= level <= 0.5:
        raise InputError(f"level must be from 1e-12 to 0.5, got {level!r}.")
    low, high = 0.0, 1.0
    while probability_beyond(high, freedom) > level:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if probability_beyond(middle, freedom) > level else (low, middle)
    return high
