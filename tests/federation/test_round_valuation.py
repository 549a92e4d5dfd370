"""A round valued on made-up scores: against brute force, closed forms, and repeated samples from a known population."""

from __future__ import annotations

import math
from itertools import chain, combinations, permutations

import numpy as np
import pytest

from commonweal.federation import round_valuation
from commonweal.federation.round_valuation import value_round
from commonweal.records import Rules
from commonweal.scenario.spec import ClientSpec, MechanismSpec, Scenario
from commonweal.seeds import stream
from commonweal.task.measured import Measured
from commonweal.valuation import estimate_shapley
from commonweal.valuation.bootstrap import DRAW_COUNT, mean_draws, resampling_weights

CLIENTS = ("ann", "bob", "cyd", "dan")
COUNTS = {"ann": 30, "bob": 12, "cyd": 55, "dan": 20}  # of validation samples
NEW = {"ann": 7, "bob": 0, "cyd": 100, "dan": 41}  # samples of the round
SAMPLED = ["adaptive", "leverage", "tmc", "gtg"]


def scenario(measure, clients=CLIENTS, *, seed=1, evaluation_limit=None):
    return Scenario(
        name="made-up",
        description="",
        round_count=1,
        seed=seed,
        clients=tuple(ClientSpec(name=name, source="mnist-5k", samples_per_round=10) for name in clients),
        mechanism=MechanismSpec(rules=Rules(mu=0.1), measure=measure, evaluation_limit=evaluation_limit),
    )


def coalitions_of(clients):
    subsets = chain.from_iterable(combinations(clients, size) for size in range(len(clients) + 1))
    return [frozenset(subset) for subset in subsets]


def measured(client, scores, seed):
    """As a client measures: the mean of its scores, in each bootstrap draw too."""
    weights = resampling_weights(seed, client, len(scores))
    return Measured(value=float(scores.mean()), draws=mean_draws(scores.astype(float), weights))


class Population:
    """Each validation sample has a difficulty; the model of S is right on those with less than its strength."""

    def __init__(self, clients, counts, strengths, random):
        self.clients = clients
        self.difficulties = {client: random.random(counts[client]) for client in clients}
        self.strengths = strengths
        self.seed = 1  # of the federation whose clients measure
        self.calls = []

    def __call__(self, coalitions):
        self.calls.append(list(coalitions))
        return {
            s: {c: measured(c, self.difficulties[c] < self.strengths[s], self.seed) for c in self.clients}
            for s in coalitions
        }

    @property
    def asked(self):
        return [coalition for call in self.calls for coalition in call]

    def value(self, coalition):
        """v(S), straight from its definition."""
        means = [np.mean(self.difficulties[client] < self.strengths[coalition]) for client in self.clients]
        return sum(means) / len(means)


def make_population(clients=CLIENTS, counts=COUNTS, seed=0):
    """Strengths to which clients do not add evenly, and which need not be greater for a larger coalition."""
    random = np.random.default_rng(seed)
    strengths = {s: 0.1 + 0.7 * len(s) / len(clients) + 0.15 * random.random() for s in coalitions_of(clients)}
    return Population(clients, counts, strengths, random)


def shapley_over_orders(clients, value):
    """The mean gain when the client joins, over all orders."""
    orders = list(permutations(clients))
    return {
        client: sum(
            value(frozenset(order[: order.index(client) + 1])) - value(frozenset(order[: order.index(client)]))
            for order in orders
        )
        / len(orders)
        for client in clients
    }


def valued(measure, population, *, clients=CLIENTS, seed=1, evaluation_limit=None):
    if isinstance(population, Population):
        population.seed = seed
    return value_round(
        clients,
        scenario(measure, clients, seed=seed, evaluation_limit=evaluation_limit),
        round_number=1,
        measures=population,
        sample_counts=NEW,
    )


# Contributions


def test_quantity_is_the_new_samples_and_exact() -> None:
    result = valued("quantity", make_population())
    assert result.contributions == NEW
    assert set(result.contribution_errors.values()) == {0.0}
    for client, draws in result.contribution_draws.items():
        assert draws.tolist() == [NEW[client]] * DRAW_COUNT


def test_marginal_is_what_is_lost_without_the_client() -> None:
    population = make_population()
    result = valued("marginal", population)
    everyone = frozenset(CLIENTS)
    expected = {client: population.value(everyone) - population.value(everyone - {client}) for client in CLIENTS}
    assert result.contributions == pytest.approx(expected, abs=1e-12)


def test_shapley_is_the_mean_gain_at_joining_and_sums_to_the_gain_of_all() -> None:
    population = make_population()
    result = valued("shapley", population)
    assert result.contributions == pytest.approx(shapley_over_orders(CLIENTS, population.value), abs=1e-12)
    gain = population.value(frozenset(CLIENTS)) - population.value(frozenset())
    assert sum(result.contributions.values()) == pytest.approx(gain, abs=1e-12)


