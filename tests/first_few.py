"""Repetitions of one behaviour: a few in every run, the others in `make soak`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_few(count: int, values: Iterable[Any]) -> list[Any]:
    """For `pytest.mark.parametrize`: all values, or tuples of them, marked `soak` from this one on."""
    return [
        value
        if place < count
        else pytest.param(*value if isinstance(value, tuple) else (value,), marks=pytest.mark.soak)
        for place, value in enumerate(values)
    ]
