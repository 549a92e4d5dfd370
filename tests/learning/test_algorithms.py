"""The algorithms against their papers' pseudo-code, transcribed with PyTorch's modules and autograd."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from commonweal.learning.algorithms import make_algorithm
from commonweal.learning.algorithms.scaffold import Scaffold
from commonweal.learning.fast import FastLearner
from commonweal.learning.local_training import make_epochs
from commonweal.learning.models import Layout, average
from commonweal.learning.plain import PlainLearner
from commonweal.scenario.spec import LearningSpec
from tests.learning.small import Task, make_task, one_batch

LEARNING_RATE = 0.1
NAMES = ["fedavg", "fedbn", "fedprox", "scaffold"]


def close(actual, expected, tolerance=1e-10):
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


def algorithm_named(name, layout, **parameters):
    complete = LearningSpec(algorithm=name, parameters=parameters).parameters
    return make_algorithm(name, layout, learning_rate=LEARNING_RATE, parameters=complete)


@dataclass(frozen=True)
class Client:
    """Samples, and their order in each iteration."""

    task: Task
    orders: list  # epochs of batches, one for each iteration

    @property
    def weight(self) -> float:
        return float(len(self.task.labels))

    def descend(self, iteration):
        """With the fast learner, as in a simulation."""

        def descend(start, correction=None):
            epochs = self.orders[iteration]
            model, _ = FastLearner(self.task.layout).train(
                start, self.task.images, self.task.labels, epochs, LEARNING_RATE, correction
            )
            return model, sum(map(len, epochs))

        return descend


def make_clients(sample_counts=(24, 41), iteration_count=2) -> list[Client]:
    clients = []
    for seed, count in enumerate(sample_counts):
        random = np.random.default_rng(seed)
        orders = [make_epochs(count, 10, 2, random) for _ in range(iteration_count)]
        clients.append(Client(make_task(sample_count=count, seed=seed), orders))
    return clients


@dataclass
class Federation:
    """The shared model and all memories after some iterations of an algorithm."""

    shared: Tensor
    memories: list[Tensor]
    models: list[Tensor]


def iterate(algorithm, clients, iteration_count) -> Federation:
    start = clients[0].task.vector
    state = Federation(start, [algorithm.first_memory(start) for _ in clients], [])
    for iteration in range(iteration_count):
        served = served_by(algorithm, state, clients)
        results = [
            algorithm.local(state.shared, served, memory, client.descend(iteration))
            for client, memory in zip(clients, state.memories, strict=True)
        ]
        state.models = [result.model for result in results]
        state.memories = [result.memory for result in results]
        state.shared = average(state.models, [client.weight for client in clients])
    return state


def served_by(algorithm, state, clients) -> Tensor:
    return algorithm.serve(state.memories, [client.weight for client in clients])


class Module:
    """The network as a PyTorch module with gradients by autograd: the transcriptions' raw material."""

    def __init__(self, layout: Layout, vector: Tensor) -> None:
        self.layout = layout
        self.plain = PlainLearner(layout)
        self.network = self.plain.to_network(vector)
        self.network.train()

    def parameters(self) -> list[Tensor]:
        return list(self.network.parameters())

    def start_epoch(self) -> None:
        for norm in self.network.norms:
            norm.reset_running_stats()

    def loss(self, task: Task, batch: Tensor) -> Tensor:
        return functional.cross_entropy(self.network(task.images[batch].permute(0, 3, 1, 2)), task.labels[batch])

    def gradients(self, task: Task, batch: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(self.loss(task, batch), self.parameters()))

    def vector(self) -> Tensor:
        return self.plain.to_vector(self.network)


def gradient_vector(task: Task, vector: Tensor, batch: Tensor) -> Tensor:
    """∇ℓ as a vector of trainable entries."""
    module = Module(task.layout, vector)
    gradients = module.gradients(task, batch)
    with torch.no_grad():
        for parameter, gradient in zip(module.parameters(), gradients, strict=True):
            parameter.copy_(gradient)
    return module.vector()[task.layout.trainable]


