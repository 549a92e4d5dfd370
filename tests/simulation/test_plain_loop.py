"""A session with the in-process clients gives the same figures as the plain loop.

They are compared in double precision: the two learners round differently, and in single precision a sample on the edge
between two classes could fall on either side.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.data.samples import Samples
from commonweal.federation.session import run_rounds
from commonweal.scenario.toml_file import parse_scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import image_task
from tests.simulation.plain_loop import run_plainly

HEAD = """
name = "small"
description = "two rounds"
rounds = 2
seed = {seed}
[learning]
algorithm = "{algorithm}"
learning_rate = 0.1
[mechanism]
mu = {mu}
contribution = "{measure}"
{mechanism}
[defaults]
source = "mnist-5k"
samples_per_round = 30
cost_per_sample = 2e-4
cost_per_step = 1e-4
"""
NOISY = """
[[clients]]
name = "a"
[[clients]]
name = "b"
defect = { kind = "label-noise", probability = 0.6 }
[[clients]]
name = "c"
samples_per_round = 50
[[clients]]
name = "d"
defect = { kind = "duplicates", fraction = 0.5 }
"""
DOMAINS = """
[[clients]]
name = "paper"
[[clients]]
name = "screen"
source = "rendered-digits"
[[clients]]
name = "tablet"
source = "uci-digits"
cost_per_sample = 5e-3
"""
CHEATS = """
[[clients]]
name = "honest"
[[clients]]
name = "lazy"
defect = { kind = "untrained" }
[[clients]]
name = "noisy"
defect = { kind = "noised", deviation = 0.05 }
[[clients]]
name = "loud"
defect = { kind = "scaled", factor = 1.2 }
[[clients]]
name = "other"
"""
POISONERS = """
[[clients]]
name = "honest"
[[clients]]
name = "backward"
defect = { kind = "sign-flip", factor = 0.5 }
reported_profit = 0.0
[[clients]]
name = "noisy"
defect = { kind = "noised-update", ratio = 1.5 }
reported_profit = -0.2
[[clients]]
name = "mislabelled"
defect = { kind = "label-flip", fraction = 0.7 }
[[clients]]
name = "other"
"""
SCENARIOS = {
    "label noise and duplicates, FedAvg, marginal": (NOISY, "fedavg", 0.01, "marginal", ""),
    "three domains, FedBN, Shapley": (DOMAINS, "fedbn", 0.5, "shapley", ""),
    "free riders, FedProx, quantity": (CHEATS, "fedprox", 0.05, "quantity", "loss_rule = 'equal'"),
    "poisoners that lie, FedBN, marginal": (POISONERS, "fedbn", 0.02, "marginal", ""),
    "label noise, SCAFFOLD, estimated Shapley": (NOISY, "scaffold", 0.0, "adaptive", "evaluation_limit = 9"),
    "free riders, FedAvg, path": (CHEATS, "fedavg", 0.01, "path", ""),
    "three domains, FedBN, path": (DOMAINS, "fedbn", 0.5, "path", ""),
}
EVERY_TIME = (  # the others are soak tests
    "poisoners that lie, FedBN, marginal",
    "label noise, SCAFFOLD, estimated Shapley",
    "free riders, FedAvg, path",
)


def letters():
    """Coloured rectangles of 26 classes, each the pattern of its class with noise."""
    random, labels = np.random.default_rng(3), np.arange(780) % 26
    patterns, noise = random.integers(0, 256, (26, 20, 12, 3)), random.integers(0, 256, (780, 20, 12, 3))
    images = ((patterns[labels] + noise) // 2).astype(np.uint8)
    return Samples(name="letters", images=images, labels=labels, class_count=26, note="made for a test")


@pytest.mark.parametrize(
    "name", [name if name in EVERY_TIME else pytest.param(name, marks=pytest.mark.soak) for name in SCENARIOS]
)
def test_fast_path_equals_the_plain_loop(name):
    clients, algorithm, mu, measure, mechanism = SCENARIOS[name]
    text = HEAD.format(seed=7, algorithm=algorithm, mu=mu, measure=measure, mechanism=mechanism) + clients
    scenario = parse_scenario(text, "the test")
    assert_equals_the_plain_loop(scenario, FederatedDataset.for_scenario(scenario, None))


def test_fast_path_equals_the_plain_loop_on_rectangles_of_many_classes():
    text = HEAD.format(seed=7, algorithm="fedavg", mu=0.5, measure="shapley", mechanism="") + NOISY
    scenario = parse_scenario(text.replace("mnist-5k", "letters"), "the test")
    assert_equals_the_plain_loop(scenario, FederatedDataset.from_sources(scenario, {"letters": letters()}))


def assert_equals_the_plain_loop(scenario, dataset):
    expected = run_plainly(scenario, dataset, dtype=torch.float64)
    with InProcessClients(scenario, image_task(scenario, dataset, dtype=torch.float64)) as client_set:
        held = list(run_rounds(client_set, scenario))
    assert len(held) == len(expected) > 1
    for found, plain in zip(held, expected, strict=True):
        decision = found.record.decision
        assert found.iteration_accuracies[-1] == plain.accuracies
        assert len(found.iteration_accuracies) - 1 == plain.iteration_count
        assert {c: m.step_count for c, m in found.measured.items()} == plain.step_counts
        precision = 1e-8 if scenario.mechanism.measure == "path" else 1e-12  # the plain loop takes differences
        assert decision.figures.contributions == pytest.approx(plain.decision.figures.contributions, abs=precision)
        assert decision.figures.profits == plain.decision.figures.profits
        assert decision.retained == plain.decision.retained
        assert decision.transfers == pytest.approx(plain.decision.transfers, abs=100 * precision)
