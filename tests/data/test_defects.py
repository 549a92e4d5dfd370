"""Wrong labels are wrong in the promised way; copies are copies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from commonweal.data.arrival import Arrivals, copied_share, copies, noisy_labels
from commonweal.scenario.spec import Duplicates, LabelNoise, Untrained
from tests.data.worlds import digits

TRUE = digits(20_000)
COPIER = Arrivals(
    client="copier", pool=np.arange(2000)[::-1], samples_per_round=50, validation_share=0.3, seed=5, copied_share=0.4
)


def noised(probability, *, training_only=False, seed=3, client="a", round_number=1):
    noise = LabelNoise(probability=probability, training_only=training_only)
    return noisy_labels(TRUE, TRUE[:5000], noise, seed=seed, client=client, round_number=round_number)


def test_noise_comes_with_its_probability_and_uniformly_over_the_other_nine():
    for labels in noised(0.3):
        true = TRUE[: len(labels)]
        is_wrong = labels != true
        assert abs(is_wrong.mean() - 0.3) < 5 * np.sqrt(0.21 / len(labels))
        for digit in range(10):
            wrong = np.bincount(labels[is_wrong & (true == digit)], minlength=10)
            assert wrong[digit] == 0
            assert stats.chisquare(np.delete(wrong, digit)).pvalue > 1e-5


def test_certain_noise_leaves_no_label_and_none_leaves_all():
    assert (noised(1.0)[0] != TRUE).all()
    assert (noised(0.0)[0] == TRUE).all()


def test_the_variant_spares_validation_and_corrupts_the_same_training_labels():
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


def test_only_duplicates_copy():
    assert copied_share(Duplicates(fraction=0.4)) == 0.4
    assert copied_share(LabelNoise(probability=0.4)) == copied_share(Untrained()) == copied_share(None) == 0


def test_copies_are_the_promised_fraction_of_what_is_declared():
    for number in range(1, 20):
        fresh, copied = COPIER.in_round(number).drawn_count, len(copies(COPIER, number))
        assert fresh + copied == COPIER.declared_count(number)
        assert abs(copied - 0.4 * (fresh + copied)) <= 0.5


def test_copies_are_of_training_samples_held_or_just_drawn():
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


def test_who_copies_everything_has_nothing_to_copy():
    assert len(copies(replace(COPIER, copied_share=1.0), 3)) == 0
