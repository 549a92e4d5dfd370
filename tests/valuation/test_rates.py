"""Profits by agreed rates, against their formula."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.errors import InputError
from commonweal.records import AgreedRates, Rates
from commonweal.valuation.rates import rated_cost, rated_profit

rate = st.floats(0, 1e6).map(lambda figure: 0.0 if figure < 1e-12 else figure)


@given(rate, rate, rate, st.floats(-1, 1), st.integers(0, 10**6))
def test_the_formula(gain_rate, sample_rate, round_rate, gain, count):
    rates = Rates(gain=gain_rate, sample=sample_rate, round=round_rate)
    spent = sample_rate * count + round_rate
    assert rated_cost(rates, count) == spent
    size = gain_rate + spent
    assert rated_profit(rates, gain, count) == pytest.approx(gain_rate * gain - spent, abs=1e-12 * size)
    alone = rated_profit(rates, gain, count, is_advantage=True)
    assert alone == pytest.approx(gain_rate * gain - round_rate, abs=1e-12 * size)


def test_what_only_rounding_leaves_is_nothing():
    """0.1 + 0.2 − 0.3 is 5.6e-17; nobody may be eliminated for such a loss."""
    assert rated_profit(Rates(gain=1.0, sample=0.1, round=0.2), 0.3, 1) == 0.0
    assert rated_profit(Rates(gain=1.0, sample=0.1, round=0.2), 0.29, 1) == pytest.approx(-0.01, abs=1e-15)


def test_figures_that_are_no_numbers_are_refused():
    with pytest.raises(InputError):
        rated_profit(Rates(gain=1.0), math.nan, 1)


def test_rates_survive_their_document():
    for rates in (
        AgreedRates(common=Rates(gain=1.0, sample=2e-4)),
        AgreedRates(by_class={"a": Rates(gain=1.0), "b": Rates(gain=2.0)}, classes={"north": "a", "south": "b"}),
    ):
        again = AgreedRates.from_document(rates.to_document())
        assert again == rates
        assert [again.of(client) for client in ("north", "west")] == [rates.of(client) for client in ("north", "west")]
    with pytest.raises(TypeError):
        AgreedRates.from_document({"gain": 1.0, "bonus": 1.0})
    with pytest.raises(ValueError, match="bonus"):
        AgreedRates.from_document({"classes": {}, "members": {}, "bonus": 1.0})
