"""The true accuracy of models: thousands of samples of each source that no client ever receives.

A client whose labels are wrong with probability p has its own truth. A model that is right with probability a on true
labels is right on the client's labels with probability

    (1 − p) a + p (1 − a) / (C − 1),        C classes,

because a wrong label is any of the other classes with the same probability, whatever the model says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from commonweal.data.arrival import Arrivals
from commonweal.data.federated_dataset import FederatedDataset
from commonweal.learning.models import to_tensor
from commonweal.scenario.spec import LabelNoise, Scenario
from commonweal.seeds import stream
from commonweal.simulation.client_set import InProcessClients
from commonweal.task.records import Predictions, Rows

SAMPLE_COUNT = 2_000  # per source, or as many as are left


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Unseen samples for each client, and how its labels differ from the true ones."""

    samples: Mapping[str, Rows]
    sharers: Mapping[str, str]  # by client: the first client with the same source
    wrong_labels: Mapping[str, float]  # by client: the probability of a wrong validation label
    class_count: int

    @classmethod
    def of(cls, scenario: Scenario, dataset: FederatedDataset) -> Truth:
        unseen: dict[str, list[int]] = {}
        for client in scenario.clients:
            arrivals = Arrivals(
                client=client.name,
                pool=dataset.pools[client.name],
                samples_per_round=client.samples_per_round,
                validation_share=scenario.data.validation_share,
                seed=scenario.seed,
            )
            seen = sum(arrivals.fresh_count(number) for number in range(1, scenario.round_count + 1))
            unseen.setdefault(client.source, []).extend(dataset.pools[client.name][seen:].tolist())
        rows: dict[str, Rows] = {}
        for source, left in unseen.items():
            chosen = stream(scenario.seed, "truth", source).permutation(np.array(left))[:SAMPLE_COUNT]
            images = dataset.sources[source].images[chosen]
            if images.shape[3] != dataset.image_shape[2]:
                images = np.repeat(images, dataset.image_shape[2], axis=3)
            rows[source] = (to_tensor(images, torch.float32).numpy(), dataset.sources[source].labels[chosen])
        first: dict[str, str] = {}
        for client in scenario.clients:
            first.setdefault(client.source, client.name)
        return cls(
            samples={client.name: rows[client.source] for client in scenario.clients},
            sharers={client.name: first[client.source] for client in scenario.clients},
            wrong_labels={client.name: _wrong_labels(client.defect) for client in scenario.clients},
            class_count=dataset.class_count,
        )

    def accuracies(self, clients: InProcessClients, round_number: int, active: tuple[str, ...]) -> dict[str, float]:
        """The true accuracy at each client of the model that it has now."""
        # Clients with the same source have the same model, unless models are personal; then each has its own source.
        measured_at: dict[str, str] = {}
        for client in active:
            measured_at.setdefault(self.sharers[client], client)
        samples = {client: self.samples[client] for client in measured_at.values()}
        scores = clients.scores_of(round_number, samples)
        found = {}
        for client in active:
            hits = scores[measured_at[self.sharers[client]]]
            assert not isinstance(hits, Predictions), "the metric is accuracy"
            accuracy = float(np.mean(hits))
            wrong = self.wrong_labels[client]
            found[client] = (1 - wrong) * accuracy + wrong * (1 - accuracy) / (self.class_count - 1)
        return found


def _wrong_labels(defect: object) -> float:
    return defect.probability if isinstance(defect, LabelNoise) and not defect.training_only else 0.0
