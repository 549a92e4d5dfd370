"""The test for harm against scipy, against the obvious loop, and against simulated federations with a known truth."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from commonweal.valuation.harm import (
    ERROR,
    FEWEST_SCORERS,
    MARGIN,
    ScoredRound,
    find_harm,
    harm_evidence,
    margin_at_least,
)

CLIENTS = ("a", "b", "c", "d", "e", "f")


def rounds_of(effects, clients=CLIENTS):
    return [ScoredRound(number=t + 1, clients=clients, effects=each) for t, each in enumerate(effects)]


def obvious_sums(client, rounds):
    """S_k of one client, scorer by scorer, as the module's docstring defines it."""
    last = rounds[-1]
    scorers = [k for k in scorers_of(last) if k != client]
    sums, numbers = dict.fromkeys(scorers, 0.0), []
    for each in rounds:
        at = list(each.clients).index
        there = [k for k in scorers if k in scorers_of(each)]
        if client not in each.clients or len(there) < FEWEST_SCORERS:
            continue
        numbers.append(each.number)
        mean = sum(each.effects[at(k), at(client)] for k in there) / len(there)
        for k in scorers:
            sums[k] += mean
            if k in there:
                sums[k] += (each.effects[at(k), at(client)] - mean) * len(scorers) / len(there)
    return sums, tuple(numbers)


def scorers_of(scored):
    return [k for row, k in enumerate(scored.clients) if not np.isnan(scored.effects[row]).any()]


def obvious_evidence(client, rounds):
    """The sums with every scorer weighing the same."""
    all_sums = {each: obvious_sums(each, rounds)[0] for each in rounds[-1].clients}
    sizes = {k: sum(abs(sums[k]) for n, sums in all_sums.items() if n != k) for k in scorers_of(rounds[-1])}
    mean = sum(sizes.values()) / len(rounds[-1].clients)
    numbers = obvious_sums(client, rounds)[1]
    pairs = sum(n != k for n in all_sums for k in sizes)
    sums = {k: effect * mean / sizes[k] if sizes[k] else 0.0 for k, effect in all_sums[client].items()}
    return sums, numbers, -MARGIN * mean * len(sizes) / pairs


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=9), st.integers(1, 10_000), st.floats(-0.5, 0))
def test_a_client_is_harmful_where_the_t_test_of_scipy_rejects(sums, test_count, margin):
    if np.ptp(sums) < 1e-9:
        return
    found = harm_evidence("n", (1, 2), dict(zip("abcdefghi", sums, strict=False)), test_count, margin)
    tested = ttest_1samp(sums, margin, alternative="less")
    level = ERROR / test_count
    if not math.isclose(tested.pvalue, level, rel_tol=1e-6):
        assert found.is_beyond_doubt == (tested.pvalue < level)
    assert found.mean == pytest.approx(np.mean(sums), abs=1e-15)
    assert found.standard_error == pytest.approx(np.std(sums, ddof=1) / math.sqrt(len(sums)))
    assert found.bound == pytest.approx(tested.confidence_interval(1 - level).high, rel=1e-6, abs=1e-9)


@given(st.integers(0, 10**6))
def test_sums_over_rounds_are_those_of_the_obvious_loop(seed):
    """Clients miss rounds, and some cannot score."""
    random = np.random.default_rng(seed)
    rounds = []
    for number in range(1, 6):
        there = [c for c in CLIENTS if random.random() < 0.8 or number == 5]
        effects = random.normal(size=(len(there), len(there)))
        effects[random.random(len(there)) < 0.1] = np.nan
        effects[:, :1] -= 4  # harmful, so that it is reported
        rounds.append(ScoredRound(number=number, clients=tuple(there), effects=effects))
    for found in find_harm(rounds, test_count=1):
        sums, numbers, margin = obvious_evidence(found.client, rounds)
        assert found.round_numbers == numbers
        assert found.margin == pytest.approx(margin)
        assert dict(found.by_scorer) == pytest.approx(sums, abs=1e-12)
        assert found.margin <= margin_at_least([found], len(CLIENTS)) * (1 - 1e-9)
    all_found = find_harm(rounds, test_count=1)
    assert all(found.margin <= margin_at_least(all_found, len(CLIENTS)) * (1 - 1e-9) for found in all_found)
    harmful = {found.client for found in all_found}
    for client in rounds[-1].clients:
        sums, numbers, margin = obvious_evidence(client, rounds)
        if len(sums) >= FEWEST_SCORERS and client not in harmful:
            assert not harm_evidence(client, numbers, sums, 1, margin).is_beyond_doubt


