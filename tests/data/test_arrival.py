"""How samples arrive: counts, order, validation, wrong labels and copies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from commonweal.data.arrival import Arrivals, copied_share, copies, wrong_labels
from commonweal.scenario.spec import Duplicates, LabelFlip, LabelNoise, Untrained
from tests.data.small import digits

POOL = np.random.default_rng(7).permutation(5000)
HOSPITAL = Arrivals(client="hospital", pool=POOL, samples_per_round=40, validation_share=0.3, seed=11)


def joined(arrival):
    return np.concatenate([arrival.training, arrival.validation])


def test_counts_are_poisson():
    counts = np.array([HOSPITAL.declared_count(number) for number in range(1, 4001)])
    assert abs(counts.mean() - 40) < 5 * np.sqrt(40 / 4000)
    assert counts.var() == pytest.approx(40, rel=0.15)
    edges = stats.poisson.ppf(np.arange(1, 10) / 10, 40)
    expected = 4000 * np.diff(stats.poisson.cdf([-1, *edges, 10_000], 40))
    observed = np.bincount(np.searchsorted(edges, counts), minlength=10)
    assert stats.chisquare(observed, expected).pvalue > 1e-4


def test_rounds_take_the_pool_in_its_order_without_replacement():
    start = 0
    for number in range(1, 30):
        arrival = HOSPITAL.in_round(number)
        assert arrival.drawn_count == arrival.wanted_count == HOSPITAL.declared_count(number)
        assert sorted(joined(arrival)) == sorted(POOL[start : start + arrival.drawn_count])
        start += arrival.drawn_count
    assert start > 1000


def test_rounds_can_be_computed_in_any_order():
    late = HOSPITAL.in_round(20)
    for number in range(1, 20):
        HOSPITAL.in_round(number)
    assert np.array_equal(joined(late), joined(HOSPITAL.in_round(20)))
    assert np.array_equal(joined(late), joined(replace(HOSPITAL).in_round(20)))


@pytest.mark.parametrize("share", [0.3, 0.25, 0.5])
def test_the_validation_share_is_right_on_average_for_every_count(share):
    excess, count = [], 0
    for seed in range(3000):
        arrival = replace(HOSPITAL, samples_per_round=5, validation_share=share, seed=seed).in_round(1)
        exact = share * arrival.drawn_count
        assert abs(len(arrival.validation) - exact) < 1
        excess.append(len(arrival.validation) - exact)
        count += arrival.drawn_count
    assert abs(np.mean(excess)) < 5 * 0.5 / np.sqrt(3000)
    assert count > 14_000


def test_all_samples_of_a_round_are_equally_likely_to_be_for_validation():
    hits = np.zeros(10)
    chances = 0
    for seed in range(2000):
        arrival = replace(HOSPITAL, pool=np.arange(10), samples_per_round=60, seed=seed).in_round(1)
        assert arrival.drawn_count == 10
        hits[arrival.validation] += 1
        chances += 1
    assert abs(hits / chances - 0.3).max() < 5 * np.sqrt(0.21 / chances)


def test_client_seed_and_round_each_change_the_draws():
    base = [HOSPITAL.declared_count(number) for number in range(1, 30)]
    assert base != [replace(HOSPITAL, client="clinic").declared_count(number) for number in range(1, 30)]
    assert base != [replace(HOSPITAL, seed=12).declared_count(number) for number in range(1, 30)]
    assert len(set(base)) > 5


def test_counts_do_not_depend_on_the_pool():
    assert HOSPITAL.in_round(3).wanted_count == replace(HOSPITAL, pool=POOL[:50]).in_round(3).wanted_count


def test_an_exhausted_pool_gives_what_remains_then_nothing():
    small = replace(HOSPITAL, pool=POOL[:100])
    rounds = [small.in_round(number) for number in range(1, 8)]
    assert sum(arrival.drawn_count for arrival in rounds) == 100
    assert [arrival.is_dry for arrival in rounds] == [False, False, True, True, True, True, True]
    assert rounds[-1].drawn_count == 0
    assert len(rounds[-1].training) == len(rounds[-1].validation) == 0


def test_copied_samples_are_not_taken_from_the_pool():
    copier = replace(HOSPITAL, copied_share=0.25)
    for number in range(1, 10):
        declared = copier.declared_count(number)
        assert declared == HOSPITAL.declared_count(number)
        assert abs(copier.in_round(number).drawn_count - 0.75 * declared) <= 0.5


def test_rounds_start_at_one():
    with pytest.raises(ValueError, match="round_number must be at least 1, got 0"):
        HOSPITAL.in_round(0)


TRUE = digits(20_000)
COPIER = Arrivals(
    client="copier", pool=np.arange(2000)[::-1], samples_per_round=50, validation_share=0.3, seed=5, copied_share=0.4
)


def noised(probability, *, true=TRUE, class_count=10, training_only=False, seed=3, client="a", round_number=1):
    noise = LabelNoise(probability=probability, training_only=training_only)
    key = {"seed": seed, "client": client, "round_number": round_number}
    return wrong_labels(true, true[:5000], noise, class_count=class_count, **key)


@pytest.mark.parametrize("class_count", [2, 3, 10, 26])
def test_label_noise_has_its_probability_and_is_uniform_over_the_other_classes(class_count):
    drawn = np.arange(20_000) % class_count
    for labels in noised(0.3, true=drawn, class_count=class_count):
        true = drawn[: len(labels)]
        is_wrong = labels != true
        assert abs(is_wrong.mean() - 0.3) < 5 * np.sqrt(0.21 / len(labels))
        for label in range(class_count):
            wrong = np.bincount(labels[is_wrong & (true == label)], minlength=class_count)
            assert len(wrong) == class_count
            assert wrong[label] == 0
            assert class_count == 2 or stats.chisquare(np.delete(wrong, label)).pvalue > 1e-5


def test_noise_of_probability_1_changes_all_labels_and_of_0_none():
    assert (noised(1.0)[0] != TRUE).all()
    assert (noised(0.0)[0] == TRUE).all()


def test_training_only_noise_changes_the_same_training_labels_and_no_others():
    both, training_only = noised(0.3), noised(0.3, training_only=True)
    assert np.array_equal(both[0], training_only[0])
    assert np.array_equal(training_only[1], TRUE[:5000])


@pytest.mark.parametrize("other", [{"seed": 4}, {"client": "b"}, {"round_number": 2}])
def test_noise_is_keyed(other):
    assert np.array_equal(noised(0.3)[0], noised(0.3)[0])
    assert not np.array_equal(noised(0.3)[0], noised(0.3, **other)[0])


def test_noise_does_not_write_into_its_argument():
    before = TRUE.copy()
    noised(1.0)
    assert np.array_equal(TRUE, before)


def flipped(true=TRUE, *, class_count=10, seed=3, client="a", round_number=1, **defect):
    key = {"seed": seed, "client": client, "round_number": round_number}
    return wrong_labels(true, true[:5000], LabelFlip(**defect), class_count=class_count, **key)


@pytest.mark.parametrize("class_count", [2, 3, 10, 26])
def test_flipping_counts_the_classes_from_the_other_end(class_count):
    """The permutation of classes that reverses their order, looked up in a table."""
    true = np.random.default_rng(1).integers(0, class_count, 6000)
    reversed_classes = list(range(class_count))[::-1]
    expected = [reversed_classes[label] for label in true]
    for labels in flipped(true, class_count=class_count):
        assert labels.tolist() == expected[: len(labels)]


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.5, 1.0])
def test_the_stated_fraction_of_labels_is_flipped_in_every_round(fraction):
    """Every label of ten classes changes when it is flipped."""
    for count in (1, 7, 30):
        for labels in flipped(TRUE[:count], fraction=fraction):
            changed = labels != TRUE[: len(labels)]
            assert changed.sum() == round(fraction * len(labels))
            assert (labels[changed] == 9 - TRUE[: len(labels)][changed]).all()


def test_training_only_flips_the_same_training_labels_and_no_others():
    both, training_only = flipped(fraction=0.3), flipped(fraction=0.3, training_only=True)
    assert np.array_equal(both[0], training_only[0])
    assert np.array_equal(training_only[1], TRUE[:5000])
    assert not np.array_equal(both[1], TRUE[:5000])


@pytest.mark.parametrize("other", [{"seed": 4}, {"client": "b"}, {"round_number": 2}])
def test_which_labels_are_flipped_is_keyed(other):
    before = TRUE.copy()
    assert np.array_equal(flipped(fraction=0.3)[0], flipped(fraction=0.3)[0])
    assert not np.array_equal(flipped(fraction=0.3)[0], flipped(fraction=0.3, **other)[0])
    assert np.array_equal(TRUE, before), "nothing is written into the argument"


def test_only_the_defect_duplicates_copies():
    assert copied_share(Duplicates(fraction=0.4)) == 0.4
    assert copied_share(LabelNoise(probability=0.4)) == copied_share(Untrained()) == copied_share(None) == 0


def test_copies_are_the_given_fraction_of_the_declared_samples():
    for number in range(1, 20):
        fresh, copied = COPIER.in_round(number).drawn_count, len(copies(COPIER, number))
        assert fresh + copied == COPIER.declared_count(number)
        assert abs(copied - 0.4 * (fresh + copied)) <= 0.5


def test_copies_are_of_earlier_or_new_training_samples():
    held = set()
    from_earlier = 0
    for number in range(1, 15):
        fresh = set(COPIER.in_round(number).training.tolist())
        copied = set(copies(COPIER, number).tolist())
        assert copied <= held | fresh
        from_earlier += len(copied & held)
        held |= fresh
    assert from_earlier > 100


def test_copies_shrink_with_the_pool():
    dry = replace(COPIER, pool=np.arange(100))
    rounds = [(dry.in_round(number), len(copies(dry, number))) for number in range(1, 10)]
    partly = [pair for pair in rounds if 0 < pair[0].drawn_count < pair[0].wanted_count]
    assert len(partly) == 1
    for arrival, copied in rounds:
        assert abs(copied - arrival.drawn_count * 0.4 / 0.6) <= 1


def test_a_client_that_copies_everything_has_nothing_to_copy():
    assert len(copies(replace(COPIER, copied_share=1.0), 3)) == 0
