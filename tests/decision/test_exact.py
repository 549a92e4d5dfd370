"""Sums without rounding, against the rational numbers of the standard library."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from commonweal.decision.exact import exact_sum


@pytest.mark.parametrize("count", [0, 1, 32, 33, 5000, 70_000])
def test_exact_sum(count):
    rng = np.random.default_rng(count)
    for values in (
        rng.random(count),
        10.0 ** rng.uniform(-50, 50, count),
        np.full(count, 1 - 2.0**-53),
        rng.normal(size=count) * 10.0 ** rng.integers(-20, 20, count),
        rng.choice([5e-324, 1.7e308, -2.2e-308, 0.0, -3.0], count),
    ):
        assert exact_sum(values) == sum(map(Fraction, values.tolist()), Fraction(0))
