"""The average of models."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from commonweal.learning.models import average

entries = st.floats(-1e3, 1e3)
weights = st.lists(st.integers(1, 500), min_size=1, max_size=5)


@st.composite
def weighted_models(draw):
    chosen = draw(weights)
    table = draw(arrays(np.float64, (len(chosen), 4), elements=entries))
    return [torch.from_numpy(row) for row in table], [float(weight) for weight in chosen]


def exact_average(models, weights):
    """In fractions, so without any rounding."""
    total = sum(map(Fraction, weights))
    return [
        float(sum(Fraction(float(m[i])) * Fraction(w) for m, w in zip(models, weights, strict=True)) / total)
        for i in range(len(models[0]))
    ]


@given(weighted_models())
def test_the_average_is_the_weighted_sum_over_the_sum_of_weights(case) -> None:
    models, weights = case
    np.testing.assert_allclose(average(models, weights), exact_average(models, weights), rtol=0, atol=1e-9)


@given(weighted_models())
def test_the_average_lies_between_the_least_and_the_greatest(case) -> None:
    models, weights = case
    stacked = torch.stack(models)
    mean = average(models, weights)
    assert (mean >= stacked.min(0).values - 1e-9).all()
    assert (mean <= stacked.max(0).values + 1e-9).all()


@given(weighted_models(), st.floats(0.01, 100))
def test_weights_matter_only_by_their_ratios(case, factor) -> None:
    models, weights = case
    scaled = average(models, [factor * weight for weight in weights])
    np.testing.assert_allclose(scaled, average(models, weights), rtol=0, atol=1e-9)


@given(weighted_models())
def test_the_whole_is_the_average_of_two_parts_with_the_weights_of_the_parts(case) -> None:
    models, weights = case
    models, weights = [*models, torch.arange(4).double()], [*weights, 7.0]
    for cut in range(1, len(models)):
        halves = [average(models[:cut], weights[:cut]), average(models[cut:], weights[cut:])]
        joined = average(halves, [sum(weights[:cut]), sum(weights[cut:])])
        np.testing.assert_allclose(joined, average(models, weights), rtol=0, atol=1e-9)


@given(arrays(np.float64, 4, elements=entries), st.integers(1, 500))
def test_one_model_is_its_own_average_to_the_bit(entries, weight) -> None:
    model = torch.from_numpy(entries)
    mean = average([model], [float(weight)])
    assert torch.equal(mean, model)
    assert mean.data_ptr() != model.data_ptr()


@given(weighted_models())
def test_no_model_is_written_to_and_the_same_order_gives_the_same_bits(case) -> None:
    models, weights = case
    copies = [model.clone() for model in models]
    first = average(models, weights)
    assert torch.equal(average(copies, list(weights)), first)
    assert all(torch.equal(model, copy) for model, copy in zip(models, copies, strict=True))


def test_single_precision_stays_single_and_near_the_exact_average() -> None:
    random = np.random.default_rng(0)
    models = [torch.from_numpy(random.standard_normal(50)).float() for _ in range(5)]
    weights = [70.0, 31.0, 8.0, 100.0, 42.0]
    mean = average(models, weights)
    assert mean.dtype == torch.float32
    np.testing.assert_allclose(mean, exact_average(models, weights), rtol=0, atol=1e-6)


def test_a_missing_weight_is_our_mistake_and_is_noticed() -> None:
    with pytest.raises(ValueError, match="shorter"):
        average([torch.zeros(2), torch.ones(2)], [1.0])
