"""The built-in task for images: a scenario's data, its network and the fast learner.

Models are sent as one vector. Training follows the batches of the seed's own stream, so the same scenario gives the
same models in the simulator and in a federation between machines.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.learning.fast import FastLearner
from commonweal.learning.local_training import make_epochs
from commonweal.learning.models import ARCHITECTURES, Layout, initial_model, to_tensor
from commonweal.scenario.spec import Scenario
from commonweal.seeds import stream
from commonweal.task.records import (
    Model,
    NewData,
    Predictions,
    Rows,
    Task,
    TaskContext,
    TaskMember,
    TaskPlan,
    Trained,
)


class ImageTask:
    """Images of a scenario's sources."""

    def __init__(self, scenario: Scenario, dataset: FederatedDataset, *, dtype: torch.dtype = torch.float32) -> None:
        self._learning = scenario.learning
        # Hits, or probabilities, of which the metric and the smooth score are computed.
        self._predicts = scenario.task.metric_name != "accuracy" or scenario.mechanism.scores_coalitions_smoothly
        self._dataset = dataset
        self._dtype = dtype
        self.layout = Layout(ARCHITECTURES[scenario.learning.model], dataset.image_shape, dataset.class_count)
        self._learner = FastLearner(self.layout)
        self.task = Task(
            initial_model=self.initial_model,
            load=self.load,
            train=self.train,
            evaluate=self.evaluate,
            gradient=self.gradient,
            name="images",
        )

    def initial_model(self, plan: TaskPlan) -> Model:
        return self.layout.unpack(initial_model(self.layout, plan.seed, self._dtype))

    def load(self, round_number: int, member: TaskMember) -> NewData:
        new = self._dataset.samples_for(member.name, round_number)
        notes = {}
        if new.is_dry:
            notes["pool-dry"] = f"The pool of {member.name} ran dry: only {new.fresh_count} samples arrived."
        return NewData(
            training=(self._pixels(new.training_images), new.training_labels),
            validation=(self._pixels(new.validation_images), new.validation_labels),
            sample_count=new.declared_count,
            paid_count=new.fresh_count,
            notes=notes,
        )

    def train(self, model: Model, training: Rows, context: TaskContext) -> Trained:
        images, labels = _tensors(training)
        learning = self._learning
        purpose = "batches alone" if context.is_alone else "batches"
        order = stream(context.seed, purpose, context.member.name, context.round_number, context.iteration)
        epochs = make_epochs(len(labels), learning.batch_size, learning.local_epochs, order)
        start = self.layout.pack(model)
        trained, loss = self._learner.train(
            start, images, labels, epochs, learning.learning_rate, context.vector_correction
        )
        return Trained(model=self.layout.unpack(trained), step_count=sum(map(len, epochs)), loss=loss)

    def evaluate(self, model: Model, validation: Rows, context: TaskContext) -> NDArray[np.float64] | Predictions:
        images, labels = _tensors(validation)
        vector = self.layout.pack(model)
        if self._predicts:
            return Predictions(targets=validation[1], values=self._learner.probabilities(vector, images).numpy())
        scores: NDArray[np.float64] = self._learner.score(vector, images, labels, self._learning.score).numpy()
        return scores

    def gradient(self, model: Model, validation: Rows, context: TaskContext) -> Model:
        images, labels = _tensors(validation)
        return self.layout.unpack(self._learner.gradient(self.layout.pack(model), images, labels))

    def _pixels(self, images: NDArray[np.uint8]) -> NDArray[np.floating]:
        return to_tensor(images, self._dtype).numpy()


def _tensors(rows: Rows) -> tuple[Tensor, Tensor]:
    images, labels = rows
    return torch.from_numpy(images), torch.from_numpy(labels)