# FedAvg


def test_fedavg_of_one_client_and_one_step_is_centralised_gradient_descent() -> None:
    client = Client(make_task(sample_count=24), [one_batch(24)])
    state = iterate(algorithm_named("fedavg", client.task.layout), [client], 1)
    module = Module(client.task.layout, client.task.vector)
    module.start_epoch()
    optimiser = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
    module.loss(client.task, torch.arange(24)).backward()
    optimiser.step()
    close(state.shared, module.vector())


def test_fedavg_with_one_full_batch_each_is_a_step_along_the_weighted_mean_of_gradients() -> None:
    """FedSGD: w − η Σ (n_k / n) ∇ℓ_k(w), with each client's batch normalised by itself."""
    tasks = [make_task(sample_count=count, seed=count) for count in (12, 30, 18)]
    clients = [Client(task, [one_batch(len(task.labels))]) for task in tasks]
    layout, start = tasks[0].layout, tasks[0].vector
    state = iterate(algorithm_named("fedavg", layout), clients, 1)
    gradient = sum(
        client.weight / 60 * gradient_vector(client.task, start, torch.arange(int(client.weight))) for client in clients
    )
    close(state.shared[layout.trainable], start[layout.trainable] - LEARNING_RATE * gradient)


def test_fedavg_of_clients_with_the_same_samples_is_a_step_on_the_pooled_samples() -> None:
    """Where a batch and the pool have the same statistics, normalisation does not stand between the two."""
    task = make_task(sample_count=20)
    state = iterate(algorithm_named("fedavg", task.layout), [Client(task, [one_batch(20)])] * 3, 1)
    pooled, _ = PlainLearner(task.layout).train(
        task.vector, task.images.repeat(3, 1, 1, 1), task.labels.repeat(3), one_batch(60), LEARNING_RATE
    )
    trainable = task.layout.trainable
    close(state.shared[trainable], pooled[trainable])
    assert (pooled - task.vector)[trainable].norm() > 0.01


def test_fedavg_over_two_iterations_is_its_pseudo_code() -> None:
    clients = make_clients()
    layout = clients[0].task.layout
    shared = clients[0].task.vector
    for iteration in range(2):
        answers = []
        for client in clients:
            module = Module(layout, shared)
            for batches in client.orders[iteration]:
                module.start_epoch()
                for batch in batches:
                    gradients = module.gradients(client.task, batch)
                    with torch.no_grad():
                        for w, g in zip(module.parameters(), gradients, strict=True):
                            w -= LEARNING_RATE * g
            answers.append(module.vector())
        shared = 24 / 65 * answers[0] + 41 / 65 * answers[1]
    close(iterate(algorithm_named("fedavg", layout), clients, 2).shared, shared)


# FedBN


def test_fedbn_over_two_iterations_is_the_authors_loop_over_state_dictionaries() -> None:
    """Every entry of the state that is not of a BN layer is averaged and sent to all; the rest stays."""
    clients = make_clients()
    layout = clients[0].task.layout
    state = iterate(algorithm_named("fedbn", layout), clients, 2)

    modules = [Module(layout, clients[0].task.vector) for _ in clients]
    for iteration in range(2):
        for client, module in zip(clients, modules, strict=True):
            optimiser = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
            for batches in client.orders[iteration]:
                module.start_epoch()
                for batch in batches:
                    optimiser.zero_grad()
                    module.loss(client.task, batch).backward()
                    optimiser.step()
        states = [copy.deepcopy(module.network.state_dict()) for module in modules]
        for key in states[0]:
            if "norms" not in key:
                mean = sum(client.weight / 65 * s[key] for client, s in zip(clients, states, strict=True))
                for module in modules:
                    module.network.state_dict()[key].copy_(mean)
    algorithm = algorithm_named("fedbn", layout)
    for module, memory in zip(modules, state.memories, strict=True):
        close(algorithm.personal(state.shared, memory), module.vector())
    assert (modules[0].vector() - modules[1].vector())[layout.norms].abs().max() > 0.01


