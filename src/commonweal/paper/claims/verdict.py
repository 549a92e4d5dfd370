"""One rule for all claims: the effect is claimed to lie above a threshold."""

from __future__ import annotations

import math

from commonweal.records.study import Interval, Verdict

FEWEST_REPLICATIONS = 5
ALL = math.nextafter(1.0, 0.0)
"""The threshold of a share that is claimed to be 1: only 1 lies above it."""


def verdict(
    interval: Interval,
    threshold: float,
    *,
    replication_count: int,
    by_construction: bool = False,
    knows_no_exception: bool = False,
) -> Verdict:
    """Held if the whole interval lies above the threshold, not held if none of it does, else undecided.

    Few replications decide nothing, except of what holds by construction: there every case counts, not a sample. What
    is claimed to know no exception is refuted by one.
    """
    if knows_no_exception and interval.value <= threshold:
        return "not held"
    if replication_count < FEWEST_REPLICATIONS and not by_construction:
        return "undecided"
    if interval.lower > threshold:
        return "held"
    return "not held" if interval.upper <= threshold else "undecided"
