"""Numbers and names as people read them."""

from __future__ import annotations

import math

import pytest

from commonweal.records import Estimate
from commonweal.report.text import counted, decimals_for, number, with_error


@pytest.mark.parametrize(
    ("value", "options", "expected"),
    [
        (0.0123, {"signed": True}, "+0.0123"),
        (-0.0123, {"signed": True}, "−0.0123"),
        (-0.0123, {}, "−0.0123"),
        (0.0, {"signed": True}, "0"),
        (-1e-9, {"decimals": 4, "signed": True}, "0.0000"),
        (1234.5678, {}, "1235"),
        (0.00012345678, {}, "0.0001235"),
        (math.inf, {}, "∞"),
        (-math.inf, {}, "−∞"),
        (2.9, {"decimals": 3}, "2.900"),
    ],
)
def test_a_number(value, options, expected):
    assert number(value, **options) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1234, 0.001], 4),
        ([12.0, 0.5, None], 2),
        ([1e5], 0),
        ([], 4),
        ([0.0], 4),
        ([1e-9], None),
        ([math.inf, 1.0], 3),
    ],
)
def test_the_largest_of_a_column_has_four_digits(values, expected):
    assert decimals_for(values) == expected


def test_small_columns_keep_their_digits():
    assert number(0.0002, decimals=decimals_for([0.0002, 0.0001])) == "0.0002000"


def test_an_error_is_shown_where_there_is_one():
    assert with_error(Estimate(value=0.5, standard_error=0.012), decimals=3) == "0.500 ± 0.012"
    assert with_error(Estimate(value=-0.5, standard_error=None), signed=True) == "−0.5 ± ?"
    assert with_error(Estimate(value=0.5, standard_error=0.0)) == "0.5 ± 0"


def test_counting():
    assert [counted(n, "entry", "entries") for n in (0, 1, 2)] == ["0 entries", "1 entry", "2 entries"]
    assert [counted(n, "round") for n in (0, 1, 2)] == ["0 rounds", "1 round", "2 rounds"]
