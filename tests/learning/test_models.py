"""The layout of models, their initial values, their average, and images as tensors."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from torch import nn

from commonweal.errors import InputError
from commonweal.learning.models import ARCHITECTURES, Architecture, Layout, average, to_tensor

architectures = st.builds(
    Architecture,
    channels=st.tuples(*[st.integers(1, 5)] * 3),
    kernel_sizes=st.tuples(*[st.sampled_from([1, 3, 5])] * 3),
    pools=st.tuples(*[st.booleans()] * 3),
    hidden=st.tuples(*[st.integers(1, 7)] * 2),
)
shapes = st.tuples(st.integers(8, 12), st.integers(8, 12), st.sampled_from([1, 3]))


def weight_parts(layout):
    return [*layout.convolutions, *layout.linears, layout.head, layout.head_bias]


def parts_of_one_kind(layout):
    return {1.0: weight_parts(layout), 2.0: layout.scales + layout.shifts, 3.0: layout.means + layout.variances}


@settings(max_examples=30)
@given(architectures, shapes)
def test_each_entry_of_the_vector_belongs_to_exactly_one_tensor(architecture, shape) -> None:
    layout = Layout(architecture, shape, 10)
    owners = torch.zeros(layout.size)
    for parts in parts_of_one_kind(layout).values():
        for part in parts:
            part.of(owners).add_(1)
    assert (owners == 1).all()


@settings(max_examples=30)
@given(architectures, shapes)
def test_slices_separate_weights_normalisation_and_statistics(architecture, shape) -> None:
    layout = Layout(architecture, shape, 10)
    kinds = torch.zeros(layout.size)
    for kind, parts in parts_of_one_kind(layout).items():
        for part in parts:
            part.of(kinds).fill_(kind)
    positions = torch.arange(layout.size)
    assert torch.equal(positions[layout.weights], positions[kinds == 1])
    assert torch.equal(positions[layout.trainable], positions[kinds <= 2])
    assert torch.equal(positions[layout.norms], positions[kinds >= 2])
    assert torch.equal(positions[layout.statistics], positions[kinds == 3])


@settings(max_examples=30)
@given(architectures, shapes)
def test_the_first_fully_connected_layer_takes_what_pooling_leaves(architecture, shape) -> None:
    height, width, channel_count = shape
    x = torch.empty(1, channel_count, height, width, device="meta")
    channels = (channel_count, *architecture.channels)
    for i, size in enumerate(architecture.kernel_sizes):
        x = nn.Conv2d(channels[i], channels[i + 1], size, padding=size // 2, device="meta")(x)
        x = nn.functional.max_pool2d(x, 2) if architecture.pools[i] else x
    assert Layout(architecture, shape, 10).linears[0].shape == (architecture.hidden[0], x.numel())


@pytest.mark.parametrize("class_count", [2, 10, 26])
def test_the_last_layer_has_an_output_for_each_class(class_count) -> None:
    layout = Layout(ARCHITECTURES["compact"], (20, 12, 3), class_count)
    assert (layout.head.shape, layout.head_bias.shape) == ((class_count, 64), (class_count,))
    # 20×12 pixels are 2×1 after three halvings.
    weights = 3 * 16 * 25 + 16 * 32 * 9 + 32 * 64 * 9 + 2 * 1 * 64 * 128 + 128 * 64 + 64 * class_count + class_count
    assert layout.weights.stop == weights


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_images_of_which_pooling_leaves_nothing_are_refused(name) -> None:
    side = ARCHITECTURES[name].smallest_side
    Layout(ARCHITECTURES[name], (side, side, 1), 10)
    for shape in ((side - 1, 28, 1), (28, side - 1, 1)):
        with pytest.raises(InputError, match=f"at least {side} rows and columns, got {shape[0]}×{shape[1]}"):
            Layout(ARCHITECTURES[name], shape, 10)


def digit_model() -> nn.Module:
    """The DigitModel of the FedBN authors, biases and all."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 5, 1, 2, device="meta"), nn.BatchNorm2d(64, device="meta"),
        nn.Conv2d(64, 64, 5, 1, 2, device="meta"), nn.BatchNorm2d(64, device="meta"),
        nn.Conv2d(64, 128, 5, 1, 2, device="meta"), nn.BatchNorm2d(128, device="meta"),
        nn.Linear(6272, 2048, device="meta"), nn.BatchNorm1d(2048, device="meta"),
        nn.Linear(2048, 512, device="meta"), nn.BatchNorm1d(512, device="meta"),
        nn.Linear(512, 10, device="meta"),
    )  # fmt: skip


def test_the_model_of_the_fedbn_code_has_its_published_size_less_the_biases_that_normalisation_cancels() -> None:
    published = sum(parameter.numel() for parameter in digit_model().parameters())
    assert published == 14_219_210
    layout = Layout(ARCHITECTURES["fedbn-digits"], (28, 28, 3), 10)
    cancelled_bias_count = 64 + 64 + 128 + 2048 + 512
    assert layout.trainable.stop == published - cancelled_bias_count
    assert layout.size - layout.weights.stop == 4 * cancelled_bias_count  # scale, shift, mean, variance


