"""The paper's scenarios on the original data; they run where COMMONWEAL_DATA names a folder with them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.federation.session import run_rounds
from commonweal.scenario.settings import override
from commonweal.scenario.shipped import load
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import image_task

DATA = os.environ.get("COMMONWEAL_DATA")
CHANCE = 0.1

pytestmark = pytest.mark.skipif(not DATA, reason="COMMONWEAL_DATA names no folder with the original data")


ONE_OF_EACH_KIND = ["heterogeneous", "large-mnist", "small-cifar10"]
THE_REST = ["large-cifar10", "small-mnist", "label-noise", "equal-mnist"]


@pytest.mark.parametrize(
    "name", [*ONE_OF_EACH_KIND, *(pytest.param(name, marks=pytest.mark.soak) for name in THE_REST)]
)
def test_after_the_first_round_no_scenario_is_at_chance_level(name):
    """By more than four standard errors of what guessing would score on as many validation samples."""
    scenario = override(load(name), mu="inf", rounds=1)
    with InProcessClients(
        scenario, image_task(scenario, FederatedDataset.for_scenario(scenario, Path(DATA)))
    ) as clients:
        (held,) = run_rounds(clients, scenario)
    sample_count = sum(measured.validation_count for measured in held.measured.values())
    mean = np.mean([measured.accuracy.value for measured in held.measured.values()])
    assert mean > CHANCE + 4 * np.sqrt(CHANCE * (1 - CHANCE) / sample_count), (mean, sample_count)
