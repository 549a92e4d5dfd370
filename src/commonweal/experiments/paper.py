"""The paper's six experiments, in its order, and how it ran them."""

from __future__ import annotations

import math
from difflib import get_close_matches

from commonweal.errors import InputError

EXPERIMENTS = ("heterogeneous", "large-mnist", "large-cifar10", "small-mnist", "small-cifar10", "label-noise")
REPLICATION_COUNT = 100
MUS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, math.inf)


def chosen_experiments(names: list[str]) -> tuple[str, ...]:
    """The experiments asked for, in the paper's order; `all`, or nothing, means all six."""
    for name in names:
        if name not in (*EXPERIMENTS, "all"):
            close = get_close_matches(name, EXPERIMENTS, n=1)
            way_out = f"did you mean {close[0]!r}?" if close else "choose one of those"
            raise InputError(f"an experiment must be one of {', '.join(EXPERIMENTS)} or all, got {name!r}; {way_out}")
    return EXPERIMENTS if not names or "all" in names else tuple(name for name in EXPERIMENTS if name in names)
