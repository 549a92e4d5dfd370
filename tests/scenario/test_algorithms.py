"""The list of learning algorithms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commonweal.errors import ScenarioError
from commonweal.scenario.algorithms import ALGORITHMS, parameter_kinds
from commonweal.scenario.keys import LEARNING_KEYS
from commonweal.scenario.spec import LearningSpec


def test_defaults_are_filled_in():
    assert LearningSpec().parameters == {}
    assert LearningSpec(algorithm="fedprox").parameters == {"proximal_weight": 0.01}
    assert LearningSpec(algorithm="fedprox", parameters={"proximal_weight": 2.0}).parameters["proximal_weight"] == 2.0


def test_parameters_of_another_algorithm_are_refused():
    fedprox = LearningSpec(algorithm="fedprox")
    with pytest.raises(ScenarioError, match="fedavg has no parameter 'proximal_weight'"):
        replace(fedprox, algorithm="fedavg")
    assert replace(fedprox, algorithm="fedavg", parameters={}).parameters == {}


def test_an_unknown_algorithm_is_refused():
    with pytest.raises(ScenarioError, match=r"one of fedavg, fedbn.*got 'fedsgd'"):
        LearningSpec(algorithm="fedsgd")


def test_parameters_have_one_meaning_and_hide_no_other_key():
    kinds = parameter_kinds()
    assert not set(kinds) & set(LEARNING_KEYS)
    for entry in ALGORITHMS.values():
        for name, parameter in entry.parameters.items():
            assert kinds[name] is parameter.kind
            assert parameter.kind.read(parameter.default) == parameter.default
