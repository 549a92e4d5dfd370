"""Sources are divided completely, fairly, and the same way every time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.data.pools import make_pools
from commonweal.errors import ScenarioError
from tests.data.small import client, digits, samples

RATES = st.lists(st.floats(0.5, 50), min_size=1, max_size=6)
SKEWS = st.none() | st.floats(0.01, 100)


def toy_clients(rates):
    return [client(f"c{number}", source="toy", rate=rate) for number, rate in enumerate(rates)]


@given(rates=RATES, seed=st.integers(0, 2**40), skew=SKEWS, spread=st.integers(1, 10))
def test_pools_are_disjoint_complete_and_in_proportion(rates, seed, skew, spread):
    source = samples(digits(700) % spread)
    pools = make_pools(toy_clients(rates), {"toy": source}, seed, skew)
    assert sorted(np.concatenate(list(pools.values())).tolist()) == list(range(700))
    for number, rate in enumerate(rates):
        assert abs(len(pools[f"c{number}"]) - 700 * rate / sum(rates)) < 1 + 1e-9


@pytest.mark.parametrize("skew", [None, 0.5])
def test_equal_clients_get_equal_pools(skew):
    pools = make_pools(toy_clients([0.1] * 7), {"toy": samples(digits(700))}, 3, skew)
    assert {len(pool) for pool in pools.values()} == {100}


@pytest.mark.parametrize("skew", [None, 0.5])
def test_the_order_in_which_clients_are_listed_changes_nothing(skew):
    clients, source = toy_clients([5, 10, 20]), samples(digits(700))
    forward = make_pools(clients, {"toy": source}, 3, skew)
    backward = make_pools(clients[::-1], {"toy": source}, 3, skew)
    assert list(backward) == ["c2", "c1", "c0"]
    for name, pool in forward.items():
        assert np.array_equal(pool, backward[name])


@pytest.mark.parametrize("skew", [None, 0.5])
def test_clients_of_other_sources_change_nothing(skew):
    source, other = samples(digits(700)), samples(digits(300), "other")
    alone = make_pools(toy_clients([5, 10]), {"toy": source}, 3, skew)
    beside = make_pools(
        [client("guest", source="other", rate=7), *toy_clients([5, 10])], {"other": other, "toy": source}, 3, skew
    )
    for name, pool in alone.items():
        assert np.array_equal(pool, beside[name])


def test_seeds_and_sources_are_mixed_differently():
    twins = {name: samples(digits(700), name) for name in ("toy", "twin")}
    clients = [client(source + place, source=source, rate=9) for source in twins for place in "12"]
    first, second = (make_pools(clients, twins, seed, None) for seed in (1, 2))
    assert set(first["toy1"]) != set(second["toy1"])
    assert set(first["toy1"]) != set(first["twin1"])  # same size, same place: only the source's name differs


def test_sorted_sources_arrive_mixed():
    """Rows sorted by label: each tenth of the order still holds all classes, as a shuffle would."""
    pool = make_pools(toy_clients([9]), {"toy": samples(np.sort(digits(1000)))}, 1, None)["c0"]
    labels = np.sort(digits(1000))[pool]
    assert all(len(set(part)) > 7 for part in labels.reshape(10, 100))


def test_a_pool_smaller_than_a_round_is_refused():
    with pytest.raises(ScenarioError) as refusal:
        make_pools(toy_clients([60, 50]), {"toy": samples(digits(100))}, 1, None)
    for part in ("client 'c0'", "is 54 samples", "samples_per_round of 60", "Lower samples_per_round"):
        assert part in str(refusal.value)
    make_pools(toy_clients([50, 50]), {"toy": samples(digits(100))}, 1, None)  # just enough


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_impossible_rates_are_refused(rate):
    with pytest.raises(ScenarioError, match=r"samples_per_round must be a finite number above 0, got .* client 'c0'"):
        make_pools(toy_clients([rate]), {"toy": samples(digits(100))}, 1, None)


@pytest.mark.parametrize("skew", [0, -1, float("nan"), float("inf")])
def test_impossible_skews_are_refused(skew):
    with pytest.raises(ScenarioError, match="label_skew must be a finite number above 0"):
        make_pools(toy_clients([9]), {"toy": samples(digits(100))}, 1, skew)


@pytest.mark.parametrize(("class_count", "concentration"), [(10, 0.3), (10, 3.0), (26, 0.3), (3, 3.0)])
def test_early_labels_follow_the_dirichlet_multinomial_law(class_count, concentration):
    """Of the first m labels, those of one of C classes have mean m/C and variance m·(C−1)/C²·(m+Cα)/(1+Cα)."""
    taken = 30  # a class cannot run out among the first 30 of one client
    source = samples(np.arange(class_count * taken) % class_count, class_count=class_count)
    counts = []
    for seed in range(400):
        pool = make_pools(toy_clients([9]), {"toy": source}, seed, concentration)["c0"]
        counts.append(np.bincount(source.labels[pool[:taken]], minlength=class_count))
    total = class_count * concentration
    expected = taken * (class_count - 1) / class_count**2 * (taken + total) / (1 + total)
    assert np.mean(counts) == pytest.approx(taken / class_count)
    assert np.var(counts) == pytest.approx(expected, rel=0.12)
    assert np.abs(np.mean(counts, axis=0) - taken / class_count).max() < 5 * np.sqrt(expected / 400)


def test_extreme_skew_gives_each_client_a_class_of_its_own_until_it_runs_out():
    source = samples(digits(1000))
    pools = make_pools(toy_clients([9] * 3), {"toy": source}, 5, 1e-4)
    for pool in pools.values():
        assert len(set(source.labels[pool[:30]])) == 1
        assert len(set(source.labels[pool])) > 1  # 333 samples, of which no class has more than 100


def test_very_weak_skew_gives_all_classes_equally():
    source = samples(digits(10_000))
    pools = make_pools(toy_clients([9, 9]), {"toy": source}, 5, 1e6)
    for pool in pools.values():
        counts = np.bincount(source.labels[pool[:3000]], minlength=10)
        assert (abs(counts - 300) < 5 * np.sqrt(270)).all()


def test_clients_differ_in_their_skew():
    source = samples(digits(10_000))
    pools = make_pools(toy_clients([9] * 4), {"toy": source}, 5, 0.5)
    mixes = [np.bincount(source.labels[pool[:200]], minlength=10) / 200 for pool in pools.values()]
    assert min(abs(a - b).sum() for a in mixes for b in mixes if a is not b) > 0.3
