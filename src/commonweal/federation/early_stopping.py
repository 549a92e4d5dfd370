"""When another iteration would change nothing."""

from __future__ import annotations

from collections.abc import Mapping

_ROUNDING = 1e-9  # 0.57 − 0.56 is a change of 0.01, though doubles make it a little less


def has_settled(before: Mapping[str, float], now: Mapping[str, float], stop_below: float) -> bool:
    """Whether no client's accuracy changed by `stop_below` or more in an iteration."""
    return all(abs(now[client] - before[client]) < stop_below * (1 - _ROUNDING) for client in now)
