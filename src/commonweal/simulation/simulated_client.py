"""One client of the in-process federation: its data, its part of the model, and its figures of the round."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from commonweal.data.federated_dataset import RoundSamples
from commonweal.federation.client_set import ProfitReport, Scores
from commonweal.learning.models import to_tensor
from commonweal.scenario.spec import ClientSpec
from commonweal.valuation import cost, profit, utility
from commonweal.valuation.bootstrap import mean_draws, resampling_weights


@dataclass(slots=True, kw_only=True)
class SimulatedClient:
    """The private state of one client; only its client set changes it."""

    spec: ClientSpec
    memory: Tensor  # of the algorithm, e.g. the client's own BN layers
    training_images: Tensor
    training_labels: Tensor
    validation_images: Tensor
    validation_labels: Tensor
    previous_scores: Scores | None = None  # of the model that the last utility was measured with
    declared_count: int = 0  # this and the next two: of the current round
    fresh_count: int = 0
    step_count: int = 0
    known_scores: Scores = field(default_factory=lambda: np.empty(0))  # of the model that starts the next round

    @classmethod
    def start(
        cls, spec: ClientSpec, memory: Tensor, image_shape: tuple[int, int, int], dtype: torch.dtype
    ) -> SimulatedClient:
        """A client without data."""
        nothing, no_labels = torch.empty((0, *image_shape), dtype=dtype), torch.empty(0, dtype=torch.int64)
        return cls(
            spec=spec,
            memory=memory,
            training_images=nothing,
            training_labels=no_labels,
            validation_images=nothing,
            validation_labels=no_labels,
        )

    def receive(self, samples: RoundSamples) -> None:
        """Add the samples that are new in a round."""
        dtype = self.training_images.dtype
        self.training_images = torch.cat([self.training_images, to_tensor(samples.training_images, dtype)])
        self.training_labels = torch.cat([self.training_labels, torch.from_numpy(samples.training_labels)])
        self.validation_images = torch.cat([self.validation_images, to_tensor(samples.validation_images, dtype)])
        self.validation_labels = torch.cat([self.validation_labels, torch.from_numpy(samples.validation_labels)])
        self.declared_count = samples.declared_count
        self.fresh_count = samples.fresh_count
        self.step_count = 0

    def report(self, scores: Scores, seed: int) -> ProfitReport:
        """The client's report of the round, computed from its private state.

        Utility is the gain over the accuracy at the client's last report, on the samples that it had then.
        """
        assert self.previous_scores is not None, "a round is opened before it is reported"
        spec = self.spec
        accuracy, previous_accuracy = float(scores.mean()), float(self.previous_scores.mean())
        gained = utility(spec.unit_value, accuracy, previous_accuracy)
        spent = cost(
            cost_per_sample=spec.cost_per_sample,
            cost_per_step=spec.cost_per_step,
            cost_per_round=spec.cost_per_round,
            sample_count=self.fresh_count,
            step_count=self.step_count,
        )
        weights = resampling_weights(seed, spec.name, len(scores))
        before = weights[: len(self.previous_scores)].copy()
        before[:, before.sum(axis=0) == 0] = 1.0
        gain_draws = mean_draws(scores, weights) - mean_draws(self.previous_scores, before)
        return ProfitReport(
            profit=profit(gained, spent),
            profit_draws=spec.unit_value * gain_draws - spent,
            previous_accuracy=previous_accuracy,
            utility=gained,
            cost=spent,
        )
