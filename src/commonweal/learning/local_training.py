"""A client's part of an iteration: local training, or what a free rider does instead."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from commonweal.errors import FederationError
from commonweal.learning.algorithms import Algorithm, LocalResult
from commonweal.learning.learner import Correction, Learner
from commonweal.learning.models import Layout
from commonweal.scenario.spec import Defect, LearningSpec, Noised, Scaled, Untrained
from commonweal.seeds import stream

FreeRide = Untrained | Noised | Scaled


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTraining:
    """How every client of a scenario trains."""

    learning: LearningSpec
    layout: Layout
    algorithm: Algorithm
    learner: Learner
    seed: int

    def run(
        self,
        client: str,
        round_number: int,
        iteration: int,
        *,
        shared: Tensor,
        served: Tensor,
        memory: Tensor,
        images: Tensor,
        labels: Tensor,
        defect: Defect | None,
    ) -> tuple[LocalResult, int, float]:
        """The new model and memory, the number of steps, and the mean loss. Only the seed decides the batches."""
        learning, key = self.learning, (client, round_number, iteration)
        step_count, loss = 0, 0.0

        def descend(start: Tensor, correction: Correction | None = None) -> tuple[Tensor, int]:
            nonlocal step_count, loss
            if isinstance(defect, FreeRide):
                noise = stream(self.seed, "free rider", *key)
                return pretended_model(start, self.layout.weights, defect, noise), 0
            order = stream(self.seed, "batches", *key)
            epochs = make_epochs(len(labels), learning.batch_size, learning.local_epochs, order)
            model, loss = self.learner.train(start, images, labels, epochs, learning.learning_rate, correction)
            step_count = sum(map(len, epochs))
            return model, step_count

        result = self.algorithm.local(shared, served, memory, descend)
        # A model is finite if its extremes are.
        if not (np.isfinite(loss) and bool(torch.stack(torch.aminmax(result.model)).isfinite().all())):
            raise FederationError(
                f"Training diverged: client {client!r} has a loss of {loss} in round {round_number}, iteration "
                f"{iteration}. Nothing in this round was settled. Lower learning_rate (now {learning.learning_rate:g})."
            )
        return result, step_count, loss


def make_epochs(
    sample_count: int, batch_size: int, epoch_count: int, random: np.random.Generator
) -> list[list[Tensor]]:
    """For each epoch a random order of all samples, cut into ⌈samples / batch size⌉ batches of nearly equal size.

    A last batch of only two or three samples would spoil the statistics of batch normalisation, and with them the
    accuracy of every client.
    """
    batch_count = math.ceil(sample_count / batch_size)
    return [
        list(torch.from_numpy(random.permutation(sample_count)).tensor_split(batch_count)) for _ in range(epoch_count)
    ]


def pretended_model(received: Tensor, weights: slice, defect: FreeRide, random: np.random.Generator) -> Tensor:
    """The received model: unchanged, with light noise on its weights, or with its weights times a factor."""
    model = received.clone()
    match defect:
        case Scaled(factor=factor):
            model[weights] *= factor
        case Noised(deviation=deviation):
            noise = torch.from_numpy(random.standard_normal(len(model[weights]))).to(model.dtype)
            model[weights] += deviation * float(model[weights].std()) * noise
    return model