@pytest.mark.parametrize("measure", SAMPLED)
def test_sampled_measures_with_enough_evaluations_are_exact_in_value_and_error(measure) -> None:
    population = make_population()
    result = valued(measure, population, evaluation_limit=16)
    exact = valued("shapley", make_population())
    assert result.contributions == pytest.approx(exact.contributions, abs=1e-10)
    assert result.contribution_errors == pytest.approx(exact.contribution_errors, abs=1e-10)


@pytest.mark.parametrize("measure", SAMPLED)
def test_sampled_measures_share_the_gain_and_their_draws_lie_around_the_estimate(measure) -> None:
    clients = tuple(f"c{number}" for number in range(7))
    population = make_population(clients, dict.fromkeys(clients, 25))
    result = value_round(
        clients,
        scenario(measure, clients, evaluation_limit=40),
        round_number=1,
        measures=population,
        sample_counts=dict.fromkeys(clients, 1),
    )
    gain = population.value(frozenset(clients)) - population.value(frozenset())
    assert sum(result.contributions.values()) == pytest.approx(gain, abs=1e-9)
    assert len(population.asked) <= 40
    estimated = estimate_shapley(
        clients,
        population.value,
        evaluation_limit=40,
        seed=stream(scenario(measure, clients, evaluation_limit=40).seed, "shapley", 1),
        method=measure,
    )
    assert result.contributions == pytest.approx(estimated.values, abs=1e-9)
    for client in clients:
        draws = result.contribution_draws[client]
        assert draws.mean() == pytest.approx(result.contributions[client], abs=1e-12)
        assert result.contribution_errors[client] == pytest.approx(draws.std(ddof=1))
        # The squares of independent errors add up; a standard deviation from 400 draws is accurate to about 4 %.
        assert result.contribution_errors[client] > 0.85 * estimated.standard_errors[client] > 0


@pytest.mark.parametrize("measure", ["marginal", "shapley"])
def test_draws_of_contributions_lie_around_the_contribution(measure) -> None:
    """Their mean is off only by a Monte Carlo error; the bias of ratios of sums is of a smaller order."""
    result = valued(measure, make_population())
    for client in CLIENTS:
        error = result.contribution_errors[client]
        assert error == pytest.approx(result.contribution_draws[client].std(ddof=1))
        assert abs(result.contribution_draws[client].mean() - result.contributions[client]) < 0.25 * error


@pytest.mark.parametrize("measure", ["marginal", "shapley"])
def test_a_client_that_changes_no_score_contributes_nothing_with_certainty(measure) -> None:
    """Each coalition is compared with itself plus the client on the same samples, so nothing is left to chance."""
    population = make_population()
    strengths = {s: population.strengths[s - {"bob"}] for s in population.strengths}
    idle = Population(CLIENTS, COUNTS, strengths, np.random.default_rng(2))
    result = valued(measure, idle)
    assert result.contributions["bob"] == pytest.approx(0.0, abs=1e-12)
    assert result.contribution_errors["bob"] == pytest.approx(0.0, abs=1e-10)
    assert min(result.contribution_errors[client] for client in ("ann", "cyd", "dan")) > 1e-3


# Which coalitions are asked for, and what is reported about them


@pytest.mark.parametrize(
    ("measure", "wanted"),
    [
        ("quantity", [frozenset(), frozenset(CLIENTS)]),
        ("marginal", [frozenset(), frozenset(CLIENTS), *(frozenset(CLIENTS) - {client} for client in CLIENTS)]),
        ("shapley", coalitions_of(CLIENTS)),
    ],
)
def test_all_coalitions_that_a_measure_needs_are_asked_for_once_and_in_one_go(measure, wanted) -> None:
    population = make_population()
    valued(measure, population)
    assert len(population.calls) == 1
    assert len(population.asked) == len(set(population.asked)) == len(wanted)
    assert set(population.asked) == set(wanted)


@pytest.mark.parametrize("measure", SAMPLED)
@pytest.mark.parametrize("evaluation_limit", [9, 13, 16])
def test_sampled_measures_ask_for_no_coalition_twice_and_keep_their_limit(measure, evaluation_limit) -> None:
    population = make_population()
    result = valued(measure, population, evaluation_limit=evaluation_limit)
    assert len(population.asked) == len(set(population.asked)) <= evaluation_limit
    assert {frozenset(), frozenset(CLIENTS)} < set(population.asked)
    assert len(result.coalition_values) == len(population.asked)


