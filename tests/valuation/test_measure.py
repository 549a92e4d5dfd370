from __future__ import annotations

import math

import pytest

from commonweal.errors import InputError
from commonweal.valuation import Contributions


def test_an_unknown_error_is_infinite_not_missing() -> None:
    record = Contributions(measure="m", values={"a": -1.0}, standard_errors={"a": math.inf}, evaluation_count=2)
    assert record.standard_errors["a"] == math.inf


@pytest.mark.parametrize(
    ("values", "errors", "count", "message"),
    [
        ({"a": math.nan}, {"a": 0.0}, 1, "finite, got nan for client 'a'"),
        ({"a": 1.0}, {"a": -0.1}, 1, r"standard error must be at least 0, got -0\.1"),
        ({"a": 1.0}, {"a": math.nan}, 1, "standard error must be at least 0, got nan"),
        ({"a": 1.0, "b": 1.0}, {"b": 0.0, "a": 0.0}, 1, "same order"),
        ({"a": 1.0}, {"a": 0.0}, -1, "evaluation_count must be at least 0"),
    ],
)
def test_bad_records_are_refused(values: dict[str, float], errors: dict[str, float], count: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Contributions(measure="m", values=values, standard_errors=errors, evaluation_count=count)
