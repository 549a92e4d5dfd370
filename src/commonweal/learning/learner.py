"""What a learner does: train and score model vectors. `PlainLearner` and `FastLearner` give the same results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from torch import Tensor

from commonweal.scenario.spec import ScoreName

Correction = Callable[[Tensor], Tensor]
"""From the trainable entries of the current model to what an algorithm adds to their gradient."""


class Learner(Protocol):
    """Images are (sample, height, width, channel) in the model's precision, labels are integers."""

    def train(
        self,
        vector: Tensor,
        images: Tensor,
        labels: Tensor,
        epochs: Sequence[Sequence[Tensor]],
        learning_rate: float,
        correction: Correction | None = None,
    ) -> tuple[Tensor, float]:
        """One step of gradient descent on the mean cross entropy of each batch of indices.

        Returns the new model and the mean loss of the samples. BN statistics are the averages over the batches of the
        last epoch: with the usual momentum of 0.1 they would still be near their initial values after a few batches.
        """
        ...

    def score(self, vector: Tensor, images: Tensor, labels: Tensor, kind: ScoreName) -> Tensor:
        """The score of each sample, in double precision."""
        ...

    def gradient(self, vector: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        """The gradient, at the model, of the mean probability of the true class. BN statistics are entries like others.

        Nothing is normalised by the batch, so each sample has its own part in it.
        """
        ...