def test_the_value_of_a_coalition_is_the_mean_over_clients_of_their_means() -> None:
    """Not the mean over samples: a client with many validation samples has no more say."""
    population = make_population()
    result = valued("shapley", population)
    assert len(result.coalition_values) == 16
    for members, estimate in result.coalition_values:
        assert members == tuple(client for client in CLIENTS if client in members)
        assert estimate.value == pytest.approx(population.value(frozenset(members)), abs=1e-14)
    everyone = frozenset(CLIENTS)
    pooled = np.concatenate([population.difficulties[client] < population.strengths[everyone] for client in CLIENTS])
    assert abs(pooled.mean() - population.value(everyone)) > 0.005  # so the two can be told apart


def test_errors_of_accuracies_and_of_coalitions_are_binomial() -> None:
    """√(p (1 − p) / n) for a client, and √(Σ of its squares) / N for the mean over N clients; Monte Carlo error 4 %."""
    counts = {"ann": 120, "bob": 90, "cyd": 250, "dan": 160}
    population = make_population(counts=counts, seed=5)
    result = valued("marginal", population)
    everyone = frozenset(CLIENTS)

    def binomial(client, coalition):
        share = np.mean(population.difficulties[client] < population.strengths[coalition])
        return share, math.sqrt(share * (1 - share) / counts[client])

    for client, one in result.measures.items():
        accuracy = round_valuation.estimate(one)
        share, error = binomial(client, everyone)
        assert accuracy.value == pytest.approx(share, abs=1e-14)
        assert accuracy.standard_error == pytest.approx(error, rel=0.18)
    for members, estimate in result.coalition_values:
        errors = [binomial(client, frozenset(members))[1] for client in CLIENTS]
        assert estimate.standard_error == pytest.approx(math.hypot(*errors) / 4, rel=0.18)


# Calibration


@pytest.mark.parametrize("measure", ["marginal", "shapley"])
def test_standard_errors_are_as_large_as_the_errors_are(measure) -> None:
    """In 200 samples from one population, errors divided by their stated standard errors have a deviation of 1.

    The deviation of 600 such ratios is accurate to about 5 % (clients of a round are not independent).
    """
    clients = ("ann", "bob", "cyd")
    strengths = {s: 0.2 + 0.15 * len(s) + 0.1 * ("ann" in s) - 0.05 * ("bob" in s) for s in coalitions_of(clients)}
    everyone = frozenset(clients)
    truth = {
        "marginal": {client: strengths[everyone] - strengths[everyone - {client}] for client in clients},
        "shapley": shapley_over_orders(clients, lambda s: strengths[s]),
    }[measure]
    ratios = []
    for seed in range(200):
        population = Population(clients, dict.fromkeys(clients, 40), strengths, np.random.default_rng(seed))
        result = valued(measure, population, clients=clients, seed=seed)
        ratios.append([(result.contributions[c] - truth[c]) / result.contribution_errors[c] for c in clients])
    assert np.std(ratios) == pytest.approx(1.0, abs=0.15)
    assert abs(np.mean(ratios)) < 0.3
    assert np.mean(np.abs(ratios) < 1.96) == pytest.approx(0.95, abs=0.03)


# Seeds, and which clients count


def test_another_seed_changes_only_errors() -> None:
    first, second = (valued("shapley", make_population(), seed=seed) for seed in (1, 2))
    assert first.contributions == second.contributions
    assert first.contribution_errors != second.contribution_errors
    assert first.contribution_errors == pytest.approx(second.contribution_errors, rel=0.3)


def test_only_the_clients_present_count() -> None:
    """The client set may know the scores of other clients, but v is a mean over those present."""
    present = ("ann", "cyd")
    population = make_population(present)
    everybody = make_population()
    everybody.difficulties |= population.difficulties
    everybody.strengths |= population.strengths
    alone = valued("shapley", population, clients=present)
    among_all = valued("shapley", everybody, clients=present)
    assert among_all.contributions == alone.contributions
    assert among_all.contribution_errors == alone.contribution_errors
    assert set(among_all.measures) == set(present)


def test_scores_may_be_any_numbers() -> None:
    """Log-losses as well as hits: the valuation of a·score + b is a times that of the scores."""
    population = make_population()
    plain = valued("shapley", population)

    def changed(coalitions):
        return {
            s: {c: Measured(value=-3 * one.value + 10, draws=-3 * one.draws + 10) for c, one in by.items()}
            for s, by in population(coalitions).items()
        }

    result = valued("shapley", changed)
    for client in CLIENTS:
        assert result.contributions[client] == pytest.approx(-3 * plain.contributions[client], abs=1e-10)
        assert result.contribution_errors[client] == pytest.approx(3 * plain.contribution_errors[client], abs=1e-10)
