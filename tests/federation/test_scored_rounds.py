"""Rounds valued scorer by scorer: guarded scorers, the smooth score, and effects along the round's path."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from commonweal.federation.client_set import ScorerEffects
from commonweal.federation.round_valuation import value_round
from commonweal.records import Rules
from commonweal.scenario.spec import MechanismSpec
from commonweal.task.measured import Measured
from commonweal.valuation.bootstrap import DRAW_COUNT
from commonweal.valuation.scorers import combine, jackknife_errors
from tests.federation.test_round_valuation import (
    coalitions_of,
    make_population,
    scenario,
    shapley_over_orders,
)

CLIENTS = ("ann", "bob", "cyd", "dan", "eve")
COUNTS = {"ann": 30, "bob": 12, "cyd": 55, "dan": 20, "eve": 25}
NEW = dict.fromkeys(CLIENTS, 10)


def valued(measures, *, clients=CLIENTS, measure="marginal", path_effects=None, **mechanism):
    plan = scenario(measure, clients, evaluation_limit=mechanism.pop("evaluation_limit", None))
    plan = replace(plan, mechanism=replace(plan.mechanism, **mechanism))
    return value_round(clients, plan, round_number=1, measures=measures, sample_counts=NEW, path_effects=path_effects)


def effects_by_hand(population, measure):
    """What each client contributed by the samples of one scorer: the measure of a game in which it alone scores."""
    everyone = frozenset(CLIENTS)
    rows = []
    for scorer in CLIENTS:

        def value(coalition, scorer=scorer):
            return float(np.mean(population.difficulties[scorer] < population.strengths[coalition]))

        if measure == "marginal":
            rows.append([value(everyone) - value(everyone - {client}) for client in CLIENTS])
        else:
            rows.append(list(shapley_over_orders(CLIENTS, value).values()))
    return np.array(rows)


@pytest.mark.parametrize("measure", ["marginal", "shapley"])
def test_guarded_contributions_are_the_guarded_mean_of_each_scorers_own(measure):
    population = make_population(CLIENTS, COUNTS)
    result = valued(population, measure=measure, scorers="guarded")
    effects = effects_by_hand(population, measure)
    assert result.effects == pytest.approx(effects, abs=1e-10)
    assert list(result.contributions.values()) == pytest.approx(combine(effects, "guarded").tolist(), abs=1e-10)
    assert not result.events
    plain = valued(make_population(CLIENTS, COUNTS), measure=measure)
    assert list(plain.contributions.values()) == pytest.approx(effects.mean(axis=0).tolist(), abs=1e-10)
    assert plain.effects is None


@pytest.mark.parametrize("measure", ["adaptive", "leverage", "tmc", "gtg"])
def test_guarded_estimates_are_exact_with_all_coalitions_and_as_good_as_others_with_fewer(measure):
    exact = valued(make_population(CLIENTS, COUNTS), measure="shapley", scorers="guarded")
    full = valued(make_population(CLIENTS, COUNTS), measure=measure, scorers="guarded", evaluation_limit=32)
    assert full.contributions == pytest.approx(exact.contributions, abs=1e-9)
    some = valued(make_population(CLIENTS, COUNTS), measure=measure, scorers="guarded", evaluation_limit=20)
    plain = valued(make_population(CLIENTS, COUNTS), measure=measure, evaluation_limit=20)
    plain_exact = valued(make_population(CLIENTS, COUNTS), measure="shapley")
    error = max(abs(plain.contributions[c] - plain_exact.contributions[c]) for c in CLIENTS)
    assert some.contributions == pytest.approx(exact.contributions, abs=error + 0.02)
    assert some.effects.mean(axis=0) == pytest.approx(list(plain.contributions.values()), abs=1e-9)
    for client in CLIENTS:
        assert some.contribution_draws[client].mean() == pytest.approx(some.contributions[client], abs=1e-9)


def test_errors_of_guarded_contributions_are_about_those_of_all():
    guarded = valued(make_population(CLIENTS, COUNTS), scorers="guarded")
    plain = valued(make_population(CLIENTS, COUNTS))
    for client in CLIENTS:
        assert guarded.contribution_draws[client].shape == (DRAW_COUNT,)
        assert 0.5 < guarded.contribution_errors[client] / plain.contribution_errors[client] < 2.0


def test_a_client_that_scores_only_itself_gains_little():
    """It says 1 of every model that it is part of, and 0 of all others. Unguarded it takes nearly everything."""

    def rigged(coalitions):
        honest = make_population(CLIENTS, COUNTS)(coalitions)
        for coalition in coalitions:
            lie = float("ann" in coalition)
            honest[coalition]["ann"] = Measured(value=lie, draws=np.full(DRAW_COUNT, lie))
        return honest

    def share(measures, scorers):
        contributions = np.maximum(list(valued(measures, scorers=scorers).contributions.values()), 0)
        return contributions[0] / contributions.sum()

    honest_share = share(make_population(CLIENTS, COUNTS), "guarded")
    assert share(rigged, "all") > honest_share + 0.2
    assert share(rigged, "guarded") < honest_share + 0.1


@pytest.mark.parametrize("count", [2, 3])
def test_with_three_clients_or_fewer_a_warning_says_that_nothing_is_guarded(count):
    clients = CLIENTS[:count]
    result = valued(make_population(clients, COUNTS), clients=clients, scorers="guarded")
    plain = valued(make_population(clients, COUNTS), clients=clients)
    assert result.contributions == plain.contributions
    (event,) = result.events
    assert (event.kind, event.client) == ("unguarded", None)
    assert f"with {count} of them, fewer than 4" in event.text
    assert not plain.events


def test_clients_without_a_metric_do_not_score_and_are_valued():
    def partly(coalitions):
        found = make_population(CLIENTS, COUNTS)(coalitions)
        nothing = Measured(value=np.nan, draws=np.full(DRAW_COUNT, np.nan))
        return {coalition: {**by_client, "eve": nothing} for coalition, by_client in found.items()}

    result = valued(partly, scorers="guarded")
    assert np.isnan(result.effects[4]).all()
    assert np.isfinite(list(result.contributions.values())).all()
    assert np.isfinite(list(result.contribution_errors.values())).all()
    assert not result.events


def smooth_population():
    """The metric is what it was; the smooth score is another figure, here that of another population."""
    metric, smooth = make_population(CLIENTS, COUNTS), make_population(CLIENTS, COUNTS, seed=9)

    def measures(coalitions):
        scores = smooth(coalitions)
        return {
            s: {c: replace(one, smooth=scores[s][c]) for c, one in by_client.items()}
            for s, by_client in metric(coalitions).items()
        }

    return measures, metric, smooth


@pytest.mark.parametrize("scorers", ["all", "guarded"])
@pytest.mark.parametrize("measure", ["marginal", "shapley"])
def test_the_smooth_score_values_and_the_metric_stays(measure, scorers):
    measures, metric, smooth = smooth_population()
    result = valued(measures, measure=measure, scorers=scorers, contribution_score="smooth")
    expected = valued(smooth, measure=measure, scorers=scorers)
    assert result.contributions == expected.contributions
    assert result.contribution_errors == expected.contribution_errors
    assert result.coalition_values == expected.coalition_values
    everyone = frozenset(CLIENTS)
    assert {c: one.value for c, one in result.measures.items()} == {
        c: one.value for c, one in metric([everyone])[everyone].items()
    }


def path_of(effects, norms=None):
    norms = np.ones(len(effects)) if norms is None else norms
    return lambda: {
        client: ScorerEffects(effects=effects[k], gradient_norm=float(norms[k])) for k, client in enumerate(CLIENTS)
    }


def test_path_contributions_are_means_over_scorers_with_jackknife_errors():
    effects = np.random.default_rng(1).normal(0.02, 0.01, (5, 5))
    result = valued(make_population(CLIENTS, COUNTS), measure="path", path_effects=path_of(effects))
    assert list(result.contributions.values()) == pytest.approx(effects.mean(axis=0).tolist())
    errors = effects.std(axis=0, ddof=1) / np.sqrt(5)
    assert list(result.contribution_errors.values()) == pytest.approx(errors.tolist())
    assert result.effects.tolist() == effects.tolist()
    assert [members for members, _ in result.coalition_values] == [(), CLIENTS], "no coalition is asked for"


def test_guarded_paths_are_clipped_to_the_median_length_of_the_gradients():
    effects = np.random.default_rng(1).normal(0.02, 0.01, (5, 5))
    norms = np.array([0.5, 1.0, 2.0, 3.0, 400.0])
    result = valued(
        make_population(CLIENTS, COUNTS), measure="path", scorers="guarded", path_effects=path_of(effects, norms)
    )
    clipped = effects * np.array([1, 1, 1, 2 / 3, 2 / 400])[:, None]
    assert result.effects == pytest.approx(clipped)
    assert list(result.contributions.values()) == pytest.approx(combine(clipped, "guarded").tolist())
    assert list(result.contribution_errors.values()) == pytest.approx(jackknife_errors(clipped, "guarded").tolist())


def test_draws_of_a_scorer_are_the_same_in_all_rounds():
    """So that the error of a sum over rounds is right: with equal effects, a sum of two is twice as uncertain."""
    effects = np.random.default_rng(1).normal(0.02, 0.01, (5, 5))
    plan = replace(scenario("path", CLIENTS), mechanism=MechanismSpec(rules=Rules(mu=0.1), measure="path"))
    first, second = (
        value_round(
            CLIENTS,
            plan,
            round_number=number,
            measures=make_population(CLIENTS, COUNTS),
            sample_counts=NEW,
            path_effects=path_of(effects),
        )
        for number in (1, 2)
    )
    for client in CLIENTS:
        assert first.contribution_draws[client].tolist() == second.contribution_draws[client].tolist()


def test_all_coalitions_of_a_guarded_measure_are_asked_for_at_once():
    population = make_population(CLIENTS, COUNTS)
    valued(population, measure="shapley", scorers="guarded")
    assert len(population.calls) == 1
    assert set(population.asked) == set(coalitions_of(CLIENTS))
