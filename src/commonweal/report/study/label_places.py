"""Places for the labels of points that lie close together."""

from __future__ import annotations

import math
from collections.abc import Sequence

Box = tuple[float, float, float, float]  # left, bottom, right, top

_DIRECTIONS = [math.radians(angle) for angle in (90, 270, 0, 180, 45, 135, 225, 315)]
_DISTANCES = (10.0, 18.0, 28.0, 40.0)


def label_offsets(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    *,
    inside: Box,
    avoid: Sequence[tuple[float, float]] = (),
) -> list[tuple[float, float]]:
    """From each point to the middle of its label, all in printer's points; labels cover neither points nor each other.

    Greedy, in the given order: the nearest place that hides least.
    """
    taken = [_box(x, y, 7.0, 7.0) for x, y in (*points, *avoid)]
    offsets = []
    for (x, y), (width, height) in zip(points, sizes, strict=True):
        best: tuple[float, float, float] | None = None
        for distance in _DISTANCES:
            for direction in _DIRECTIONS:
                dx = math.cos(direction) * (distance + width / 2 - 5)
                dy = math.sin(direction) * distance
                box = _box(x + dx, y + dy, width, height)
                hidden = sum(_overlap(box, other) for other in taken) + 3 * _outside(box, inside)
                if best is None or hidden + distance < best[0]:
                    best = (hidden + distance, dx, dy)
        assert best is not None
        offsets.append(best[1:])
        taken.append(_box(x + best[1], y + best[2], width, height))
    return offsets


def _box(x: float, y: float, width: float, height: float) -> Box:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _overlap(one: Box, other: Box) -> float:
    """In square points."""
    across = min(one[2], other[2]) - max(one[0], other[0])
    along = min(one[3], other[3]) - max(one[1], other[1])
    return across * along if across > 0 and along > 0 else 0.0


def _outside(box: Box, inside: Box) -> float:
    area = (box[2] - box[0]) * (box[3] - box[1])
    return area - _overlap(box, inside)