def test_fedbn_ignores_the_norms_of_every_shared_model() -> None:
    """Where they are no numbers at all, nothing changes."""
    client = make_clients()[1]
    layout = client.task.layout
    algorithm = algorithm_named("fedbn", layout)
    shared = client.task.vector
    memory = algorithm.first_memory(shared)
    poisoned = shared.clone()
    poisoned[layout.norms] = torch.nan
    clean = algorithm.local(shared, shared.new_empty(0), memory, client.descend(0))
    result = algorithm.local(poisoned, shared.new_empty(0), memory, client.descend(0))
    assert torch.equal(result.model, clean.model)
    assert torch.equal(algorithm.personal(poisoned, memory), algorithm.personal(shared, memory))


def test_fedbn_remembers_the_norms_of_the_trained_model() -> None:
    client = make_clients()[0]
    layout, shared = client.task.layout, client.task.vector
    algorithm = algorithm_named("fedbn", layout)
    memory = algorithm.first_memory(shared)
    assert torch.equal(memory, shared[layout.norms])
    result = algorithm.local(shared, shared.new_empty(0), memory, client.descend(0))
    assert torch.equal(result.memory, result.model[layout.norms])
    assert (result.memory != memory).any()
    kept = result.memory.clone()
    result.model.zero_()
    assert torch.equal(result.memory, kept)  # it shares no storage with the model that is sent


# FedProx


def test_fedprox_without_weight_is_fedavg_to_the_bit() -> None:
    clients = make_clients()
    layout = clients[0].task.layout
    prox = iterate(algorithm_named("fedprox", layout, proximal_weight=0.0), clients, 2)
    assert torch.equal(prox.shared, iterate(algorithm_named("fedavg", layout), clients, 2).shared)


@pytest.mark.slow
@pytest.mark.parametrize("proximal_weight", [0.01, 1.0, 5.0])
def test_fedprox_is_gradient_descent_on_the_loss_with_its_proximal_term(proximal_weight) -> None:
    """Autograd on ℓ(w) + ρ/2 ‖w − w_shared‖², BN scales and shifts included."""
    clients = make_clients()
    layout = clients[0].task.layout
    shared = clients[0].task.vector
    for iteration in range(2):
        answers = []
        for client in clients:
            module = Module(layout, shared)
            anchors = [parameter.detach().clone() for parameter in module.parameters()]
            optimiser = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
            for batches in client.orders[iteration]:
                module.start_epoch()
                for batch in batches:
                    optimiser.zero_grad()
                    squares = sum(((w - a) ** 2).sum() for w, a in zip(module.parameters(), anchors, strict=True))
                    (module.loss(client.task, batch) + proximal_weight / 2 * squares).backward()
                    optimiser.step()
            answers.append(module.vector())
        shared = 24 / 65 * answers[0] + 41 / 65 * answers[1]
    state = iterate(algorithm_named("fedprox", layout, proximal_weight=proximal_weight), clients, 2)
    close(state.shared, shared)


def test_fedprox_stays_closer_to_the_shared_model_with_a_larger_weight() -> None:
    client = make_clients()[1]
    layout, shared = client.task.layout, client.task.vector
    distances = []
    for weight in (0.0, 1.0, 3.0, 10.0):  # η ρ up to 1, where each step forgets all before it
        algorithm = algorithm_named("fedprox", layout, proximal_weight=weight)
        empty = shared.new_empty(0)
        model = algorithm.local(shared, empty, empty, client.descend(0)).model
        distances.append(float((model - shared)[layout.trainable].norm()))
    assert all(far > near for far, near in pairwise(distances))
    assert distances[-1] < 0.5 * distances[0]