def test_a_bias_before_batch_normalisation_is_cancelled() -> None:
    """So leaving it out changes nothing that a model can express."""
    torch.manual_seed(3)
    x = torch.randn(16, 5, dtype=torch.float64)
    linear, norm = nn.Linear(5, 4).double(), nn.BatchNorm1d(4).double()
    with_bias = norm(linear(x))
    linear.bias.data.zero_()
    torch.testing.assert_close(norm(linear(x)), with_bias, rtol=0, atol=1e-12)


def test_an_untrained_model_has_the_distribution_of_pytorchs_layers() -> None:
    """Kolmogorov-Smirnov against fresh layers; the seeds are fixed, so it passes always or never."""
    layout = Layout(ARCHITECTURES["compact"], (28, 28, 1), 10)
    torch.manual_seed(11)
    generator = torch.Generator().manual_seed(12)
    ours = [layout.initial(generator, torch.float64) for _ in range(20)]

    def fresh(part):
        if part is layout.head_bias:
            return nn.Linear(layout.head.shape[1], 10).bias
        if len(part.shape) == 4:
            return nn.Conv2d(part.shape[3], part.shape[0], part.shape[1]).weight
        return nn.Linear(part.shape[1], part.shape[0]).weight

    for part in weight_parts(layout):
        theirs = torch.cat([fresh(part).detach().flatten() for _ in range(20)]).numpy()
        drawn = torch.cat([part.of(vector).flatten() for vector in ours]).numpy()
        rows = np.random.default_rng(0).permutation(len(drawn))[:20_000]
        assert stats.ks_2samp(drawn[rows], theirs[rows]).pvalue > 0.01
        input_count = math.prod((layout.head if part is layout.head_bias else part).shape[1:])
        assert np.abs(drawn).max() <= 1 / math.sqrt(input_count)
        assert drawn.std() == pytest.approx(1 / math.sqrt(3 * input_count), rel=3 / math.sqrt(len(drawn)))


def test_batch_normalisation_starts_as_pytorchs_does() -> None:
    layout = Layout(ARCHITECTURES["compact"], (28, 28, 1), 10)
    vector = layout.initial(torch.Generator().manual_seed(0), torch.float64)
    for i, width in enumerate((16, 32, 64, 128, 64)):
        theirs = nn.BatchNorm1d(width).double()
        assert torch.equal(layout.scales[i].of(vector), theirs.weight)
        assert torch.equal(layout.shifts[i].of(vector), theirs.bias)
        assert torch.equal(layout.means[i].of(vector), theirs.running_mean)
        assert torch.equal(layout.variances[i].of(vector), theirs.running_var)


def test_the_same_seed_gives_the_same_model_in_both_precisions_and_another_seed_another() -> None:
    layout = Layout(ARCHITECTURES["compact"], (28, 28, 1), 10)
    double = layout.initial(torch.Generator().manual_seed(5), torch.float64)
    assert torch.equal(layout.initial(torch.Generator().manual_seed(5), torch.float64), double)
    assert torch.equal(layout.initial(torch.Generator().manual_seed(5), torch.float32), double.float())
    other = layout.initial(torch.Generator().manual_seed(6), torch.float64)
    assert (other[layout.weights] != double[layout.weights]).all()


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
def test_the_average_is_between_minimum_and_maximum(case) -> None:
    models, weights = case
    stacked = torch.stack(models)
    mean = average(models, weights)
    assert (mean >= stacked.min(0).values - 1e-9).all()
    assert (mean <= stacked.max(0).values + 1e-9).all()


@given(weighted_models(), st.floats(0.01, 100))
def test_only_the_ratios_of_weights_matter(case, factor) -> None:
    models, weights = case
    scaled = average(models, [factor * weight for weight in weights])
    np.testing.assert_allclose(scaled, average(models, weights), rtol=0, atol=1e-9)


@given(weighted_models())
def test_an_average_can_be_computed_from_the_averages_of_two_parts(case) -> None:
    models, weights = case
    models, weights = [*models, torch.arange(4).double()], [*weights, 7.0]
    for cut in range(1, len(models)):
        halves = [average(models[:cut], weights[:cut]), average(models[cut:], weights[cut:])]
        joined = average(halves, [sum(weights[:cut]), sum(weights[cut:])])
        np.testing.assert_allclose(joined, average(models, weights), rtol=0, atol=1e-9)


@given(arrays(np.float64, 4, elements=entries), st.integers(1, 500))
def test_the_average_of_one_model_is_that_model(entries, weight) -> None:
    model = torch.from_numpy(entries)
    mean = average([model], [float(weight)])
    assert torch.equal(mean, model)
    assert mean.data_ptr() != model.data_ptr()


@given(weighted_models())
def test_averaging_changes_no_model_and_is_reproducible(case) -> None:
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


def test_a_missing_weight_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        average([torch.zeros(2), torch.ones(2)], [1.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pixels_are_scaled_to_minus_one_to_one_as_in_the_fedbn_code(dtype) -> None:
    """ToTensor divides by 255; Normalize(0.5, 0.5) subtracts a half and divides by a half."""
    images = np.arange(256, dtype=np.uint8).reshape(4, 8, 8, 1)
    tensor = to_tensor(images, dtype)
    assert tensor.dtype == dtype
    np.testing.assert_allclose(tensor.numpy(), (images / 255 - 0.5) / 0.5, rtol=0, atol=1e-6)
    assert (float(tensor.min()), float(tensor.max())) == (-1.0, 1.0)
    assert images[0, 0, 1, 0] == 1  # the bytes are as they were
