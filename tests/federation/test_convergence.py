"""A change of exactly the threshold is a change."""

from __future__ import annotations

from fractions import Fraction

import pytest

from commonweal.federation.measuring import has_converged


@pytest.mark.parametrize("sample_count", [30, 100, 200, 300])
def test_the_threshold_is_kept_for_all_counts_of_hits(sample_count):
    """Against exact fractions: doubles make 0.57 − 0.56 a little less than 0.01."""
    for before in range(sample_count + 1):
        for now in range(sample_count + 1):
            settled = abs(Fraction(now - before, sample_count)) < Fraction(1, 100)
            found = has_converged({"a": before / sample_count}, {"a": now / sample_count}, 0.01)
            assert found == settled, (before, now)


def test_one_client_that_moves_is_enough():
    assert not has_converged({"a": 0.5, "b": 0.5}, {"a": 0.5, "b": 0.6}, 0.01)
    assert has_converged({"a": 0.5, "gone": 0.1}, {"a": 0.5}, 0.01)


def test_a_threshold_of_zero_never_stops():
    assert not has_converged({"a": 0.5}, {"a": 0.5}, 0.0)
