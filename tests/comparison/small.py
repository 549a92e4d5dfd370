"""A federation of three clients that is compared within seconds."""

from __future__ import annotations

from commonweal.scenario.spec import Scenario
from commonweal.scenario.toml_file import parse_scenario

_TEXT = """
name = "three"
rounds = {rounds}
seed = 3
[mechanism]
{mechanism}
contribution = "marginal"
[learning]
algorithm = "{algorithm}"
iteration_limit = 2
{tables}
[defaults]
source = "mnist-5k"
samples_per_round = 30
cost_per_sample = 2e-3
[[clients]]
name = "north"
[[clients]]
name = "south"
defect = {{ kind = "label-noise", probability = 0.5 }}
[[clients]]
name = "west"
source = "{last_source}"
"""


def three_text(
    *,
    rounds: int = 3,
    mechanism: str = "mu = 0.02",
    algorithm: str = "fedavg",
    last_source: str = "uci-digits",
    tables: str = "",
) -> str:
    return _TEXT.format(rounds=rounds, mechanism=mechanism, algorithm=algorithm, last_source=last_source, tables=tables)


def three(**keys: object) -> Scenario:
    return parse_scenario(three_text(**keys), "three.toml")  # type: ignore[arg-type]
