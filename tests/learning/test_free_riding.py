"""What free riders send: the received model, noised or scaled in its weights alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from commonweal.learning.local_training import pretended_model
from commonweal.learning.models import ARCHITECTURES, Layout
from commonweal.scenario.spec import Noised, Scaled, Untrained

LAYOUT = Layout(ARCHITECTURES["compact"], (28, 28, 1))
RECEIVED = LAYOUT.initial(torch.Generator().manual_seed(2), torch.float32)
EVERY_RIDE = [Untrained(), Noised(deviation=0.1), Scaled(factor=1.3)]


def pretend(defect, seed=0):
    return pretended_model(RECEIVED, LAYOUT.weights, defect, np.random.default_rng(seed))


@pytest.mark.parametrize("defect", EVERY_RIDE)
def test_the_received_model_is_not_written_to_and_batch_normalisation_is_sent_as_it_came(defect) -> None:
    before = RECEIVED.clone()
    model = pretend(defect)
    model[0] += 1  # whatever becomes of the answer
    assert torch.equal(RECEIVED, before)
    assert torch.equal(model[LAYOUT.norms], before[LAYOUT.norms])
    assert model.dtype == before.dtype


def test_an_untrained_model_is_sent_back_to_the_bit() -> None:
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


def test_noise_comes_from_the_given_stream_alone() -> None:
    defect = Noised(deviation=0.1)
    assert torch.equal(pretend(defect, seed=3), pretend(defect, seed=3))
    assert not torch.equal(pretend(defect, seed=3), pretend(defect, seed=4))
