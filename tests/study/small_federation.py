"""A federation small enough to run many times in tests: four clients on built-in data, some soon eliminated."""

from __future__ import annotations

from commonweal.scenario.spec import Scenario
from commonweal.scenario.toml_file import parse_scenario

_TEXT = """
name = "small"
description = "Four clients on built-in digits, one with bad labels."
rounds = {rounds}
seed = 4
[mechanism]
mu = 0.05
contribution = "marginal"
{mechanism}
[learning]
algorithm = "{algorithm}"
iteration_limit = 2
[defaults]
source = "mnist-5k"
samples_per_round = 20
cost_per_sample = 3e-3
[[clients]]
name = "a"
[[clients]]
name = "b"
defect = {{ kind = "label-noise", probability = 0.5 }}
[[clients]]
name = "c"
source = "uci-digits"
[[clients]]
name = "d"
"""


def small_federation_text(*, rounds: int = 4, algorithm: str = "fedavg", mechanism: str = "") -> str:
    """Its file; `mechanism`: further lines of that table."""
    return _TEXT.format(rounds=rounds, algorithm=algorithm, mechanism=mechanism)


def small_federation(*, rounds: int = 4, algorithm: str = "fedavg", mechanism: str = "") -> Scenario:
    return parse_scenario(small_federation_text(rounds=rounds, algorithm=algorithm, mechanism=mechanism), "small.toml")
