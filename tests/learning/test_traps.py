"""Three traps of batch normalisation in short federated rounds: what the naive way does, and that ours does not.

Each on real digits, for several draws of samples and models; in double precision, so that equal means equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from commonweal.data.sources import load_source
from commonweal.learning.algorithms.fedavg import FedAvg
from commonweal.learning.fast import FastLearner
from commonweal.learning.local_training import make_epochs
from commonweal.learning.models import ARCHITECTURES, Layout, average, to_tensor
from commonweal.learning.plain import PlainLearner
from commonweal.scenario.spec import LearningSpec

LEARNING_RATE = 0.05
LEARNERS = [FastLearner, PlainLearner]


@dataclass(frozen=True, kw_only=True)
class Digits:
    """A client's samples, others to measure accuracy on, and an untrained model."""

    layout: Layout
    untrained: Tensor
    images: Tensor
    labels: Tensor
    other_images: Tensor
    other_labels: Tensor

    def accuracy(self, model: Tensor) -> float:
        hits = FastLearner(self.layout).score(model.float(), self.other_images, self.other_labels, "hit")
        return float(hits.mean())

    def train(self, model: Tensor, epochs, learning_rate: float = LEARNING_RATE, make_learner=FastLearner) -> Tensor:
        return make_learner(self.layout).train(model, self.images, self.labels, epochs, learning_rate)[0]


def digits(sample_count: int, seed: int) -> Digits:
    source = load_source("mnist-5k", None)
    chosen = np.random.default_rng(seed).permutation(len(source.labels))[: sample_count + 500]
    images, labels = to_tensor(source.images[chosen], torch.float64), torch.from_numpy(source.labels[chosen])
    layout = Layout(ARCHITECTURES["compact"], source.image_shape, source.class_count)
    return Digits(
        layout=layout,
        untrained=layout.initial(torch.Generator().manual_seed(seed), torch.float64),
        images=images[:sample_count],
        labels=labels[:sample_count],
        other_images=images[sample_count:].float(),
        other_labels=labels[sample_count:],
    )


def train_with_momentum(client: Digits, batches: list[Tensor], momentum: float) -> Tensor:
    """An epoch as everybody writes it: nn.BatchNorm with PyTorch's default momentum."""
    plain = PlainLearner(client.layout)
    network = plain.to_network(client.untrained)
    for norm in network.norms:
        norm.momentum = momentum
    optimiser = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE)
    network.train()
    for batch in batches:
        optimiser.zero_grad()
        loss = functional.cross_entropy(network(client.images[batch].permute(0, 3, 1, 2)), client.labels[batch])
        loss.backward()
        optimiser.step()
    return plain.to_vector(network)


def true_variances(client: Digits, model: Tensor, layer: int) -> Tensor:
    """The variances that a layer of this model really sees, on all samples of the client at once."""
    outputs = []
    network = PlainLearner(client.layout).to_network(model)
    handle = network.norms[layer].register_forward_hook(lambda module, inputs, output: outputs.append(inputs[0]))
    network.train()
    network(client.images.permute(0, 3, 1, 2))
    handle.remove()
    return outputs[0].detach().transpose(0, 1).flatten(1).var(1)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_after_three_batches_a_model_with_the_usual_momentum_is_at_chance_and_ours_is_not(seed) -> None:
    client = digits(96, seed)
    epochs = make_epochs(96, 32, 1, np.random.default_rng(seed))
    assert len(epochs[0]) == 3
    lagging = train_with_momentum(client, epochs[0], 0.1)
    trainable = client.layout.trainable
    for make_learner in LEARNERS:
        ours = client.train(client.untrained, epochs, make_learner=make_learner)
        # The weights are the same; only the statistics differ.
        torch.testing.assert_close(ours[trainable], lagging[trainable], rtol=0, atol=1e-9)
        assert client.accuracy(client.untrained) < 0.15
        assert client.accuracy(lagging) < 0.15
        assert client.accuracy(ours) > 0.2


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_after_three_batches_our_statistics_match_the_data_and_with_momentum_they_do_not(seed) -> None:
    client = digits(96, seed)
    epochs = make_epochs(96, 32, 1, np.random.default_rng(seed))
    lagging = train_with_momentum(client, epochs[0], 0.1)
    ours = client.train(client.untrained, epochs)
    for layer in range(5):
        part = client.layout.variances[layer]
        truth = true_variances(client, ours, layer)
        distance = {
            name: float((part.of(model) - truth).norm())
            for name, model in (("start", client.untrained), ("lagging", lagging), ("ours", ours))
        }
        assert distance["lagging"] > 0.6 * distance["start"]  # 0.9³ = 0.73 of the start is left
        assert distance["ours"] < 0.2 * distance["start"]