def test_fedprox_at_a_weight_of_one_over_the_rate_ends_one_gradient_away_from_the_shared_model() -> None:
    """w⁺ − w_shared = (1 − η ρ)(w − w_shared) − η ∇ℓ(w), whose first term is gone."""
    task = make_task(sample_count=24)
    batches = list(torch.arange(24).split(8))
    trainable, start = task.layout.trainable, task.vector
    algorithm = algorithm_named("fedprox", task.layout, proximal_weight=1 / LEARNING_RATE)
    empty = start.new_empty(0)
    before_last = algorithm.local(start, empty, empty, Client(task, [[batches[:2]]]).descend(0)).model
    model = algorithm.local(start, empty, empty, Client(task, [[batches]]).descend(0)).model
    gradient = gradient_vector(task, before_last, batches[2])
    close(model[trainable], start[trainable] - LEARNING_RATE * gradient)


# SCAFFOLD


def test_scaffold_over_three_iterations_is_its_pseudo_code() -> None:
    """Algorithm 1, option II, η_g = 1, over all clients, p_i for 1/N; tensors by name."""
    clients = make_clients(iteration_count=3)
    layout = clients[0].task.layout
    shared = clients[0].task.vector
    zeros = [torch.zeros_like(p) for p in Module(layout, shared).parameters()]
    c, c_of = zeros, [zeros for _ in clients]
    for iteration in range(3):
        answers = []
        for i, client in enumerate(clients):
            module = Module(layout, shared)
            x = [parameter.detach().clone() for parameter in module.parameters()]
            K = 0
            for batches in client.orders[iteration]:
                module.start_epoch()
                for batch in batches:
                    gradients = module.gradients(client.task, batch)
                    with torch.no_grad():
                        for y, g, mine, everyones in zip(module.parameters(), gradients, c_of[i], c, strict=True):
                            y -= LEARNING_RATE * (g - mine + everyones)
                    K += 1
            y = [parameter.detach().clone() for parameter in module.parameters()]
            renewed = [
                mine - everyones + (a - b) / (K * LEARNING_RATE)
                for mine, everyones, a, b in zip(c_of[i], c, x, y, strict=True)
            ]
            c_of[i] = renewed
            answers.append(module.vector())
        shared = 24 / 65 * answers[0] + 41 / 65 * answers[1]
        c = [24 / 65 * first + 41 / 65 * second for first, second in zip(*c_of, strict=True)]
    state = iterate(algorithm_named("scaffold", layout), clients, 3)
    close(state.shared, shared)

    def as_vector(tensors):
        module = Module(layout, shared)
        with torch.no_grad():
            for parameter, tensor in zip(module.parameters(), tensors, strict=True):
                parameter.copy_(tensor)
        return module.vector()[layout.trainable]

    close(served_by(algorithm_named("scaffold", layout), state, clients), as_vector(c), 1e-9)
    for memory, mine in zip(state.memories, c_of, strict=True):
        close(memory, as_vector(mine), 1e-9)


def test_scaffolds_server_sends_the_weighted_mean_of_its_clients_control_variates() -> None:
    clients = make_clients((24, 41, 15))
    algorithm = algorithm_named("scaffold", clients[0].task.layout)
    for iteration_count in (1, 2):
        state = iterate(algorithm, clients, iteration_count)
        served = served_by(algorithm, state, clients)
        close(served, (24 * state.memories[0] + 41 * state.memories[1] + 15 * state.memories[2]) / 80)
        assert served.norm() > 0.1


def test_scaffolds_first_control_variate_is_the_mean_gradient_of_the_steps() -> None:
    task = make_task(sample_count=24)
    batches = list(torch.arange(24).split(8))
    client = Client(task, [[batches]])
    algorithm = algorithm_named("scaffold", task.layout)
    start = task.vector
    zero = algorithm.first_memory(start)
    gradients, w = [], start
    for batch in batches:
        gradients.append(gradient_vector(task, w, batch))
        w = w.clone()
        w[task.layout.trainable] -= LEARNING_RATE * gradients[-1]
    close(algorithm.local(start, zero, zero, client.descend(0)).memory, torch.stack(gradients).mean(0))


