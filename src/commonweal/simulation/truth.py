"""The true accuracy of models: on thousands of samples of each client's own distribution that no client ever receives.

A client whose labels are wrong with probability p has its own truth. A model that is right with probability a on true
labels is right on the client's labels with probability

    (1 − p) a + p (1 − a) / (C − 1),        C classes,

because a wrong label is any of the other classes with the same probability, whatever the model says. Where a fraction f
of the labels is flipped, it is (1 − f) a + f a', with a' measured on flipped labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from commonweal.client.work import Evaluation
from commonweal.data.federated_dataset import FederatedDataset
from commonweal.learning.models import to_tensor
from commonweal.scenario.spec import LabelFlip, LabelNoise, Scenario
from commonweal.seeds import stream
from commonweal.simulation.client_set import InProcessClients
from commonweal.task.records import Predictions, Rows

SAMPLE_COUNT = 2_000  # per source, or as many as are left
FEWEST_SAMPLES = 200  # with fewer, the truth would be as noisy as what clients measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Unseen samples for each client, and how its labels differ from the true ones."""

    samples: Mapping[str, Rows]
    flipped: Mapping[str, Rows]  # the same with flipped labels, of the clients that flip some
    wrong_labels: Mapping[str, float]  # by client: the probability of a wrong validation label
    class_counts: Mapping[str, int]  # by client

    @classmethod
    def of(cls, scenario: Scenario, dataset: FederatedDataset, *, sample_count: int = SAMPLE_COUNT) -> Truth:
        """Clients with the same source share its samples, unless their labels are skewed."""
        is_skewed = scenario.data.label_skew is not None
        unseen: dict[str, list[int]] = {}
        for client in scenario.clients:
            group = client.name if is_skewed else client.source
            unseen.setdefault(group, []).extend(dataset.unseen(client.name, scenario.round_count).tolist())
        sources = {client.name if is_skewed else client.source: client.source for client in scenario.clients}
        rows: dict[str, Rows] = {}
        for group, left in unseen.items():
            chosen = stream(scenario.seed, "truth", group).permutation(np.array(left, np.intp))[:sample_count]
            images = dataset.images_of(sources[group], chosen)
            labels = dataset.sources[sources[group]].labels[chosen]
            rows[group] = (to_tensor(images, torch.float32).numpy(), labels)
        samples = {client.name: rows[client.name if is_skewed else client.source] for client in scenario.clients}
        counts = {client.name: dataset.sources[client.source].class_count for client in scenario.clients}
        return cls(
            samples=samples,
            flipped={
                client.name: (samples[client.name][0], counts[client.name] - 1 - samples[client.name][1])
                for client in scenario.clients
                if isinstance(client.defect, LabelFlip) and not client.defect.training_only
            },
            wrong_labels={client.name: _wrong_labels(client.defect) for client in scenario.clients},
            class_counts=counts,
        )

    @property
    def fewest_samples(self) -> int:
        """Of the client with the fewest unseen samples."""
        return min(len(rows[0]) for rows in self.samples.values())

    def accuracies(self, clients: InProcessClients, round_number: int, active: Sequence[str]) -> dict[str, float]:
        """The true accuracy at each client of the model that it has now."""
        scores = clients.scores_of(round_number, {client: self.samples[client] for client in active})
        flips = [client for client in active if client in self.flipped]
        flipped = clients.scores_of(round_number, {client: self.flipped[client] for client in flips})
        found = {}
        for client in active:
            accuracy, wrong = _mean_score(scores[client]), self.wrong_labels[client]
            other = (1 - accuracy) / (self.class_counts[client] - 1)
            if client in flipped:
                other = _mean_score(flipped[client])
            found[client] = (1 - wrong) * accuracy + wrong * other
        return found


def why_no_truth(scenario: Scenario) -> str | None:
    """Why the true figures of a scenario cannot be measured; None if they can, given enough unseen samples."""
    if scenario.task.kind != "images":
        return "the task has no samples to spare that clients never receive"
    if scenario.task.metric_name != "accuracy":
        return f"the metric is {scenario.task.metric.label}, and truth is measured as accuracy"
    if scenario.mechanism.utility != "gain":
        return "utility is the advantage over models that clients train alone"
    return None


def _mean_score(evaluation: Evaluation) -> float:
    if isinstance(evaluation, Predictions):
        return float(np.mean(evaluation.values.argmax(axis=1) == evaluation.targets))
    return float(np.mean(evaluation))


def _wrong_labels(defect: object) -> float:
    if isinstance(defect, LabelNoise) and not defect.training_only:
        return defect.probability
    return defect.fraction if isinstance(defect, LabelFlip) and not defect.training_only else 0.0