@pytest.mark.parametrize("make_learner", LEARNERS)
def test_statistics_of_balanced_batches_are_those_of_all_samples_and_a_tail_of_two_spoils_them(make_learner) -> None:
    """Without steps, the means of the first layer over 22 + 22 + 22 samples are the means over 66: exactly."""
    client = digits(66, 0)
    order = torch.from_numpy(np.random.default_rng(0).permutation(66))
    part = client.layout.means[0]

    def first_means(batches):
        return part.of(client.train(client.untrained, [batches], 0.0, make_learner))

    truth = first_means([order])
    balanced = make_epochs(66, 32, 1, np.random.default_rng(0))[0]
    tailed = list(order.split(32))
    assert [len(batch) for batch in balanced] == [22, 22, 22]
    assert [len(batch) for batch in tailed] == [32, 32, 2]
    torch.testing.assert_close(first_means(balanced), truth, rtol=0, atol=1e-12)
    assert (first_means(tailed) - truth).norm() > 0.02 * truth.norm()


def test_a_last_batch_of_two_samples_costs_over_ten_points_of_accuracy() -> None:
    costs = []
    for seed in range(3):
        client = digits(66, seed)
        balanced = tailed = client.untrained
        random = np.random.default_rng(seed)
        for _ in range(5):
            epochs = make_epochs(66, 32, 1, random)
            balanced = client.train(balanced, epochs)
            tailed = client.train(tailed, [torch.cat(epochs[0]).split(32)])  # the same order, cut naively
        costs.append(client.accuracy(balanced) - client.accuracy(tailed))
    assert min(costs) > 0
    assert np.mean(costs) > 0.1


def test_fedavg_averages_statistics_by_samples_and_a_model_without_them_is_at_chance() -> None:
    """Averaging weights alone, as some libraries do, is an accidental FedBN whose shared model knows no statistics."""
    clients = [digits(96, 0), digits(40, 1)]
    layout, shared = clients[0].layout, clients[0].untrained
    algorithm, nothing = FedAvg(layout, LearningSpec()), torch.empty(0)
    models = []
    for client in clients:
        epochs = make_epochs(len(client.labels), 32, 3, np.random.default_rng(0))
        models.append(
            algorithm.local(
                shared, nothing, nothing, lambda start, _=None, c=client, e=epochs: (c.train(start, e), 1)
            ).model
        )
    aggregate = average(models, [96.0, 40.0])
    for part in [*layout.means, *layout.variances]:
        by_hand = (96 * part.of(models[0]) + 40 * part.of(models[1])) / 136
        torch.testing.assert_close(part.of(aggregate), by_hand, rtol=0, atol=1e-12)
        assert not torch.allclose(part.of(models[0]), part.of(models[1]), rtol=0.01)  # so there was something to weigh
    used = algorithm.personal(aggregate, nothing)
    without = used.clone()
    without[layout.statistics] = shared[layout.statistics]
    assert clients[0].accuracy(used) > 0.4
    assert clients[0].accuracy(without) < 0.2
