"""The paper's six experiments, in its order, and how it ran them."""

from __future__ import annotations

import math
from difflib import get_close_matches

from commonweal.errors import InputError

EXPERIMENTS = ("heterogeneous", "large-mnist", "large-cifar10", "small-mnist", "small-cifar10", "label-noise")
VARIANTS = ("label-noise-training-only",)  # beside the six: run when named, not as part of all
EVERY_ONE = (*EXPERIMENTS, *VARIANTS)
REPLICATION_COUNT = 100
MUS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, math.inf)


def chosen_experiments(names: list[str]) -> tuple[str, ...]:
    """The experiments asked for, in the paper's order; `all`, or nothing, means all six."""
    for name in names:
        if name not in (*EVERY_ONE, "all"):
            close = get_close_matches(name, EVERY_ONE, n=1)
            way_out = f"did you mean {close[0]!r}?" if close else "choose one of those"
            raise InputError(f"an experiment must be one of {', '.join(EVERY_ONE)} or all, got {name!r}; {way_out}")
    asked = {*names} if names else {"all"}
    return tuple(name for name in EVERY_ONE if name in asked or ("all" in asked and name in EXPERIMENTS))
