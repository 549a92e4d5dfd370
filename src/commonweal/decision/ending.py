"""When a federation is finished: no set of at least two clients can expect a positive budget of the next round.

The largest budget that two or more clients can expect is that of the two with the highest expected profits, and of all
others whose profit is positive. If it is not positive, nobody else's is, so it is the sum of the two highest.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from commonweal.records.ending import Ending

_ROUNDING = 1e-12  # of the sum of absolute profits, as for ties


def find_ending(expected: Mapping[str, float]) -> Ending | None:
    """None if another round can pay; fewer than two clients end a federation by themselves."""
    if not is_finished(expected.values()):
        return None
    return Ending(expected=dict(expected), best_budget=min(_best_budget(expected.values()), 0.0))


def is_finished(expected: Collection[float]) -> bool:
    """Whether no two of these expected profits have a positive sum."""
    if len(expected) < 2:
        return False
    return _best_budget(expected) <= _ROUNDING * math.fsum(map(abs, expected))


def _best_budget(expected: Collection[float]) -> float:
    return math.fsum(sorted(expected)[-2:])
