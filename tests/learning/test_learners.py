"""The fast learner against the plain one, and both against formulas written out in numpy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from commonweal.learning.fast import FastLearner
from commonweal.learning.local_training import make_epochs
from commonweal.learning.models import ARCHITECTURES, Architecture
from commonweal.learning.plain import PlainLearner
from tests.learning.small import TINY, forward_by_hand, loss_by_hand, make_task, one_batch

LEARNERS = [FastLearner, PlainLearner]
EXACTLY = {"rtol": 0.0, "atol": 1e-10}


def uneven_epochs(sample_count, *, seed=0):
    """Two balanced epochs and one of batches of very different sizes."""
    random = np.random.default_rng(seed)
    ragged = torch.from_numpy(random.permutation(sample_count)).split([5, sample_count - 14, 9])
    return [*make_epochs(sample_count, 8, 2, random), list(ragged)]


def pull(anchor, strength=0.3):
    """A correction that depends on the model at hand."""
    return lambda w: strength * (w - anchor) + 0.01


def assert_learners_agree(task, epochs, learning_rate, correction=None):
    before = task.vector.clone(), task.images.clone(), task.labels.clone()
    fast, fast_loss = FastLearner(task.layout).train(
        task.vector, task.images, task.labels, epochs, learning_rate, correction
    )
    plain, plain_loss = PlainLearner(task.layout).train(
        task.vector, task.images, task.labels, epochs, learning_rate, correction
    )
    assert (plain - task.vector).abs().max() > 1e-3  # something was learned
    torch.testing.assert_close(fast, plain, rtol=1e-10, atol=1e-10)  # relative too: variances may exceed 100
    assert fast_loss == pytest.approx(plain_loss, abs=1e-10)
    for kind in ("hit", "probability"):
        scores = [
            make(task.layout).score(model, task.images, task.labels, kind)
            for make, model in ((FastLearner, fast), (PlainLearner, plain))
        ]
        torch.testing.assert_close(*scores, **EXACTLY)
    for tensor, copy in zip((task.vector, task.images, task.labels), before, strict=True):
        assert torch.equal(tensor, copy)  # no argument was written to


@pytest.mark.parametrize("is_corrected", [False, True])
@pytest.mark.parametrize("channel_count", [1, 3])
@pytest.mark.parametrize("pools", list(itertools.product([False, True], repeat=3)))
def test_both_learners_take_the_same_steps(pools, channel_count, is_corrected) -> None:
    """Over three epochs of uneven batches; rows and columns are odd, so pooling leaves a rest."""
    architecture = Architecture(channels=(3, 4, 5), kernel_sizes=(5, 3, 3), pools=pools, hidden=(8, 7))
    task = make_task(architecture, (9, 11, channel_count), sample_count=23)
    correction = pull(task.vector[task.layout.trainable]) if is_corrected else None
    assert_learners_agree(task, uneven_epochs(23), 0.1, correction)


@pytest.mark.parametrize("kernel_sizes", [(1, 3, 5), (3, 5, 1), (7, 1, 1)])
@pytest.mark.parametrize("channel_count", [1, 3])
def test_both_learners_agree_for_kernels_of_every_size(kernel_sizes, channel_count) -> None:
    architecture = Architecture(channels=(4, 3, 2), kernel_sizes=kernel_sizes, pools=(True, False, True), hidden=(6, 9))
    assert_learners_agree(make_task(architecture, (10, 8, channel_count), sample_count=23), uneven_epochs(23), 0.1)


@pytest.mark.parametrize(
    ("name", "shape", "learning_rate", "is_corrected"),
    [
        ("compact", (28, 28, 1), 0.05, False),
        ("compact", (16, 16, 3), 0.05, True),
        ("fedbn-digits", (8, 8, 1), 0.01, True),  # its authors' rate
        ("fedbn-digits", (8, 8, 3), 0.01, False),
    ],
)
def test_both_learners_agree_on_the_shipped_networks(name, shape, learning_rate, is_corrected) -> None:
    task = make_task(ARCHITECTURES[name], shape, sample_count=23)
    correction = pull(task.vector[task.layout.trainable]) if is_corrected else None
    assert_learners_agree(task, uneven_epochs(23), learning_rate, correction)


@pytest.mark.parametrize("class_count", [2, 26, 1000])
def test_both_learners_agree_on_rectangles_of_any_number_of_classes(class_count) -> None:
    task = make_task(ARCHITECTURES["compact"], (20, 12, 1), class_count=class_count, sample_count=23)
    assert_learners_agree(task, uneven_epochs(23), 0.05)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("make_learner", LEARNERS)
def test_the_smallest_images_can_be_learned(name, make_learner) -> None:
    side = ARCHITECTURES[name].smallest_side
    task = make_task(ARCHITECTURES[name], (side, 2 * side + 1, 1), sample_count=12)
    model, loss = make_learner(task.layout).train(task.vector, task.images, task.labels, one_batch(12), 0.01)
    assert math.isfinite(loss)
    assert bool(model.isfinite().all())


@pytest.mark.parametrize("channel_count", [1, 3])
def test_a_step_follows_the_gradient_of_finite_differences(channel_count) -> None:
    """The loss is written out in numpy: no autograd on either side."""
    task = make_task(TINY, (8, 8, channel_count), sample_count=9)
    moved, loss = FastLearner(task.layout).train(task.vector, task.images, task.labels, one_batch(9), 1.0)
    vector, images, labels = task.vector.numpy(), task.images.numpy(), task.labels.numpy()
    assert loss == pytest.approx(loss_by_hand(task.layout, vector, images, labels), abs=1e-12)
    half_step = 1e-6
    differences = np.zeros(task.layout.trainable.stop)
    for i in range(len(differences)):
        values = []
        for sign in (1, -1):
            shifted = vector.copy()
            shifted[i] += sign * half_step
            values.append(loss_by_hand(task.layout, shifted, images, labels))
        differences[i] = (values[0] - values[1]) / (2 * half_step)
    gradient = (task.vector - moved)[task.layout.trainable].numpy()
    assert np.abs(gradient).max() > 0.05
    np.testing.assert_allclose(gradient, differences, rtol=0, atol=1e-8)


@pytest.mark.parametrize("make_learner", LEARNERS)
def test_statistics_are_the_averages_over_the_batches_of_the_last_epoch(make_learner) -> None:
    """Means and unbiased variances by the formulas; with a learning rate of 0 the weights stay where they are."""
    task = make_task(sample_count=24)
    layout = task.layout
    epochs = [[torch.arange(24)], list(torch.arange(24).split([11, 6, 7]))]
    model, loss = make_learner(layout).train(task.vector, task.images, task.labels, epochs, 0.0)
    by_hand = [
        forward_by_hand(layout, task.vector.numpy(), task.images[batch].numpy(), task.labels[batch].numpy())
        for batch in epochs[1]
    ]
    for i in range(5):
        np.testing.assert_allclose(
            layout.means[i].of(model), np.mean([means[i] for _, means, _ in by_hand], axis=0), rtol=0, atol=1e-12
        )
        np.testing.assert_allclose(
            layout.variances[i].of(model), np.mean([variances[i] for *_, variances in by_hand], axis=0), rtol=1e-12
        )
    assert torch.equal(model[layout.trainable], task.vector[layout.trainable])
    whole = loss_by_hand(layout, task.vector.numpy(), task.images.numpy(), task.labels.numpy())
    in_batches = sum(len(batch) * value for batch, (value, *_) in zip(epochs[1], by_hand, strict=True)) / 24
    assert loss == pytest.approx((whole + in_batches) / 2, abs=1e-12)  # of the samples, not of the batches


@pytest.mark.parametrize("class_count", [10, 26])
@pytest.mark.parametrize("make_learner", LEARNERS)
def test_probabilities_over_all_labels_sum_to_one_and_exactly_one_label_is_a_hit(make_learner, class_count) -> None:
    task = make_task(class_count=class_count, sample_count=130)  # more than two chunks of the fast learner
    learner = make_learner(task.layout)
    by_label = {
        kind: torch.stack(
            [learner.score(task.vector, task.images, torch.full((130,), label), kind) for label in range(class_count)]
        )
        for kind in ("hit", "probability")
    }
    torch.testing.assert_close(by_label["probability"].sum(0), torch.ones(130).double(), **EXACTLY)
    assert torch.equal(by_label["hit"].sum(0), torch.ones(130).double())
    assert torch.equal(by_label["hit"].argmax(0), by_label["probability"].argmax(0))


@pytest.mark.parametrize("kind", ["hit", "probability"])
def test_both_learners_score_alike_beyond_one_chunk(kind) -> None:
    task = make_task(ARCHITECTURES["compact"], (12, 12, 3), sample_count=131)
    fast, plain = (
        make(task.layout).score(task.vector, task.images, task.labels, kind) for make in (FastLearner, PlainLearner)
    )
    torch.testing.assert_close(fast, plain, **EXACTLY)
    assert fast.shape == (131,)
    assert fast.std() > 0.005


@pytest.mark.parametrize("make_learner", LEARNERS)
def test_the_score_of_a_sample_does_not_depend_on_the_others(make_learner) -> None:
    task = make_task(sample_count=70)
    learner = make_learner(task.layout)
    together = learner.score(task.vector, task.images, task.labels, "probability")
    for i in (0, 63, 64, 69):
        alone = learner.score(task.vector, task.images[i : i + 1], task.labels[i : i + 1], "probability")
        assert float(alone[0]) == pytest.approx(float(together[i]), abs=1e-12)


@pytest.mark.parametrize("make_learner", LEARNERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_are_double_and_models_keep_their_precision(make_learner, dtype) -> None:
    task = make_task(dtype=dtype)
    learner = make_learner(task.layout)
    model, _ = learner.train(task.vector, task.images, task.labels, one_batch(24), 0.1)
    assert model.dtype == dtype
    assert learner.score(model, task.images, task.labels, "hit").dtype == torch.float64


@pytest.mark.parametrize("make_learner", LEARNERS)
def test_a_learner_remembers_nothing(make_learner) -> None:
    """A model trained before stays as it was, and training it again gives the same bits."""
    task, other = make_task(), make_task(seed=1)
    learner = make_learner(task.layout)
    first, loss = learner.train(task.vector, task.images, task.labels, uneven_epochs(24), 0.1)
    kept = first.clone()
    learner.train(other.vector, other.images, other.labels, uneven_epochs(24), 0.5)
    learner.score(other.vector, other.images, other.labels, "hit")
    again, loss_again = learner.train(task.vector, task.images, task.labels, uneven_epochs(24), 0.1)
    assert torch.equal(first, kept)
    assert torch.equal(again, kept)
    assert loss_again == loss


@pytest.mark.parametrize("make_learner", LEARNERS)
def test_a_correction_sees_the_model_before_each_step(make_learner) -> None:
    """w ← w − η (g(w) + h(w)): with constant h, the second step's h is asked at w₀ − η (g(w₀) + h)."""
    task = make_task()
    learner, trainable = make_learner(task.layout), task.layout.trainable
    seen = []

    def record(w):
        seen.append(w.clone())
        return torch.full_like(w, 0.25)

    epochs = [list(torch.arange(24).split(12))]
    learner.train(task.vector, task.images, task.labels, epochs, 0.1, record)
    uncorrected, _ = learner.train(task.vector, task.images, task.labels, [epochs[0][:1]], 0.1)
    assert torch.equal(seen[0], task.vector[trainable])
    torch.testing.assert_close(seen[1], uncorrected[trainable] - 0.1 * 0.25, **EXACTLY)
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("name", "shape"), [("compact", (28, 28, 1)), ("compact", (16, 16, 3)), ("fedbn-digits", (8, 8, 3))]
)
def test_in_single_precision_a_step_is_near_that_in_double(name, shape) -> None:
    """The samples have no near-tie in a pool: where one falls the other way, a kernel is off by 1e-3."""
    double = make_task(ARCHITECTURES[name], shape, sample_count=16, seed=1)
    exact, exact_loss = PlainLearner(double.layout).train(
        double.vector, double.images, double.labels, one_batch(16), 0.05
    )
    for make_learner in LEARNERS:
        moved, loss = make_learner(double.layout).train(
            double.vector.float(), double.images.float(), double.labels, one_batch(16), 0.05
        )
        torch.testing.assert_close(moved.double(), exact, rtol=1e-4, atol=1e-4)
        assert loss == pytest.approx(exact_loss, abs=1e-5)


