"""Short replications that tell whether two versions of the code behave alike.

They are fixed: a new measure or algorithm changes no result that was computed before, so it is not added here. Samples
are generated, so no data set is needed. Each is the pattern of its class with noise, so that training has an effect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.data.samples import Samples
from commonweal.scenario.spec import Scenario
from commonweal.scenario.toml_file import parse_scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import image_task
from commonweal.study.mu_sets import WHOLE_AXIS, MuGrid
from commonweal.study.rows import to_table
from commonweal.study.sweep import sweep

_GRID = MuGrid((0.0, 0.05, math.inf))
_SAMPLE_COUNT = 400
_CLASS_COUNT = 10
_SCENARIO = """
name = "fixed"
rounds = {rounds}
seed = 7
[mechanism]
mu = 0.05
contribution = "{measure}"
{mechanism}
[learning]
algorithm = "{algorithm}"
batch_size = 8
iteration_limit = 2
{learning}
[data]
{data}
[defaults]
source = "grey"
samples_per_round = 24
cost_per_sample = 3e-3
cost_per_step = 1e-4
[[clients]]
name = "a"
[[clients]]
name = "b"
{defect}
[[clients]]
name = "c"
source = "{last_source}"
samples_per_round = 40
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    algorithm: str
    measure: str
    rounds: int = 1
    mechanism: str = ""
    learning: str = ""
    data: str = ""
    defect: str = ""
    last_source: str = "grey"

    def scenario(self) -> Scenario:
        text = _SCENARIO.format(**{name: getattr(self, name) for name in self.__slots__})
        return parse_scenario(text, "the fixed scenario")


_CASES = (
    _Case(
        algorithm="fedavg", measure="marginal", rounds=3, defect='defect = { kind = "label-noise", probability = 0.6 }'
    ),
    _Case(
        algorithm="fedbn",
        measure="shapley",
        rounds=2,
        mechanism='loss_rule = "equal"\nliability_cap = 0.05\ngrace_rounds = 1',
        defect='defect = { kind = "duplicates", fraction = 0.5 }',
        last_source="coloured",
    ),
    _Case(
        algorithm="fedprox",
        measure="adaptive",
        mechanism="evaluation_limit = 6",
        learning='score = "probability"',
        defect='defect = { kind = "noised", deviation = 0.1 }',
    ),
    _Case(
        algorithm="scaffold",
        measure="leverage",
        rounds=2,
        mechanism="evaluation_limit = 8",
        data="label_skew = 0.5",
        defect='defect = { kind = "scaled", factor = 1.05 }',
    ),
    _Case(
        algorithm="fedavg",
        measure="tmc",
        mechanism="evaluation_limit = 6",
        defect='defect = { kind = "untrained" }',
    ),
    _Case(algorithm="fedavg", measure="gtg", mechanism="evaluation_limit = 6"),
    _Case(algorithm="fedbn", measure="quantity", mechanism='loss_rule = "cost"'),
)


def fixed_replications() -> list[pa.Table]:
    """The rows of each replication, computed with one thread."""
    samples = {"grey": _samples("grey", channel_count=1), "coloured": _samples("coloured", channel_count=3)}
    return [_replicate(case.scenario(), samples) for case in _CASES]


def _replicate(scenario: Scenario, samples: dict[str, Samples]) -> pa.Table:
    sources = dict.fromkeys(client.source for client in scenario.clients)
    dataset = FederatedDataset.from_sources(scenario, {source: samples[source] for source in sources})
    with InProcessClients(scenario, image_task(scenario, dataset), worker_count=1) as clients:
        swept = list(sweep(clients, scenario, {"clip": WHOLE_AXIS, "raw": _GRID}))
    return to_table("fixed", 1, scenario, swept)


def _samples(name: str, *, channel_count: int) -> Samples:
    generator = np.random.default_rng(1)
    shape = (28, 28, channel_count)
    labels = np.arange(_SAMPLE_COUNT) % _CLASS_COUNT
    patterns = generator.integers(0, 256, (_CLASS_COUNT, *shape))
    noise = generator.integers(0, 256, (_SAMPLE_COUNT, *shape))
    images = ((patterns[labels] + noise) // 2).astype(np.uint8)
    return Samples(name=name, images=images, labels=labels, class_count=_CLASS_COUNT, note="made up")
