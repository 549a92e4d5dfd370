"""Values from the command line: the same rules as in the file, under the names of the options."""

from __future__ import annotations

import math

import pytest

from commonweal.errors import ScenarioError
from commonweal.scenario.settings import override
from commonweal.scenario.toml_file import parse_scenario
from tests.scenario.small import SMALL

SCENARIO = parse_scenario(SMALL, "my.toml")


def test_without_values_nothing_changes():
    assert override(SCENARIO) == SCENARIO


def test_given_values_act_like_those_of_a_file():
    text = SMALL.replace("rounds = 8", "rounds = 3\nseed = 7").replace("mu = 0.05", "mu = 0.2")
    assert override(SCENARIO, mu=0.2, seed=7, rounds=3) == parse_scenario(text, "other.toml")
    assert SCENARIO.seed == 1


@pytest.mark.parametrize("mu", [math.inf, "inf", "Infinity"])
def test_infinite_mu(mu):
    assert override(SCENARIO, mu=mu).mechanism.rules.mu == math.inf


def test_a_mechanism_without_mu_takes_none():
    scenario = parse_scenario(SMALL.replace("mu = 0.05", 'kind = "fli"'), "my.toml")
    with pytest.raises(
        ScenarioError, match=r"mu cannot be set: the scenario 'trial' has kind = \"fli\", which has no mu"
    ):
        override(scenario, mu="0.1")


def test_mu_as_typed():
    assert override(SCENARIO, mu="5e-2") == SCENARIO
    assert override(SCENARIO, mu=0).mechanism.rules.mu == 0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"mu": -1.0},
            'mu must be 0, a number from 1e-50 to 1e+50, or "inf", got -1.0. Write e.g. 0.05;',
        ),
        ({"mu": math.nan}, "mu must be 0"),
        ({"mu": True}, "mu must be 0"),
        ({"mu": "1e-60"}, "mu must be 0"),
        ({"mu": "much"}, "mu must be a number, got 'much'. Write it like 0.05, or inf."),
        ({"mu": "1_0"}, "mu must be a number"),
        ({"mu": "١"}, "mu must be a number"),
        ({"seed": -1}, "seed must be a whole number from 0 to 9223372036854775807, got -1. Write e.g. 1."),
        ({"seed": 2**63}, "seed must be"),
        ({"rounds": 0}, "rounds must be a whole number from 1 to 10000, got 0. Write e.g. 8."),
        ({"rounds": 10_001}, "rounds must be"),
        ({"rounds": 3.0}, "rounds must be a whole number from 1 to 10000, got 3.0"),
    ],
)
def test_refusals(given, sentence):
    with pytest.raises(ScenarioError) as caught:
        override(SCENARIO, **given)
    assert sentence in str(caught.value)
