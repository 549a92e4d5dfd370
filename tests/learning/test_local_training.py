"""Batches of local training, what free riders send instead, and what poisoners send after it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from commonweal.learning.local_training import make_epochs, poisoned_model, pretended_model
from commonweal.learning.models import ARCHITECTURES, Layout
from commonweal.scenario.spec import Noised, NoisedUpdate, Scaled, SignFlip, Untrained

counts = {
    "sample_count": st.integers(1, 400),
    "batch_size": st.integers(1, 70),
    "epoch_count": st.integers(1, 3),
    "seed": st.integers(0, 1000),
}


@given(**counts)
def test_an_epoch_has_each_sample_once_in_few_batches(sample_count, batch_size, epoch_count, seed) -> None:
    epochs = make_epochs(sample_count, batch_size, epoch_count, np.random.default_rng(seed))
    assert len(epochs) == epoch_count
    for batches in epochs:
        assert sorted(torch.cat(batches).tolist()) == list(range(sample_count))
        assert len(batches) == math.ceil(sample_count / batch_size)
        assert max(map(len, batches)) <= batch_size


@given(**counts)
def test_batches_differ_by_one_sample_at_most_and_none_is_smaller_than_half(
    sample_count, batch_size, epoch_count, seed
) -> None:
    for batches in make_epochs(sample_count, batch_size, epoch_count, np.random.default_rng(seed)):
        sizes = [len(batch) for batch in batches]
        assert max(sizes) - min(sizes) <= 1
        if sample_count > batch_size:
            assert min(sizes) >= batch_size // 2


def test_each_epoch_has_its_own_reproducible_order() -> None:
    first, second = make_epochs(50, 16, 2, np.random.default_rng(4))
    assert not torch.equal(torch.cat(first), torch.cat(second))
    again = make_epochs(50, 16, 2, np.random.default_rng(4))
    assert all(torch.equal(torch.cat(a), torch.cat(b)) for a, b in zip((first, second), again, strict=True))


def test_every_order_is_equally_likely() -> None:
    """Of three samples there are six orders; 4 deviations of a binomial count around 1/6."""
    random = np.random.default_rng(7)
    draw_count = 3000
    orders = [tuple(torch.cat(make_epochs(3, 2, 1, random)[0]).tolist()) for _ in range(draw_count)]
    expected, deviation = draw_count / 6, math.sqrt(draw_count * 5 / 36)
    assert len(set(orders)) == 6
    assert all(abs(orders.count(order) - expected) < 4 * deviation for order in set(orders))


@pytest.mark.parametrize("batch_size", [3, 4, 5, 16, 32, 33])
def test_no_batch_is_a_single_sample(batch_size):
    """One sample has no variance; 3 is the smallest batch size that a scenario allows."""
    for sample_count in range(2, 100):
        assert min(len(b) for b in make_epochs(sample_count, batch_size, 1, np.random.default_rng(0))[0]) > 1


LAYOUT = Layout(ARCHITECTURES["compact"], (28, 28, 1), 10)
RECEIVED = LAYOUT.initial(torch.Generator().manual_seed(2), torch.float32)
EVERY_RIDE = [Untrained(), Noised(deviation=0.1), Scaled(factor=1.3)]


def pretend(defect, seed=0):
    return pretended_model(RECEIVED, LAYOUT.weights, defect, np.random.default_rng(seed))


@pytest.mark.parametrize("defect", EVERY_RIDE)
def test_the_received_model_and_its_batch_normalisation_are_not_changed(defect) -> None:
    before = RECEIVED.clone()
    model = pretend(defect)
    model[0] += 1  # whatever becomes of the answer
    assert torch.equal(RECEIVED, before)
    assert torch.equal(model[LAYOUT.norms], before[LAYOUT.norms])
    assert model.dtype == before.dtype


def test_an_untrained_model_is_sent_back_bit_for_bit() -> None:
    assert torch.equal(pretend(Untrained()), RECEIVED)


@pytest.mark.parametrize("factor", [-1.0, 0.0, 0.5, 2.0])
def test_scaling_multiplies_every_weight(factor) -> None:
    assert torch.equal(pretend(Scaled(factor=factor))[LAYOUT.weights], RECEIVED[LAYOUT.weights] * factor)


@pytest.mark.parametrize("deviation", [0.01, 0.1, 1.0])
def test_noise_has_the_stated_share_of_the_weights_own_deviation(deviation) -> None:
    """And mean 0, kurtosis 3, no correlation with the weights; within 4 standard errors each."""
    weights = RECEIVED[LAYOUT.weights].double()
    noise = pretend(Noised(deviation=deviation))[LAYOUT.weights].double() - weights
    count = len(noise)
    expected = deviation * float(weights.std())
    assert float(noise.std()) == pytest.approx(expected, rel=4 / math.sqrt(2 * count))
    assert abs(float(noise.mean())) < 4 * expected / math.sqrt(count)
    assert abs(float(((noise / expected) ** 4).mean()) - 3) < 4 * math.sqrt(96 / count)
    assert abs(float(torch.corrcoef(torch.stack([noise, weights]))[0, 1])) < 4 / math.sqrt(count)


def test_noise_depends_only_on_the_given_stream() -> None:
    defect = Noised(deviation=0.1)
    assert torch.equal(pretend(defect, seed=3), pretend(defect, seed=3))
    assert not torch.equal(pretend(defect, seed=3), pretend(defect, seed=4))


TRAINED = RECEIVED + 0.01 * torch.randn(LAYOUT.size, generator=torch.Generator().manual_seed(5))
EVERY_POISON = [SignFlip(), SignFlip(factor=3.0), NoisedUpdate(ratio=2.0)]


def poison(defect, seed=0):
    return poisoned_model(RECEIVED, TRAINED, LAYOUT.trainable, defect, np.random.default_rng(seed))


@pytest.mark.parametrize("defect", EVERY_POISON)
def test_poison_leaves_its_arguments_and_the_running_statistics_as_they_are(defect) -> None:
    before = RECEIVED.clone(), TRAINED.clone()
    model = poison(defect)
    model[0] += 1  # whatever becomes of the answer
    assert torch.equal(RECEIVED, before[0])
    assert torch.equal(TRAINED, before[1])
    assert torch.equal(model[LAYOUT.statistics], TRAINED[LAYOUT.statistics])
    assert model.dtype == TRAINED.dtype


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_a_flipped_update_leads_the_other_way_from_the_received_model(factor) -> None:
    """w̄ − k (w − w̄), in doubles by NumPy; k = 1 is the mirror image of the trained model in the received one."""
    received, trained = (model[LAYOUT.trainable].double().numpy() for model in (RECEIVED, TRAINED))
    expected = (1 + factor) * received - factor * trained
    sent = poison(SignFlip(factor=factor))[LAYOUT.trainable].numpy()
    np.testing.assert_allclose(sent, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("ratio", [0.1, 1.0, 5.0])
def test_noise_of_an_update_has_the_stated_ratio_to_its_length(ratio) -> None:
    """And is spread evenly: kurtosis 3, no correlation with the update; within 4 standard errors each."""
    received, trained, sent = (
        model[LAYOUT.trainable].double() for model in (RECEIVED, TRAINED, poison(NoisedUpdate(ratio=ratio)))
    )
    update, noise = trained - received, sent - trained
    count = len(noise)
    assert float(noise.norm() / update.norm()) == pytest.approx(ratio, rel=4 / math.sqrt(2 * count))
    scale = ratio * float(update.norm()) / math.sqrt(count)
    assert abs(float(((noise / scale) ** 4).mean()) - 3) < 4 * math.sqrt(96 / count)
    assert abs(float(torch.corrcoef(torch.stack([noise, update]))[0, 1])) < 4 / math.sqrt(count)


def test_noise_of_an_update_depends_only_on_the_given_stream() -> None:
    defect = NoisedUpdate(ratio=1.0)
    assert torch.equal(poison(defect, seed=3), poison(defect, seed=3))
    assert not torch.equal(poison(defect, seed=3), poison(defect, seed=4))


def test_without_an_update_poison_changes_nothing() -> None:
    for defect in EVERY_POISON:
        sent = poisoned_model(RECEIVED, RECEIVED, LAYOUT.trainable, defect, np.random.default_rng(0))
        assert torch.equal(sent, RECEIVED)