@pytest.mark.parametrize("class_count", [2, 10, 26])
def test_an_untrained_head_of_zeros_loses_the_logarithm_of_the_class_count(class_count) -> None:
    task = make_task(class_count=class_count)
    vector = task.vector.clone()
    task.layout.head.of(vector).zero_()
    task.layout.head_bias.of(vector).zero_()
    for make_learner in LEARNERS:
        _, loss = make_learner(task.layout).train(vector, task.images, task.labels, one_batch(24), 0.1)
        assert loss == pytest.approx(math.log(class_count), abs=1e-12)


def test_a_correction_may_return_what_it_was_given():
    task, epochs = make_task(), [list(torch.split(torch.arange(24), 8))]
    fast, plain = (
        make(task.layout).train(task.vector, task.images, task.labels, epochs, 0.1, lambda w: w)[0]
        for make in (FastLearner, PlainLearner)
    )
    torch.testing.assert_close(fast, plain, rtol=0, atol=1e-10)


@pytest.mark.parametrize("channel_count", [1, 3])
@pytest.mark.parametrize("pools", [(True, True, False), (False, True, True)])
def test_both_learners_have_the_same_gradient_of_the_score(pools, channel_count):
    """More samples than are scored together, so that parts of the gradient are added up."""
    architecture = Architecture(channels=(3, 4, 5), kernel_sizes=(5, 3, 3), pools=pools, hidden=(8, 7))
    task = make_task(architecture, (9, 11, channel_count), sample_count=150)
    before = task.vector.clone()
    fast = FastLearner(task.layout).gradient(task.vector, task.images, task.labels)
    plain = PlainLearner(task.layout).gradient(task.vector, task.images, task.labels)
    assert fast.abs().max() > 1e-3
    torch.testing.assert_close(fast, plain, **EXACTLY)
    assert torch.equal(task.vector, before)
    assert not task.vector.requires_grad


def test_the_gradient_is_that_of_the_mean_score_by_differences():
    """Every entry of the vector, statistics of batch normalisation included."""
    task = make_task()
    learner = FastLearner(task.layout)
    found = learner.gradient(task.vector, task.images, task.labels)

    def mean_score(vector):
        return float(learner.score(vector, task.images, task.labels, "probability").mean())

    step = 1e-6
    for entry in range(0, task.layout.size, 3):
        direction = torch.zeros_like(task.vector)
        direction[entry] = step
        slope = (mean_score(task.vector + direction) - mean_score(task.vector - direction)) / (2 * step)
        assert float(found[entry]) == pytest.approx(slope, abs=1e-8)
    assert (found[task.layout.statistics] != 0).double().mean() > 0.5  # the rest belong to units that are never active
