"""Arrivals follow their law and depend on nothing but seed, client and round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from commonweal.data.arrival import Arrivals

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


def test_any_round_can_be_asked_first():
    late = HOSPITAL.in_round(20)
    for number in range(1, 20):
        HOSPITAL.in_round(number)
    assert np.array_equal(joined(late), joined(HOSPITAL.in_round(20)))
    assert np.array_equal(joined(late), joined(replace(HOSPITAL).in_round(20)))


@pytest.mark.parametrize("share", [0.3, 0.25, 0.5])
def test_the_validation_share_is_kept_on_average_for_every_count(share):
    excess, count = [], 0
    for seed in range(3000):
        arrival = replace(HOSPITAL, samples_per_round=5, validation_share=share, seed=seed).in_round(1)
        exact = share * arrival.drawn_count
        assert abs(len(arrival.validation) - exact) < 1
        excess.append(len(arrival.validation) - exact)
        count += arrival.drawn_count
    assert abs(np.mean(excess)) < 5 * 0.5 / np.sqrt(3000)
    assert count > 14_000


def test_every_place_in_a_round_is_as_likely_to_be_validated():
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


def test_a_dry_pool_gives_what_it_has_then_nothing():
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


def test_rounds_count_from_one():
    with pytest.raises(ValueError, match="round_number must be at least 1, got 0"):
        HOSPITAL.in_round(0)
