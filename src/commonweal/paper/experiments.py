"""The paper's six experiments, in its order, and how it ran them."""

from __future__ import annotations

import math
from collections.abc import Sequence

EXPERIMENTS = ("heterogeneous", "large-mnist", "large-cifar10", "small-mnist", "small-cifar10", "label-noise")
VARIANTS = ("label-noise-training-only",)  # besides the six: run only when named, not as part of `all`
EVERY_ONE = (*EXPERIMENTS, *VARIANTS)
REPLICATION_COUNT = 100
MUS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, math.inf)


def chosen_experiments(names: Sequence[str]) -> tuple[str, ...]:
    """The scenarios asked for, each once: the paper's in order, then the others. `all`, or nothing, means all six."""
    asked = {*names} if names else {"all"}
    if "all" in asked:
        asked |= {*EXPERIMENTS}
    others = (name for name in dict.fromkeys(names) if name not in (*EVERY_ONE, "all"))
    return (*(name for name in EVERY_ONE if name in asked), *others)
