"""Training equals a plain torch loop to the bit, and gradients and optima those of other implementations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from torch import nn

from commonweal.errors import FederationError
from tests.tables.small import context, made, patients


def three_classes(rows):
    return [{**row, "died": ("no", "yes", "unknown")[int(row["age"] // 10) % 3]} for row in rows]


def a_quantity(rows):
    return [{**row, "died": row["age"] * 3 + (row["ward"] == "lung") * 20 + row["key"] % 5 + 0.5} for row in rows]


TARGETS = {"two classes": lambda rows: rows, "three classes": three_classes, "a quantity": a_quantity}
LINEAR = {"model": "linear"}
MLP = {"model": "mlp", "hidden": [7, 5]}


def task_of(tmp_path, target, settings):
    return made(tmp_path, TARGETS[target](patients({"a": 90, "b": 60})), settings)


def plain_network(model):
    """The same model from torch's own layers."""
    weights = [array for array in model.values() if array.ndim == 2]
    biases = [array for array in model.values() if array.ndim == 1]
    layers = []
    for weight, bias in zip(weights, biases, strict=True):
        layer = nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weight))
            layer.bias.copy_(torch.from_numpy(bias))
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("model", [LINEAR, MLP], ids=["linear", "mlp"])
@pytest.mark.parametrize("l2", [0.0, 0.01])
def test_training_equals_a_plain_loop_to_the_bit(tmp_path, target, model, l2):
    task, clients = task_of(
        tmp_path, target, {**model, "l2": l2, "learning_rate": 0.3, "batch_size": 16, "local_epochs": 3}
    )
    client = clients[0]
    training = task.load(1, client).training
    initial = task.initial_model(1, client.agreed)
    trained = task.train(initial, training, context(client))

    network = plain_network(initial)
    parameters = list(network.parameters())
    optimizer = torch.optim.SGD(
        [{"params": parameters[0::2], "weight_decay": l2}, {"params": parameters[1::2], "weight_decay": 0.0}], lr=0.3
    )
    random = context(client).rng
    features, targets = map(torch.from_numpy, training)
    if target == "a quantity":
        mean, scale = client.agreed["target"]["mean"], client.agreed["target"]["scale"]
        targets = ((targets - mean) / scale).float()
    steps = 0
    for _ in range(3):
        for batch in torch.from_numpy(random.permutation(len(features))).tensor_split(-(-len(features) // 16)):
            optimizer.zero_grad()
            outputs = network(features[batch])
            if target == "two classes":
                loss = nn.BCEWithLogitsLoss()(outputs[:, 0], targets[batch].float())
            elif target == "three classes":
                loss = nn.CrossEntropyLoss()(outputs, targets[batch])
            else:
                loss = nn.MSELoss()(outputs[:, 0], targets[batch]) / 2
            loss.backward()
            optimizer.step()
            steps += 1
    assert trained.step_count == steps
    for array, expected in zip(trained.model.values(), network.parameters(), strict=True):
        assert array.dtype == np.float32
        assert np.array_equal(array, expected.detach().numpy())


def test_the_received_model_is_not_changed(tmp_path):
    task, clients = task_of(tmp_path, "two classes", MLP)
    initial = task.initial_model(1, clients[0].agreed)
    copies = {name: array.copy() for name, array in initial.items()}
    task.train(initial, task.load(1, clients[0]).training, context(clients[0]))
    assert all(np.array_equal(initial[name], copies[name]) for name in copies)


def test_initial_models(tmp_path):
    task, clients = task_of(tmp_path, "three classes", LINEAR)
    model = task.initial_model(1, clients[0].agreed)
    assert {name: array.shape for name, array in model.items()} == {"linear.weight": (3, 5), "linear.bias": (3,)}
    assert not any(array.any() for array in model.values())
    task, clients = task_of(tmp_path, "two classes", MLP)
    one, same, other = (task.initial_model(seed, clients[0].agreed) for seed in (1, 1, 2))
    assert [array.shape for array in one.values()] == [(7, 5), (7,), (5, 7), (5,), (1, 5), (1,)]
    assert all(np.array_equal(one[name], same[name]) for name in one)
    assert not any(np.array_equal(one[name], other[name]) for name in one)


def test_logistic_regression_finds_the_optimum_of_scikit_learn(tmp_path):
    task, clients = task_of(
        tmp_path, "two classes", {"l2": 0.05, "learning_rate": 0.5, "batch_size": 1000, "local_epochs": 3000}
    )
    training = task.load(1, clients[0]).training
    model = task.train(task.initial_model(1, clients[0].agreed), training, context(clients[0])).model
    expected = LogisticRegression(C=1 / (0.05 * len(training[0])), tol=1e-10, max_iter=10_000).fit(*training)
    assert model["linear.weight"][0] == pytest.approx(expected.coef_[0], abs=1e-4)
    assert model["linear.bias"] == pytest.approx(expected.intercept_, abs=1e-4)
    values = task.evaluate(model, training, context(clients[0])).values
    assert values == pytest.approx(expected.predict_proba(training[0])[:, 1], abs=1e-4)


def test_linear_regression_finds_the_optimum_of_scikit_learn_in_the_targets_unit(tmp_path):
    task, clients = task_of(
        tmp_path, "a quantity", {"l2": 0.05, "learning_rate": 0.2, "batch_size": 1000, "local_epochs": 3000}
    )
    training = task.load(1, clients[0]).training
    model = task.train(task.initial_model(1, clients[0].agreed), training, context(clients[0])).model
    predictions = task.evaluate(model, training, context(clients[0]))
    expected = Ridge(alpha=0.05 * len(training[0])).fit(training[0].astype(float), training[1])
    assert predictions.values == pytest.approx(expected.predict(training[0].astype(float)), rel=1e-4)
    assert np.array_equal(predictions.targets, training[1])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("model", [LINEAR, MLP], ids=["linear", "mlp"])
def test_the_gradient_is_the_slope_of_the_mean_smooth_score(tmp_path, target, model):
    task, clients = task_of(tmp_path, target, model)
    client = clients[0]
    new = task.load(1, client)
    start = task.train(task.initial_model(1, client.agreed), new.training, context(client)).model

    def mean_score(weights):
        """From predictions alone."""
        network = plain_network({name: array.astype(np.float32) for name, array in weights.items()}).double()
        with torch.no_grad():
            for parameter, array in zip(network.parameters(), weights.values(), strict=True):
                parameter.copy_(torch.from_numpy(array))
            outputs = network(torch.from_numpy(new.validation[0]).double()).numpy()
        targets = new.validation[1]
        if target == "two classes":
            ones = 1 / (1 + np.exp(-outputs[:, 0]))
            return np.mean(np.where(targets == 1, ones, 1 - ones))
        if target == "three classes":
            powers = np.exp(outputs)
            return np.mean((powers / powers.sum(axis=1, keepdims=True))[np.arange(len(targets)), targets])
        mean, scale = client.agreed["target"]["mean"], client.agreed["target"]["scale"]
        return np.mean(np.exp(-(((outputs[:, 0] * scale + mean - targets) / scale) ** 2) / 2))

    gradient = task.gradient(start, new.validation, context(client))
    weights = {name: array.astype(np.float64) for name, array in start.items()}
    assert {name: part.shape for name, part in gradient.items()} == {name: part.shape for name, part in start.items()}
    for name, part in weights.items():
        for index in np.ndindex(part.shape):
            kept = part[index]
            part[index] = kept + 1e-5
            above = mean_score(weights)
            part[index] = kept - 1e-5
            below = mean_score(weights)
            part[index] = kept
            assert gradient[name][index] == pytest.approx((above - below) / 2e-5, abs=2e-5)


def test_gradients_can_be_corrected_before_each_step(tmp_path):
    """FedProx pulls the local model towards the received one; here by a loop that adds the pull to the gradient."""
    task, clients = task_of(tmp_path, "two classes", {"local_epochs": 4, "learning_rate": 0.1})
    client, training = clients[0], task.load(1, clients[0]).training
    initial = task.initial_model(1, client.agreed)

    class Corrected:
        def __init__(self, inner):
            self.inner, self.calls = inner, 0

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def correct_gradients(self, named_parameters):
            self.calls += 1
            for name, parameter in named_parameters:
                parameter.grad.add_(parameter - torch.from_numpy(initial[name]), alpha=10.0)

    corrected = Corrected(context(client))
    pulled = task.train(initial, training, corrected)
    free = task.train(initial, training, context(client))
    assert corrected.calls == pulled.step_count
    assert np.linalg.norm(pulled.model["linear.weight"]) < 0.5 * np.linalg.norm(free.model["linear.weight"])


def test_the_loss_is_the_mean_over_samples(tmp_path):
    task, clients = task_of(tmp_path, "two classes", {"learning_rate": 1e-9})
    training = task.load(1, clients[0]).training
    assert task.train(task.initial_model(1, clients[0].agreed), training, context(clients[0])).loss == pytest.approx(
        np.log(2), abs=1e-6
    )


def test_divergence_is_reported_with_the_client_and_a_way_out(tmp_path):
    task, clients = task_of(tmp_path, "a quantity", {"learning_rate": 1000.0, "local_epochs": 100})
    training = task.load(1, clients[0]).training
    with pytest.raises(FederationError, match=r"Training diverged: client 'a' .* Lower learning_rate \(now 1000\)"):
        task.train(task.initial_model(1, clients[0].agreed), training, context(clients[0]))


def test_no_rows_are_no_steps(tmp_path):
    task, clients = task_of(tmp_path, "two classes", LINEAR)
    nothing = tuple(array[:0] for array in task.load(1, clients[0]).training)
    trained = task.train(task.initial_model(1, clients[0].agreed), nothing, context(clients[0]))
    assert (trained.step_count, trained.loss) == (0, 0.0)