def test_scaffold_among_clients_with_the_same_samples_is_fedavg() -> None:
    """Nobody drifts from the others, so there is nothing to correct."""
    clients = [make_clients()[0]] * 3
    layout = clients[0].task.layout
    scaffold = iterate(algorithm_named("scaffold", layout), clients, 2)
    close(scaffold.shared, iterate(algorithm_named("fedavg", layout), clients, 2).shared)


def test_scaffold_learns_nothing_about_drift_from_a_client_that_took_no_step() -> None:
    layout = make_clients()[0].task.layout
    algorithm = algorithm_named("scaffold", layout)
    state = iterate(algorithm, make_clients(), 1)
    sent = state.shared + 1  # whatever a free rider sends
    served = served_by(algorithm, state, make_clients())
    result = algorithm.local(state.shared, served, state.memories[0], lambda start, _=None: (sent, 0))
    assert torch.equal(result.model, sent)
    assert torch.equal(result.memory, state.memories[0])


def test_scaffold_forgets_a_client_that_left() -> None:
    """On quadratics with minima 0, 1 and 8: once the third has left, the model settles between the other two."""
    targets, rate, steps = [0.0, 1.0, 8.0], 0.1, 5
    algorithm = Scaffold(SimpleNamespace(trainable=slice(0, 1)), rate)
    shared = torch.zeros(1, dtype=torch.float64)
    memories = [algorithm.first_memory(shared) for _ in targets]

    def descent(target):
        def descend(start, correction=None):
            w = start.clone()
            for _ in range(steps):
                w = w - rate * ((w - target) + correction(w))
            return w, steps

        return descend

    for iteration in range(400):
        there = 3 if iteration < 3 else 2
        served = algorithm.serve(memories[:there], [1.0] * there)
        results = [algorithm.local(shared, served, memories[i], descent(targets[i])) for i in range(there)]
        memories[:there] = [result.memory for result in results]
        shared = average([result.model for result in results], [1.0] * there)
    close(shared, torch.tensor([0.5], dtype=torch.float64))


# FedAMP


def attentive_model(own, others, alpha, sigma, *, is_member):
    """u_i of Huang et al. (2021), Algorithm 1, in plain Python floats."""
    weights = []
    for other in others:
        distance = sum((a - b) ** 2 for a, b in zip(own, other, strict=True))
        weights.append(alpha * math.exp(-distance / sigma) / sigma)
    if not is_member or sum(weights) > 1:
        weights = [weight / sum(weights) for weight in weights]
    self_weight = 1 - sum(weights) if is_member else 0.0
    return [
        self_weight * own[entry] + sum(w * other[entry] for w, other in zip(weights, others, strict=True))
        for entry in range(len(own))
    ]


@pytest.mark.parametrize(("alpha", "sigma"), [(1.0, 1.0), (0.5, 3.0), (2.0, 0.7), (30.0, 2.0)])
@pytest.mark.parametrize("coalition", ["abc", "ab", "bc", "ac", "a", "b"])
def test_fedamp_merges_by_likeness(alpha, sigma, coalition) -> None:
    """For client a, in coalitions with and without it. The last parameters make the weights sum to more than 1."""
    models = {
        "a": torch.tensor([0.1, -0.4, 1.0], dtype=torch.float64),
        "b": torch.tensor([0.3, -0.1, 0.7], dtype=torch.float64),
        "c": torch.tensor([-0.9, 0.6, 0.2], dtype=torch.float64),
    }
    algorithm = algorithm_named("fedamp", make_task().layout, alpha=alpha, sigma=sigma, proximal_weight=0.3)
    merged = {client: models[client] for client in coalition}
    others = [models[client].tolist() for client in coalition if client != "a"]
    expected = attentive_model(models["a"].tolist(), others, alpha, sigma, is_member="a" in coalition)
    sizes = {"a": 5.0, "b": 90.0, "c": 2.0}  # which do not matter
    close(algorithm.aggregate(merged, sizes, models["a"]), torch.tensor(expected, dtype=torch.float64))
    assert algorithm.is_personal


