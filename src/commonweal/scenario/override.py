"""A scenario with some values replaced, under the same rules as in its file."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from commonweal.errors import ScenarioError
from commonweal.scenario.keys import MECHANISM_KEYS, SCENARIO_KEYS
from commonweal.scenario.spec import Scenario


def override(
    scenario: Scenario, *, mu: float | str | None = None, seed: int | None = None, rounds: int | None = None
) -> Scenario:
    """The scenario with the given values; μ may be text, such as "0.05" or "inf"."""
    if mu is not None:
        rules = replace(scenario.mechanism.rules, mu=checked_mu(mu))
        scenario = replace(scenario, mechanism=replace(scenario.mechanism, rules=rules))
    if seed is not None:
        scenario = replace(scenario, seed=SCENARIO_KEYS["seed"].checked("seed", seed))
    if rounds is not None:
        scenario = replace(scenario, round_count=SCENARIO_KEYS["rounds"].checked("rounds", rounds))
    return scenario


def checked_mu(mu: float | str) -> float:
    """A valid μ from text, such as "0.05" or "inf", or from a number."""
    leniency: float = MECHANISM_KEYS["mu"].checked("mu", _typed_number(mu))
    return leniency


def _typed_number(mu: float | str) -> float:
    if not isinstance(mu, str):
        return mu
    try:
        if "_" in mu or not mu.isascii():  # float() accepts 1_0 for ten, and digits of all scripts
            raise ValueError
        number = float(mu)
        if (number == 0 and re.search("[1-9]", mu.lower().partition("e")[0])) or (
            math.isinf(number) and "inf" not in mu.lower()
        ):  # 1e-400 is not 0, and 1e400 is a large number, not infinity
            raise ValueError
        return number
    except ValueError:
        raise ScenarioError(f"mu must be a number, got {mu!r}. Write it like 0.05, or inf.") from None
