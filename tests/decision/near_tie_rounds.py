"""Rounds in which sets tie, or nearly do: figures that are equal on paper, off by a few units in the last place."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from tests.decision.oracles import all_sets

PAPER = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 1.0, 1.5)


@st.composite
def near_tie_rounds(draw, rule="clip", most_candidates=8):
    """Profits and contributions of up to 8 loss-makers and up to 2 others, in random order and in any unit."""
    count = draw(st.integers(1, most_candidates))
    others = draw(st.integers(0, 2))
    figures = st.sampled_from(PAPER)
    losses = [draw(figures) for _ in range(count)]
    gains = [draw(st.one_of(figures, st.just(0.0))) for _ in range(others)]
    contributions = [draw(st.one_of(figures, st.just(0.0))) for _ in range(count + others)]
    if draw(st.booleans()):  # losses in proportion to contributions: all sets with the same sum tie
        losses = [0.3 * q if q else loss for loss, q in zip(losses, contributions, strict=False)]
    total = sum(losses) + sum(gains)
    # Some losses about as large as the width of a tie.
    losses = [draw(st.sampled_from([loss] * 4 + [w * 1e-12 * total for w in (0.2, 0.5, 1.0, 1.5)])) for loss in losses]
    off = st.one_of(st.integers(-3, 3).map(lambda n: 1 + n * 2.0**-52), st.floats(-3e-12, 3e-12).map(lambda x: 1 + x))
    unit, other_unit = (10.0 ** draw(st.sampled_from([0, 0, -9, -3, 4, 9])) for _ in range(2))
    profits = np.array([-loss * draw(off) for loss in losses] + [gain * draw(off) for gain in gains]) * unit
    contributions = np.array([q * draw(off) for q in contributions]) * other_unit
    if rule == "raw":
        contributions *= [draw(st.sampled_from([1.0, 1.0, -1.0])) for _ in contributions]
    order = draw(st.permutations(range(count + others)))
    return profits[list(order)], contributions[list(order)]


@st.composite
def revealing_mus(draw, profits, contributions):
    """A μ at which two sets have about the same objective: where their lines cross, or within a few ulps of that."""
    _, loss_unit, sets = all_sets(profits, contributions)
    lines = [
        (lost * loss_unit, Fraction(gone, kept) if gone else Fraction(0))
        for _, lost, gone, kept in sets
        if kept or not gone
    ]
    (lost, ratio), (other_lost, other_ratio) = draw(st.sampled_from(lines)), draw(st.sampled_from(lines))
    crossing = (lost - other_lost) / (ratio - other_ratio) if ratio != other_ratio else Fraction(0)
    if not 1e-40 < crossing < 1e40:
        return draw(st.sampled_from([0.0, 1e-3, 1.0, 1e3]))
    mu = float(crossing)
    for _ in range(draw(st.integers(0, 2))):
        mu = math.nextafter(mu, draw(st.sampled_from([0.0, math.inf])))
    return mu * (1 + draw(st.sampled_from([0.0, 0.0, 1e-13, -1e-13, 3e-12, -3e-12])))
