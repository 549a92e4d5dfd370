"""Which experiments a study has: scenarios by name or file, and all combinations of settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from commonweal.errors import InputError
from commonweal.scenario.shipped import load
from commonweal.study.experiments import load_experiments, parse_settings

MINE = """
name = "my own"
rounds = 3
[mechanism]
mu = 0.05
[defaults]
source = "mnist-5k"
samples_per_round = 60
[[clients]]
name = "north"
unit_value = 2.0
[[clients]]
name = "south"
unit_value = 1.0
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    return str(path)


def test_every_combination_is_an_experiment_with_its_values_in_the_name(mine: str) -> None:
    settings = parse_settings(["defaults.cost_per_sample=1e-4,2e-4", "learning.learning_rate=0.01,0.1"])
    found = load_experiments([mine], settings)
    assert {
        name: (scenario.learning.learning_rate, scenario.clients[0].cost_per_sample) for name, scenario in found.items()
    } == {
        "mine[learning_rate=0.01,cost_per_sample=0.0001]": (0.01, 1e-4),
        "mine[learning_rate=0.01,cost_per_sample=0.0002]": (0.01, 2e-4),
        "mine[learning_rate=0.1,cost_per_sample=0.0001]": (0.1, 1e-4),
        "mine[learning_rate=0.1,cost_per_sample=0.0002]": (0.1, 2e-4),
    }
    other_order = parse_settings(["learning.learning_rate=0.1,0.01", "defaults.cost_per_sample=2e-4,1e-4"])
    assert load_experiments([mine], other_order) == found


def test_shipped_scenarios_can_be_combined_with_files(mine: str) -> None:
    assert load_experiments(["label-noise", mine], {})["label-noise"] == load("label-noise")
    varied = load_experiments(["label-noise", mine], parse_settings(["rounds=2"]))
    assert list(varied) == ["label-noise[rounds=2]", "mine[rounds=2]"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("learning.algorithm=fedavg,fedbn", ("fedavg", "fedbn")),
        ('learning.algorithm="fedavg", "fedbn"', ("fedavg", "fedbn")),
        ("defaults.source=mnist-5k", ("mnist-5k",)),
        ('defaults.source="a, b"', ("a, b",)),
        ("defaults.samples_per_round=100,100.0,1e2", (100.0,)),
        ("rounds = 1_000", (1000,)),
        ("clients.north.cost_per_round=0,1e-3", (0.0, 1e-3)),
    ],
)
def test_values_are_those_of_toml_and_single_words_need_no_quotes(text: str, values: tuple[object, ...]) -> None:
    (found,) = parse_settings([text]).values()
    assert found == values


@pytest.mark.parametrize(
    ("texts", "evidence"),
    [
        (
            ["learning.rate=1"],
            "no key 'learning.rate'. Did you mean 'learning.learning_rate'? The keys are rounds, mech",
        ),
        (["clients.north.weight=1"], "for a single client clients.NAME.KEY with source, samples_per_round,"),
        (["learning.learning_rate=-1"], "learning.learning_rate must be a number above 0, at most 1e30, got -1"),
        (["learning.learning_rate=0.1,,1"], "must be written as in TOML, separated by commas, got '0.1,,1'"),
        (["learning.learning_rate=0.1]\nrounds=[1"], "must be written as in TOML"),
        (["learning.learning_rate=[0.1]"], "got an array"),
        (["learning.learning_rate"], "must be written as KEY=VALUE,VALUE, got 'learning.learning_rate'"),
        (["learning.learning_rate="], "must be written as KEY=VALUE,VALUE"),
        (["learning.algorithm=fedavgg"], "got 'fedavgg'"),
        (["rounds=1.5"], "rounds must be a whole number from 1"),
        (["seed=3"], "seed cannot be varied: every replication has a seed of its own."),
        (["mechanism.mu=0.1"], "mechanism.mu cannot be varied: a study computes all values of mu together."),
        (["rounds=1", "rounds=2"], "rounds is set twice. Write all its values together"),
    ],
)
def test_bad_settings_are_refused(texts: list[str], evidence: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_settings(texts)
    assert evidence in str(caught.value)


@pytest.mark.parametrize(
    ("texts", "evidence"),
    [
        (["defaults.unit_value=1,2"], "mine[unit_value=1] and mine[unit_value=2] are the same scenario"),
        (["clients.west.unit_value=1"], "mine[west.unit_value=1] cannot be run: There is no client 'west'"),
        (["learning.proximal_weight=0.5"], "mine.toml: proximal_weight is only for the algorithm fedprox"),
    ],
)
def test_settings_that_do_not_fit_the_scenario_are_refused(texts: list[str], evidence: str, mine: str) -> None:
    with pytest.raises(InputError) as caught:
        load_experiments([mine], parse_settings(texts))
    assert evidence in str(caught.value)


def test_a_mechanism_without_mu_is_refused(mine: str) -> None:
    Path(mine).write_text(MINE.replace("mu = 0.05", 'kind = "fli"'))
    with pytest.raises(InputError, match="mine uses the mechanism 'fli', but a study varies mu"):
        load_experiments([mine], {})


def test_names_are_unique(mine: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Two experiments are called 'mine'"):
        load_experiments([mine, mine], {})
    (tmp_path / "label-noise.toml").write_text(MINE)
    with pytest.raises(
        InputError, match=r"label-noise\.toml has the same name as a shipped scenario\. Rename the file"
    ):
        load_experiments([str(tmp_path / "label-noise.toml")], {})