def test_if_nobody_missed_a_round_scorers_count_with_their_sums_and_weigh_the_same():
    effects = np.random.default_rng(1).normal(-1, 0.1, size=(4, 6, 6))
    scaled = effects * np.array([1, 1, 1, 1, 1, 1000.0])[None, :, None]  # one states larger effects than the others
    found = find_harm(rounds_of(effects), test_count=1)
    assert [one.client for one in find_harm(rounds_of(scaled), test_count=1)] == [one.client for one in found]
    for one, other in zip(found, find_harm(rounds_of(scaled), test_count=1), strict=True):
        n = CLIENTS.index(one.client)
        sums = effects.sum(axis=0)
        np.fill_diagonal(sums, 0.0)
        shares = sums[:, n] / np.abs(sums).sum(axis=1)
        expected = {k: shares[row] * np.abs(sums).sum() / 6 for row, k in enumerate(CLIENTS) if row != n}
        assert dict(one.by_scorer) == pytest.approx(expected)
        assert other.mean / other.standard_error == pytest.approx(one.mean / one.standard_error)
        assert (one.round_numbers, one.harmed_count) == ((1, 2, 3, 4), 5)


def test_the_own_score_counts_for_nothing():
    effects = np.full((1, 6, 6), -0.1) + np.random.default_rng(1).normal(0, 0.001, size=(6, 6))
    praised = effects.copy()
    praised[0, 0, 0] = 1e9
    assert find_harm(rounds_of(praised), test_count=90) == find_harm(rounds_of(effects), test_count=90)


@pytest.mark.parametrize("size", [-1e3, -1e9])
def test_one_scorer_alone_cannot_make_a_client_harmful(size):
    """As a lone outlier grows, t tends to −1."""
    effects = np.random.default_rng(1).normal(0.05, 0.01, size=(3, 6, 6))
    effects[:, 4, :] = size
    assert find_harm(rounds_of(effects), test_count=1) == ()


def test_fewer_than_four_clients_are_not_tested():
    effects = np.full((1, 3, 3), -1.0)
    assert find_harm(rounds_of(effects, clients=("a", "b", "c")), test_count=1) == ()
    assert find_harm(rounds_of(np.full((1, 4, 4), -1.0), clients=("a", "b", "c", "d")), test_count=1)


def test_what_does_not_matter_is_not_harmful():
    """A small client whose updates are bad beyond doubt, but move nobody's score by much."""
    effects = np.random.default_rng(1).normal(1.0, 0.01, size=(1, 6, 6))
    for size, expected in ((0.05, []), (1.0, ["c"])):
        effects[:, :, 2] = -size + np.random.default_rng(2).normal(0, 0.001, size=(1, 6))
        assert [one.client for one in find_harm(rounds_of(effects), test_count=90)] == expected


def test_a_client_without_any_effect_is_not_harmful():
    assert find_harm(rounds_of(np.zeros((2, 6, 6))), test_count=1) == ()


@pytest.mark.soak
def test_the_chance_of_a_wrong_finding_is_bounded_over_all_rounds_and_clients():
    """The worst honest case: nobody's effect is above zero, and errors of a scorer persist over rounds."""
    random = np.random.default_rng(7)
    run_count, round_count = 2000, 8
    wrong = 0
    for _ in range(run_count):
        lasting = random.normal(size=(6, 6))
        effects = [lasting + random.normal(size=(6, 6)) for _ in range(round_count)]
        rounds = rounds_of(effects)
        wrong += any(find_harm(rounds[:t], test_count=round_count * 6) for t in range(1, round_count + 1))
    assert wrong / run_count <= ERROR


def test_harm_that_lasts_is_found_although_each_round_is_noisy():
    random = np.random.default_rng(3)
    effects = random.normal(0.02, 0.06, size=(12, 8, 8))
    effects[:, :, 2] -= 0.08
    rounds = rounds_of(effects, clients=tuple("abcdefgh"))
    found = find_harm(rounds, test_count=96)
    assert [one.client for one in found] == ["c"]
    assert find_harm(rounds[:1], test_count=96) == ()