def test_fedamp_far_from_everybody() -> None:
    """A client that nobody is like keeps its own model; outside the coalition it gets the plain average."""
    algorithm = algorithm_named("fedamp", make_task().layout)
    models = {"a": torch.zeros(2), "b": torch.full((2,), 1e3), "c": torch.full((2,), 2e3)}
    sizes = {"a": 1.0, "b": 1.0, "c": 3.0}
    assert torch.equal(algorithm.aggregate(models, sizes, models["a"]), models["a"])
    del models["a"]
    close(algorithm.aggregate(models, sizes, torch.zeros(2)), torch.full((2,), 1750.0))


def test_fedamp_trains_with_the_pull_towards_its_own_merged_model() -> None:
    """Autograd on ℓ(w) + λ/(2α) ‖w − u‖², from u."""
    client = make_clients()[1]
    layout, start = client.task.layout, client.task.vector
    algorithm = algorithm_named("fedamp", layout, alpha=0.5, sigma=2.0, proximal_weight=0.8)
    empty = start.new_empty(0)
    module = Module(layout, start)
    anchors = [parameter.detach().clone() for parameter in module.parameters()]
    optimiser = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
    for batches in client.orders[0]:
        module.start_epoch()
        for batch in batches:
            optimiser.zero_grad()
            squares = sum(((w - a) ** 2).sum() for w, a in zip(module.parameters(), anchors, strict=True))
            (module.loss(client.task, batch) + 0.8 / (2 * 0.5) * squares).backward()
            optimiser.step()
    close(algorithm.local(start, empty, empty, client.descend(0)).model, module.vector())


# All


@pytest.mark.parametrize("name", NAMES)
def test_no_algorithm_writes_into_its_arguments(name) -> None:
    clients = make_clients()
    algorithm = algorithm_named(name, clients[0].task.layout)
    state = iterate(algorithm, clients, 1)
    given = [state.shared, served_by(algorithm, state, clients), state.memories[0]]
    copies = [tensor.clone() for tensor in given]
    result = algorithm.local(*given, clients[0].descend(1))
    algorithm.serve([result.memory, state.memories[1]], [1.0, 2.0])
    algorithm.personal(state.shared, state.memories[0])
    assert all(torch.equal(tensor, kept) for tensor, kept in zip(given, copies, strict=True))


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "scaffold"])
def test_without_personal_parts_the_shared_model_is_used_unchanged(name) -> None:
    clients = make_clients()
    algorithm = algorithm_named(name, clients[0].task.layout)
    state = iterate(algorithm, clients, 1)
    assert torch.equal(algorithm.personal(state.shared, state.memories[0]), state.shared)


@pytest.mark.parametrize("name", NAMES)
def test_algorithms_differ_from_fedavg_from_the_expected_iteration_on(name) -> None:
    """From zero control variates and equal BN layers, SCAFFOLD and FedBN begin as FedAvg; FedProx does not."""
    clients = make_clients()
    layout = clients[0].task.layout
    settings = {"proximal_weight": 1.0} if name == "fedprox" else {}
    ours = [iterate(algorithm_named(name, layout, **settings), clients, count).shared for count in (1, 2)]
    fedavg = [iterate(algorithm_named("fedavg", layout), clients, count).shared for count in (1, 2)]
    assert torch.allclose(ours[0], fedavg[0], rtol=0, atol=1e-10) == (name != "fedprox")
    assert torch.allclose(ours[1], fedavg[1], rtol=0, atol=1e-10) == (name == "fedavg")
