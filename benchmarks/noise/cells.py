"""The cells of the comparison: experiments of the paper at two learning rates, each with the same seeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from commonweal.scenario.shipped import load
from commonweal.scenario.spec import Scenario

EXPERIMENTS = ("heterogeneous", "large-mnist", "small-cifar10", "label-noise")
LEARNING_RATES = (0.1, 0.01)
MUS = (0.0, 0.05, 0.2)


def cells(seed_count: int) -> Iterator[tuple[str, Scenario]]:
    """Seed by seed, so that an unfinished comparison has all cells."""
    for seed in range(1, seed_count + 1):
        for experiment in EXPERIMENTS:
            for rate in LEARNING_RATES:
                scenario = load(experiment)
                learning = replace(scenario.learning, learning_rate=rate)
                yield f"{experiment}-{rate:g}/{seed}", replace(scenario, seed=seed, learning=learning)
