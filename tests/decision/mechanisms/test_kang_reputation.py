"""Kang's reputation: subjective logic, who takes part, and who is paid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.mechanisms.kang_reputation import Opinion, faded, opinion
from commonweal.records import Figures
from tests.decision.mechanisms.rounds import decided, mechanism


def test_opinions_by_hand():
    """κ = 0.4 and η = 0.6: a negative event counts for one and a half positive ones."""
    three_to_two = opinion(3, 2, 0.9)
    assert three_to_two.belief == pytest.approx(0.9 * 1.2 / 2.4)
    assert three_to_two.disbelief == pytest.approx(0.9 * 1.2 / 2.4)
    assert three_to_two.reputation == pytest.approx(0.45 + 0.5 * 0.1)
    assert opinion(0, 0, 0.9).reputation == 0.5
    assert opinion(1, 0, 1.0).reputation == 1.0
    assert opinion(0, 1, 0.8).reputation == pytest.approx(0.1)


def test_fresh_opinions_count_more():
    good, bad = opinion(1, 0, 1.0), opinion(0, 1, 1.0)
    assert faded([good, bad]).reputation == pytest.approx(0.8 / 1.8)
    assert faded([bad, good]).reputation == pytest.approx(1 / 1.8)
    assert faded([bad, good, good]).reputation == pytest.approx(1.8 / (1.8 + 0.64))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9), st.floats(0, 1))
def test_opinions_are_opinions(events, link_quality):
    one = faded([opinion(good, bad, link_quality) for good, bad in events])
    parts = (one.belief, one.disbelief, one.uncertainty)
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(1)
    assert 0 <= one.reputation <= 1 + 1e-12
    better = faded([opinion(good + 1, bad, link_quality) for good, bad in events])
    assert isinstance(one, Opinion)
    assert better.belief >= one.belief - 1e-12


def round_of(**contributions):
    figures = Figures(
        profits=dict.fromkeys(contributions, 0.5),
        contributions=contributions,
        further={"metric": dict.fromkeys(contributions, 0.8)},
    )
    return figures, {}


def test_who_misbehaves_is_not_paid_and_rests():
    """A zero is no harm. After a harmful round T is 0.05, and after a good and a bad one 0.45: below a half."""
    one = mechanism("kang-reputation")
    (first, asked, _), (second, asked_later, _) = decided(
        one, [round_of(a=0.2, b=-0.1, c=0.0, d=0.3), round_of(a=0.2, c=-0.1, d=0.1)]
    )
    assert first.transfers["b"] == 0 < first.transfers["a"] == first.transfers["c"]
    assert asked.participants == ("a", "c", "d")
    assert second.transfers["c"] == 0
    assert asked_later.participants == ("a", "d")
    assert first.eliminated == second.eliminated == ()


def test_two_take_part_even_if_nobody_is_trusted():
    one = mechanism("kang-reputation")
    asked = decided(one, [round_of(a=-0.2, b=0.1, c=-0.3)])[0][1]
    assert asked.participants == ("a", "b")
