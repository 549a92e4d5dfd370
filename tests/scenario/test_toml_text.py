"""Values written as TOML are read back as they were."""

from __future__ import annotations

import datetime
import tomllib

from hypothesis import given
from hypothesis import strategies as st

from commonweal.scenario.toml_text import toml_lines, toml_value

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))  # surrogates are no characters of UTF-8
PLAIN = st.one_of(
    TEXTS,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.dates(min_value=datetime.date(1, 1, 1)),
    st.datetimes(),
)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=8)


@given(st.dictionaries(TEXTS, VALUES))
def test_what_is_written_is_read_back(values):
    assert tomllib.loads(toml_lines(values)) == values


def test_none_has_no_line_and_tuples_are_arrays():
    assert toml_lines({"a": None, "b": ((0.5, 1), True)}) == "b = [[0.5, 1], true]\n"
    assert toml_value({"two words": {}}) == '{ "two words" = {} }'
