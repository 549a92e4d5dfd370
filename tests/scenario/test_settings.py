"""Settings replace single values of a scenario, as if its file said so."""

from __future__ import annotations

import pytest

from commonweal.errors import ScenarioError
from commonweal.scenario.settings import kind_of_setting, setting_keys, with_settings
from commonweal.scenario.shipped import load
from commonweal.scenario.toml_file import parse_scenario

TEXT = """
name = "small"
rounds = 3
[mechanism]
mu = 0.05
[defaults]
source = "mnist-5k"
samples_per_round = 60
[[clients]]
name = "north"
[[clients]]
name = "Dr. South"
samples_per_round = 10
"""


def test_values_are_those_of_a_file_that_says_so() -> None:
    settings = {
        "rounds": 5,
        "learning.learning_rate": 0.2,
        "defaults.samples_per_round": 80,
        "clients.Dr. South.cost_per_sample": 0.5,
    }
    written = (
        TEXT.replace("rounds = 3", "rounds = 5").replace("= 60", "= 80").replace("= 10", "= 10\ncost_per_sample = 0.5")
    )
    written = written.replace("[defaults]", "[learning]\nlearning_rate = 0.2\n[defaults]")
    assert parse_scenario(TEXT, "small.toml", settings=settings) == parse_scenario(written, "small.toml")


def test_shipped_scenarios_take_settings() -> None:
    assert load("label-noise", settings={"rounds": 2}).round_count == 2
    assert load("label-noise").round_count != 2


def test_the_tables_given_stay_as_they_are() -> None:
    document = {"rounds": 3, "clients": [{"name": "a"}]}
    with_settings(document, {"rounds": 4, "learning.batch_size": 8, "clients.a.unit_value": 2.0})
    assert document == {"rounds": 3, "clients": [{"name": "a"}]}


def test_values_that_should_be_tables_are_left_to_the_check_of_the_file() -> None:
    odd = {"learning": 3, "clients": "all"}
    assert with_settings(odd, {"learning.batch_size": 8, "clients.a.unit_value": 2.0}) == odd


@pytest.mark.parametrize(
    "key", ["learning.rate", "learning_rate", "clients.learning_rate", "clients.north.name", "", "."]
)
def test_unknown_keys_are_refused(key: str) -> None:
    assert kind_of_setting(key) is None
    with pytest.raises(ScenarioError, match=r"A scenario has no key .*: choose one of name, .*learning\.learning_rate"):
        parse_scenario(TEXT, "small.toml", settings={key: 1})


def test_an_unknown_client_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"no client 'west' to set unit_value for: the clients are 'north', 'Dr. S"):
        parse_scenario(TEXT, "small.toml", settings={"clients.west.unit_value": 1})


def test_every_key_has_a_kind_and_no_two_look_the_same_without_their_table() -> None:
    assert all(kind_of_setting(key) is not None for key in setting_keys())
    short = [key.rpartition(".")[2] for key in setting_keys()]
    assert len(set(short)) == len(short)
