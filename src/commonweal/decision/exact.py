"""Doubles as the rational numbers they are.

Every finite double is an integer times a power of two, so sums and comparisons can be made without
rounding. Floats decide which sets are worth comparing; these numbers decide which set wins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

_MANTISSA_BITS = 53
_HALF_BITS = 26
_LOWEST_EXPONENT, _EXPONENT_COUNT = -1074, 2100  # of all doubles, as frexp gives them
_FEW_VALUES = 32  # added one by one
_CHUNK = 2**16  # values at a time: few enough for the processor's cache


def common_integers(values: Sequence[float]) -> tuple[list[int], Fraction]:
    """An integer k for each value and one common unit, such that value = k · unit exactly."""
    parts = [math.frexp(value) for value in values]
    exponents = [exponent for mantissa, exponent in parts if mantissa]
    lowest = min(exponents, default=0)
    integers = [
        int(math.ldexp(mantissa, _MANTISSA_BITS)) << (exponent - lowest) if mantissa else 0
        for mantissa, exponent in parts
    ]
    return integers, Fraction(2) ** (lowest - _MANTISSA_BITS)


def exact_sum(values: FloatArray) -> Fraction:
    """Σ values without rounding; a million values take about ten milliseconds."""
    if len(values) <= _FEW_VALUES:
        integers, unit = common_integers(values.tolist())
        return sum(integers) * unit
    # Mantissas are split into halves of at most 27 bits and added up by exponent: no sum over a chunk exceeds 53 bits.
    highs, lows = np.zeros(_EXPONENT_COUNT, np.int64), np.zeros(_EXPONENT_COUNT, np.int64)
    for start in range(0, len(values), _CHUNK):
        mantissas, exponents = np.frexp(values[start : start + _CHUNK])
        shifted = np.ldexp(mantissas, _MANTISSA_BITS - _HALF_BITS)
        high = np.floor(shifted)
        low = (shifted - high) * 2.0**_HALF_BITS
        places = exponents - _LOWEST_EXPONENT
        highs += np.bincount(places, high, _EXPONENT_COUNT).astype(np.int64)
        lows += np.bincount(places, low, _EXPONENT_COUNT).astype(np.int64)
    total = 0
    for place in np.flatnonzero(highs).tolist():
        total += ((int(highs[place]) << _HALF_BITS) + int(lows[place])) << place
    return total * Fraction(2) ** (_LOWEST_EXPONENT - _MANTISSA_BITS)
