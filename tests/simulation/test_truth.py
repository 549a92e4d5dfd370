"""True accuracies, measured again by brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.federation.measuring import measure_round
from commonweal.scenario.spec import DataSpec, LabelFlip, LabelNoise, Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import image_task
from commonweal.simulation.truth import Truth, why_no_truth
from tests.comparison.small import three

FLIP = LabelFlip(fraction=0.25)
NOISE = LabelNoise(probability=0.5)


def with_defects(scenario: Scenario, **defects) -> Scenario:
    clients = tuple(replace(client, defect=defects.get(client.name)) for client in scenario.clients)
    return replace(scenario, clients=clients)


def trained(scenario):
    dataset = FederatedDataset.for_scenario(scenario, None)
    clients = InProcessClients(scenario, image_task(scenario, dataset), worker_count=1)
    with clients:
        measure_round(clients, scenario, 1, scenario.client_names)
        yield clients, Truth.of(scenario, dataset, sample_count=300)


@pytest.mark.parametrize("algorithm", ["fedavg", "fedbn"])
def test_every_possible_label_with_its_probability(algorithm):
    scenario = with_defects(three(rounds=1, algorithm=algorithm, last_source="mnist-5k"), south=NOISE, west=FLIP)
    for clients, truth in trained(scenario):
        found = truth.accuracies(clients, 1, scenario.client_names)

        def hits(client, change, clients=clients, truth=truth):
            images, labels = truth.samples[client]
            return float(np.mean(clients.scores_of(1, {client: (images, change(labels))})[client]))

        true = {client: hits(client, lambda labels: labels) for client in found}
        wrong = np.mean([hits("south", lambda labels, k=k: (labels + k) % 10) for k in range(1, 10)])
        assert found["north"] == pytest.approx(true["north"], abs=1e-12)
        assert found["south"] == pytest.approx(0.5 * true["south"] + 0.5 * wrong, abs=1e-12)
        flipped = hits("west", lambda labels: 9 - labels)
        assert found["west"] == pytest.approx(0.75 * true["west"] + 0.25 * flipped, abs=1e-12)
        assert found["north"] > 0.15, "something was learned"


@pytest.mark.parametrize("label_skew", [None, 0.5])
def test_nobody_ever_receives_these_samples(label_skew):
    scenario = replace(three(last_source="mnist-5k"), data=DataSpec(label_skew=label_skew))
    dataset = FederatedDataset.for_scenario(scenario, None)
    received = set()
    for client in scenario.client_names:
        for number in range(1, scenario.round_count + 1):
            new = dataset.samples_for(client, number)
            received |= {image.tobytes() for image in (*new.training_images, *new.validation_images)}
    unseen = {client: dataset.unseen(client, scenario.round_count) for client in scenario.client_names}
    images = dataset.sources["mnist-5k"].images
    assert not received & {images[index].tobytes() for some in unseen.values() for index in some}
    truth = Truth.of(scenario, dataset)
    same = truth.samples["north"][0] is truth.samples["west"][0]
    assert same == (label_skew is None), "with skewed labels, each client has a truth of its own"


def test_where_there_is_no_truth():
    scenario = three()
    assert why_no_truth(scenario) is None
    advantage = replace(scenario, mechanism=replace(scenario.mechanism, utility="advantage"))
    assert "advantage" in why_no_truth(advantage)
    balanced = replace(scenario, task=replace(scenario.task, metric_name="balanced-accuracy"))
    assert "balanced accuracy" in why_no_truth(balanced)
    table = replace(scenario, task=replace(scenario.task, kind="table"))
    assert "no samples to spare" in why_no_truth(table)
