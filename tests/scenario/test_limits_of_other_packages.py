"""A scenario must not allow what a later stage refuses; it imports no other stage, so the limits are compared here."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import get_args

import pytest

from commonweal.decision import raw, validation
from commonweal.errors import CommonwealError
from commonweal.records import Rates, Rules
from commonweal.scenario import keys, kinds
from commonweal.scenario.assembly import NEEDED_OF_CLIENT
from commonweal.scenario.spec import ClientSpec, DataSpec, Defect, LearningSpec, MechanismSpec
from commonweal.valuation.estimators import ShapleyMethod, estimate_shapley
from commonweal.valuation.exact import EXACT_CLIENT_LIMIT
from commonweal.valuation.registry import MEASURES

SAMPLED = [name for name, measure in MEASURES.items() if measure.is_sampled]


def test_limits_of_amounts_match_those_of_decisions():
    assert (kinds.SMALLEST_MU, kinds.LARGEST_MU) == (validation.SMALLEST, validation.LARGEST)
    most_spent = kinds.LARGEST_AMOUNT * 1e6 * keys.MOST_ROUNDS * keys.MOST_CLIENTS
    assert most_spent < validation.LARGEST
    assert kinds.SMALLEST_AMOUNT * 1e-17 > validation.SMALLEST


def test_limits_of_clients_match_those_of_other_packages():
    assert keys.RAW_RULE_CLIENTS == raw.RAW_CANDIDATE_LIMIT
    assert MEASURES["shapley"].client_limit <= EXACT_CLIENT_LIMIT
    assert set(SAMPLED) >= set(get_args(ShapleyMethod))


@pytest.mark.parametrize("measure", get_args(ShapleyMethod))
@pytest.mark.parametrize("client_count", [1, 2, 3, 4, 7])
def test_the_fewest_evaluations_are_enough_and_one_less_is_not(measure, client_count):
    clients = [f"c{number}" for number in range(client_count)]
    fewest = MEASURES[measure].fewest_evaluations(client_count)
    estimate_shapley(clients, len, evaluation_limit=fewest, seed=1, method=measure)
    with pytest.raises(CommonwealError):
        estimate_shapley(clients, len, evaluation_limit=fewest - 1, seed=1, method=measure)


def test_every_field_has_its_key_and_every_key_its_field():
    def names(record):
        return {field.name for field in fields(record)}

    of_clients = names(ClientSpec) - {"defect", "settings"}
    assert set(keys.CLIENT_KEYS) == of_clients | {"class"}, "classes are kept with the rates"
    assert set(keys.RATES_KEYS) == names(Rates)
    assert set(keys.DATA_KEYS) == names(DataSpec)
    assert set(keys.LEARNING_KEYS) == names(LearningSpec) - {"parameters"}
    # The kind is the mechanism or its file, and the seed is that of the scenario.
    of_rules = names(Rules) - {"mechanism", "file", "parameters", "version", "seed"} | {"kind"}
    of_spec = names(MechanismSpec) - {"rules", "measure", "rates"} | {"contribution", "profits"}
    assert set(keys.MECHANISM_KEYS) == of_rules | of_spec
    assert {make for make, _ in keys.DEFECTS.values()} == set(get_args(Defect))
    for make, defect_keys in keys.DEFECTS.values():
        assert set(defect_keys) == names(make)


def test_keys_without_default_are_required():
    required = {field.name for field in fields(ClientSpec) if field.default is field.default_factory is MISSING}
    assert all(required <= set(needed) for needed in NEEDED_OF_CLIENT.values())
