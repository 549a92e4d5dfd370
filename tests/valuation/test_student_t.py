"""Student's t against scipy."""

import math

import pytest
from scipy.stats import t as student

from commonweal.errors import InputError
from commonweal.valuation.student_t import probability_beyond, upper_quantile


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 6, 7, 12, 19, 99, 998])
def test_probabilities_and_quantiles_are_those_of_scipy(freedom):
    for t in (0.0, 0.1, 1.0, 2.5, 7.0, 40.0):
        assert probability_beyond(t, freedom) == pytest.approx(student.sf(t, freedom), abs=1e-14)
    for level in (0.5, 0.25, 0.05, 1e-3, 1e-6, 1e-8):
        assert upper_quantile(level, freedom) == pytest.approx(student.isf(level, freedom), rel=1e-7, abs=1e-9)


def test_one_degree_of_freedom_is_the_cauchy_distribution():
    """P(T > t) = 1/2 − arctan(t)/π."""
    for t in (0.0, 0.5, 1.0, 30.0):
        assert probability_beyond(t, 1) == pytest.approx(0.5 - math.atan(t) / math.pi, abs=1e-15)
    assert upper_quantile(0.25, 1) == pytest.approx(1.0, rel=1e-14)
    assert probability_beyond(math.inf, 3) == 0


def test_what_has_no_probability_is_refused():
    with pytest.raises(InputError, match="degrees of freedom at least 1"):
        probability_beyond(1.0, 0)
    with pytest.raises(InputError, match="at least 0"):
        probability_beyond(math.nan, 3)
    with pytest.raises(InputError, match=r"from 1e-12 to 0\.5"):
        upper_quantile(0.6, 3)
