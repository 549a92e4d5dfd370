"""A task of a user's own on a real table: which procedure a patient had, by a small torch network."""

import csv

import numpy as np
import torch
from torch import nn

from commonweal.seeds import stream
from commonweal.task import NewData, Predictions, Trained, load_model, model_of


def make_module():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))


def initial_model(plan):
    torch.manual_seed(plan.seed)
    return model_of(make_module())


def load(round_number, member):
    """Two rounds, each with half of the hospital's patients, in an order of its own."""
    with (member.folder / member.settings["data"]).open() as file:
        patients = [row for row in csv.DictReader(file) if row["hospital"] == member.settings["hospital"]]
    order = stream(member.seed, "patients", member.name).permutation(len(patients))
    chosen = [patients[place] for place in np.array_split(order, 2)[round_number - 1]]
    columns = [[float(row["los"]) / 10, *(float(row[key]) for key in ("sex", "age75", "admit"))] for row in chosen]
    features, targets = np.array(columns, np.float32), np.array([int(row["procedure"]) for row in chosen])
    kept = len(chosen) * 3 // 10
    return NewData(training=(features[kept:], targets[kept:]), validation=(features[:kept], targets[:kept]))


def train(model, training, context):
    features, targets = torch.from_numpy(training[0]), torch.from_numpy(training[1]).float()
    module = make_module()
    load_model(module, model)
    optimiser = torch.optim.SGD(module.parameters(), lr=context.learning_rate)
    batches = np.array_split(context.rng.permutation(len(targets)), max(1, len(targets) // 16))
    for batch in batches:
        optimiser.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(module(features[batch])[:, 0], targets[batch])
        loss.backward()
        context.correct_gradients(module.named_parameters())
        optimiser.step()
    return Trained(model=model_of(module), step_count=len(batches), loss=loss.item())


def evaluate(model, validation, context):
    module = make_module()
    load_model(module, model)
    with torch.no_grad():
        chances = module(torch.from_numpy(validation[0]))[:, 0].sigmoid().numpy()
    return Predictions(targets=validation[1], values=chances)
