"""What this federation learns: a model, its data, training and evaluation. Change it into your own task.

The same file runs in `commonweal run`, in `commonweal flower rehearse`, and between machines. There each function is
called in a new process, so keep nothing in global variables: what training should remember goes into `context.memory`.
"""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from commonweal.task import (
    NewData,
    Predictions,
    TaskContext,
    TaskMember,
    TaskPlan,
    Trained,
    load_model,
    model_of,
    score_gradient,
)

FEATURES = ("age", "blood_pressure", "previous_stays", "lives_alone")
MEANS = np.array([65.0, 140.0, 1.5, 0.3], np.float32)  # known in advance, so that all clients scale alike
SCALES = np.array([12.0, 20.0, 1.5, 0.5], np.float32)
TARGET = "readmitted"
BATCH_SIZE = 16

Model = dict[str, NDArray[Any]]


def make_module() -> nn.Module:
    """A network for a few numbers about a patient. Any torch module will do."""
    return nn.Sequential(nn.Linear(len(FEATURES), 8), nn.ReLU(), nn.Linear(8, 1))


def initial_model(plan: TaskPlan) -> Model:
    """The model that the first round starts from. `plan.settings` are the keys of [task]."""
    torch.manual_seed(plan.seed)
    return model_of(make_module())  # named arrays; load_model copies them back into a module


def load(round_number: int, member: TaskMember) -> NewData:
    """What is new for a client in this round: rows to train with, and others to measure models on.

    The result must always be the same for the same round. `member.settings` are the keys of [task] and the client's own
    settings; paths in them are relative to `member.folder`.
    """
    with (member.folder / member.settings["data"]).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    arrived = rows[round_number - 1 :: member.round_count]  # every row arrives in one of the rounds
    features = np.array([[row[name] for name in FEATURES] for row in arrived], np.float32)
    features = (features - MEANS) / SCALES
    targets = np.array([row[TARGET] for row in arrived], np.int64)
    is_validation = np.arange(len(arrived)) % 3 == 0  # never trained on
    return NewData(
        training=(features[~is_validation], targets[~is_validation]),
        validation=(features[is_validation], targets[is_validation]),
    )


def train(model: Model, training: tuple[NDArray[Any], ...], context: TaskContext) -> Trained:
    """A pass over all rows that have arrived so far, from the model received.

    `context.rng` gives the same numbers if an iteration is repeated. `context.memory` is a dict of arrays that this
    client keeps between iterations, such as the state of an optimiser; it is never sent.
    """
    features, targets = torch.from_numpy(training[0]), torch.from_numpy(training[1]).float()
    module = make_module()
    load_model(module, model)
    module.train()
    optimiser = torch.optim.SGD(module.parameters(), lr=context.learning_rate)
    loss_of = nn.BCEWithLogitsLoss()
    losses = []
    order = context.rng.permutation(len(targets))
    for start in range(0, len(order), BATCH_SIZE):
        batch = order[start : start + BATCH_SIZE]
        optimiser.zero_grad()
        loss = loss_of(module(features[batch])[:, 0], targets[batch])
        loss.backward()
        context.correct_gradients(module.named_parameters())  # for FedProx and SCAFFOLD; otherwise it does nothing
        optimiser.step()
        losses.append(loss.item())
    return Trained(model=model_of(module), step_count=len(losses), loss=float(np.mean(losses)))


def evaluate(model: Model, validation: tuple[NDArray[Any], ...], context: TaskContext) -> Predictions:
    """What the model says of the validation rows.

    Predictions stay with the client: only the metric that the scenario names, such as "roc-auc", and its standard error
    leave it. For two classes return the probability of class 1, for more classes one column per class, for regression
    the predicted numbers. If accuracy is all you need, you can return an array with 1.0 where the model is right and
    0.0 where it is not. For a metric of your own, write a function (targets, predictions, weights) -> float in this
    file, and its name in the scenario: metric = "my_metric".
    """
    module = make_module()
    load_model(module, model)
    module.eval()
    with torch.no_grad():
        probabilities = torch.sigmoid(module(torch.from_numpy(validation[0]))[:, 0]).numpy()
    return Predictions(targets=validation[1], values=probabilities)


def gradient(model: Model, validation: tuple[NDArray[Any], ...], context: TaskContext) -> Model:
    """The gradient of the mean smooth score: the probability that the model gives to the true class.

    Only contribution = "path" needs it. Its scores are those that `evaluate` implies; the gradient is sent.
    """
    module = make_module()
    load_model(module, model)
    features, signs = torch.from_numpy(validation[0]), torch.from_numpy(2 * validation[1] - 1)
    return score_gradient(module, lambda: torch.sigmoid(signs * module(features)[:, 0]))
