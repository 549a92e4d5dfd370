"""The order in which a client sees its samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from commonweal.learning.local_training import make_epochs

counts = {
    "sample_count": st.integers(1, 400),
    "batch_size": st.integers(1, 70),
    "epoch_count": st.integers(1, 3),
    "seed": st.integers(0, 1000),
}


@given(**counts)
def test_an_epoch_holds_each_sample_once_in_as_few_batches_as_fit(sample_count, batch_size, epoch_count, seed) -> None:
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


def test_epochs_have_orders_of_their_own_and_the_same_stream_gives_the_same_ones() -> None:
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
