"""A learning algorithm is one file and one entry, as CONTRIBUTING says: here with one parameter of its own."""

from __future__ import annotations

import pytest

from tests.extended_copy import ExtendedCopy

# Each client uses a mixture of the shared model and its own (MAPPER; Mansour et al. 2020, section 5).
MIXTURE = """
from commonweal.learning.algorithms.fedavg import FedAvg


class Mixture(FedAvg):
    def __init__(self, layout, learning_rate, *, own_share):
        super().__init__(layout, learning_rate)
        self._own_share = own_share

    def first_memory(self, initial):
        return initial.clone()

    def personal(self, shared, memory):
        return self._own_share * memory + (1 - self._own_share) * shared

    def local(self, shared, served, memory, descend):
        from commonweal.learning.algorithms.protocol import LocalResult

        model, _ = descend(shared)
        return LocalResult(model=model, memory=model)
"""
ENTRY = (
    '        "mixture": AlgorithmEntry("commonweal.learning.algorithms.mixture:Mixture", {"own_share": '
    'AlgorithmParameter(kind=number("a number from 0 to 1", "0.5", lambda share: 0 <= share <= 1), default=0.5)}),'
)
SCENARIO = """
name = "trial"
rounds = 1
[mechanism]
mu = "inf"
contribution = "quantity"
[learning]
algorithm = "{algorithm}"
{parameters}
iteration_limit = 1
[defaults]
source = "uci-digits"
samples_per_round = 20
[[clients]]
name = "a"
[[clients]]
name = "b"
"""


def write(folder, **scenarios):
    for name, (algorithm, parameters) in scenarios.items():
        (folder / f"{name}.toml").write_text(SCENARIO.format(algorithm=algorithm, parameters=parameters))


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    made = ExtendedCopy(tmp_path_factory.mktemp("copy"))
    made.add_file("learning/algorithms/mixture.py", MIXTURE)
    made.add_line("scenario/algorithms.py", ENTRY, above='"fedavg": AlgorithmEntry(')
    assert (len(made.new_files), made.new_lines) == (1, {"scenario/algorithms.py": 1})
    return made


RUN = """
from pathlib import Path
from commonweal.scenario.toml_file import read_scenario
from commonweal.simulation.run import run_scenario
for name in ("fedavg", "none", "all"):
    report = run_scenario(read_scenario(Path(f"{name}.toml")), data_directory=None, worker_count=1)
    print([figures.utility for figures in report.rounds[0].clients.values()])
"""


def test_an_algorithm_runs_once_it_is_a_file_and_an_entry(copy):
    write(copy.folder, fedavg=("fedavg", ""), none=("mixture", "own_share = 0.0"), all=("mixture", "own_share = 1.0"))
    fedavg, none, everything = copy.python("-c", RUN).splitlines()
    assert none == fedavg  # a mixture without the own model is the shared model
    assert everything != fedavg


CHECK = """
import sys
from commonweal.errors import ScenarioError
from commonweal.scenario.toml_file import parse_scenario
for name in ("default", "beyond", "misplaced"):
    try:
        print(dict(parse_scenario(open(f"{name}.toml").read(), name).learning.parameters))
    except ScenarioError as error:
        print(error)
assert "torch" not in sys.modules
"""


def test_its_parameters_obey_the_rules_of_all_keys(copy):
    write(
        copy.folder,
        default=("mixture", ""),
        beyond=("mixture", "own_share = 2"),
        misplaced=("fedavg", "own_share = 0.5"),
    )
    default, beyond, misplaced = copy.python("-c", CHECK).splitlines()
    assert default == "{'own_share': 0.5}"
    assert "own_share must be a number from 0 to 1, got 2" in beyond
    assert "own_share" in misplaced
    assert "mixture" in misplaced
