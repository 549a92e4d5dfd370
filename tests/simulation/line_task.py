"""A task of a user's own: which side of a line a point lies on, learned by a small torch network.

The clients' lines differ a little. Runs in no time, and exactly reproducibly.
"""

import numpy as np
import torch
from torch import nn

from commonweal.seeds import stream
from commonweal.task import NewData, Predictions, Trained, load_model, model_of, score_gradient


def make_module():
    return nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)).double()


def initial_model(plan):
    torch.manual_seed(plan.seed)
    return model_of(make_module())


def load(round_number, member):
    rng = stream(member.seed, "points", member.name, round_number)
    points = rng.normal(0, 1, (30, 2))
    sides = (points @ np.array([1.0, member.settings.get("slope", 0.0)]) > 0.1).astype(np.int64)
    return NewData(training=(points[9:], sides[9:]), validation=(points[:9], sides[:9]))


def train(model, training, context):
    points, sides = (torch.from_numpy(array) for array in training)
    module = make_module()
    load_model(module, model)
    module.train()
    optimiser = torch.optim.SGD(module.parameters(), lr=context.learning_rate)
    step_count = 0
    for batch in np.array_split(context.rng.permutation(len(sides)), max(1, len(sides) // 10)):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(module(points[batch]), sides[batch])
        loss.backward()
        context.correct_gradients(module.named_parameters())
        optimiser.step()
        step_count += 1
    context.memory["trained"] = context.memory.get("trained", np.zeros(1)) + 1
    return Trained(model=model_of(module), step_count=step_count, loss=loss.item())


def evaluate(model, validation, context):
    module = make_module()
    load_model(module, model)
    module.eval()
    with torch.no_grad():
        chances = module(torch.from_numpy(validation[0])).softmax(1).numpy()
    return Predictions(targets=validation[1], values=chances)


def gradient(model, validation, context):
    module = make_module()
    load_model(module, model)
    points, sides = (torch.from_numpy(array) for array in validation)
    return score_gradient(module, lambda: module(points).softmax(1).gather(1, sides[:, None])[:, 0])


def brier(targets, predictions, weights):
    """Mean squared error of the probability of class 1: less is better."""
    return float(np.average((predictions[:, 1] - targets) ** 2, weights=weights))
