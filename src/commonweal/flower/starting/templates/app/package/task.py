"""What this federation learns: a model, its data, training and evaluation. Change this for your own task.

A model is sent as named arrays; `model_of` and `load_model` convert a torch module to them and back.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from commonweal.data.sources import load_source
from commonweal.flower import NewData, Trained, load_model, model_of

BATCH_SIZE = 16
LEARNING_RATE = 0.1


def make_module() -> nn.Module:
    """A network that reads digits, small enough for any machine."""
    return nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 32), nn.ReLU(), nn.Linear(32, 10))


def initial_model(federation: Any) -> dict[str, NDArray[Any]]:
    """The model that the first round starts from; called at the operator."""
    torch.manual_seed(federation.seed)
    return model_of(make_module())


def load(round_number: int, member: Any) -> NewData:
    """A member's new samples in a round; always the same for the same round.

    Here: handwritten digits that come with the installed packages, different ones for each member and round. Load your
    own data instead, for example with np.load(member.settings["file"]); `member.settings` is the table [task] of
    member.toml.
    """
    samples = load_source("uci-digits", None)
    count = int(member.settings.get("samples_per_round", 60))
    first = int.from_bytes(hashlib.sha256(member.name.encode()).digest()[:4], "big") + (round_number - 1) * count
    shuffled = np.random.default_rng(0).permutation(len(samples.labels))
    chosen = shuffled[(first + np.arange(count)) % len(shuffled)]
    images = samples.images[chosen, :, :, 0].astype(np.float32) / 255
    labels = samples.labels[chosen]
    kept = count * 3 // 10  # for validation, never for training
    return NewData(training=(images[kept:], labels[kept:]), validation=(images[:kept], labels[:kept]))


def train(model: dict[str, NDArray[Any]], training: tuple[NDArray[Any], ...], context: Any) -> Trained:
    """One pass over all of a member's samples; `context.rng` gives the same order if an iteration is repeated."""
    images, labels = (torch.from_numpy(array) for array in training)
    module = make_module()
    load_model(module, model)
    module.train()
    optimiser = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
    loss_of = nn.CrossEntropyLoss()
    losses = []
    order = context.rng.permutation(len(labels))
    for start in range(0, len(order), BATCH_SIZE):
        batch = order[start : start + BATCH_SIZE]
        optimiser.zero_grad()
        loss = loss_of(module(images[batch]), labels[batch])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return Trained(model=model_of(module), step_count=len(losses), loss=float(np.mean(losses)))


def evaluate(model: dict[str, NDArray[Any]], validation: tuple[NDArray[Any], ...], context: Any) -> NDArray[Any]:
    """1 for each validation sample that the model gets right, 0 for the others."""
    images = torch.from_numpy(validation[0])
    module = make_module()
    load_model(module, model)
    module.eval()
    with torch.no_grad():
        guesses = module(images).argmax(dim=1).numpy()
    return np.asarray(guesses == validation[1], np.float64)
