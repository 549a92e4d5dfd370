"""Means over replications along the whole axis, compared with a direct computation at many μ."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.paper.experiments import MUS
from commonweal.records.study import Interval, MuStep
from commonweal.study.outcomes import Outcomes, gather
from commonweal.study.replication import ReplicationTask, replicate
from commonweal.study.result_set import read_results
from commonweal.study.summary import _only, axis_steps, experiment_study, recommend, recommendations, shown_mus
from tests.study.small_federation import small_federation


@pytest.fixture(scope="module")
def outcomes(small_results: Path):
    return gather(*read_results(small_results))["label-noise", "clip"]


def test_steps_are_the_means_at_every_mu(outcomes):
    steps = axis_steps(outcomes)
    assert len(steps) > 3
    rng = np.random.default_rng(1)
    bounds = [bound for step in steps for bound in step.mus]
    beside = [math.nextafter(b, to) for b in bounds if math.isfinite(b) for to in (0.0, math.inf)]
    for mu in [*rng.exponential(0.1, 50).tolist(), *bounds, *beside, 0.0, math.inf]:
        (step,) = [step for step in steps if mu in step.mus]
        here = outcomes.at(mu)
        assert step.tsw.value == pytest.approx(np.mean([o.tsw[-1] for o in here]))
        assert step.tsfi.value == pytest.approx(np.mean([o.tsfi[-1] for o in here]))
        for client, duration in step.durations.items():
            assert duration.value == pytest.approx(np.mean([o.durations[client] for o in here]))


def invented(tsw_by_mu, tsfi_by_mu):
    """Outcomes in which each replication has the given final welfare and fairness at each μ."""
    count = len(next(iter(tsw_by_mu.values())))
    rows = {
        number: tuple(
            SimpleNamespace(
                mus=_only(mu),
                clients=("a",),
                round_count=3,
                durations={"a": 3},
                tsw=(tsw[number - 1],),
                tsfi=(tsfi_by_mu[mu][number - 1],),
            )
            for mu, tsw in tsw_by_mu.items()
        )
        for number in range(1, count + 1)
    }
    return Outcomes(experiment="invented", contribution_rule="clip", replications=rows)


def test_a_recommended_mu_is_measured_on_replications_that_did_not_choose_it():
    """At 0.1 the odd replications do best and the even ones badly, at 0 it is the other way round."""
    welfare = {0.0: [0.0, 5.0] * 6, 0.1: [9.0, 1.0] * 6, math.inf: [0.5, 0.5] * 6}
    fairness = {0.0: [1.0, 1.0] * 6, 0.1: [0.9, 0.5] * 6, math.inf: [1.0, 1.0] * 6}
    for_80, for_90, for_95 = recommendations(invented(welfare, fairness), (0.0, 0.1, math.inf))
    for one in (for_80, for_90):
        assert (one.step.mus.lower, one.step.mus.upper) == (0.1, 0.1)
        assert one.step.tsw.value == 1.0
        assert one.step.tsfi.value == 0.5
    assert for_95.step.mus.lower == math.inf
    assert for_95.step.tsw.value == 0.5


def test_nothing_is_recommended_on_few_replications(outcomes):
    assert recommendations(outcomes, MUS) == ()


def test_welfare_of_all_counts_the_losses_of_the_eliminated(outcomes):
    both = [(o.welfare_of_all, o.tsw[-1], o) for o in outcomes.at(0.0)]
    assert any(of_all < tsw for of_all, tsw, _ in both)
    for of_all, tsw, outcome in both:
        last = [
            record.decision.figures.profits[client]
            for record in outcome.history.rounds
            for client in record.decision.eliminated
        ]
        assert of_all == pytest.approx(tsw + math.fsum(last), abs=1e-12)


def test_the_cost_of_a_sweep_is_the_number_of_rounds_it_computes(small_results: Path, small_replications):
    stored, rows = read_results(small_results)
    study = experiment_study(gather(stored, rows)["label-noise", "clip"], stored, scenario=None, grid=MUS)
    assert study.sweep_cost is not None

    def held(mus) -> float:
        tasks = [
            ReplicationTask(
                experiment="label-noise",
                replication=1,
                scenario=replication.task.scenario,
                mus={"clip": mus},
                data_directory=None,
            )
            for replication in small_replications
        ]
        return float(np.mean([replicate(task).computed_round_count for task in tasks]))

    assert study.sweep_cost.most_lenient == small_federation(rounds=3).round_count
    assert study.sweep_cost.grid == held(MUS)
    assert study.sweep_cost.whole_axis == held("all")


def test_the_papers_values_are_read_from_the_axis(outcomes):
    assert shown_mus(outcomes, MUS) == MUS


def step_of(tsw: float, tsfi: float, mu: float) -> MuStep:
    from commonweal.study.mu_sets import MuGrid

    def exact(value: float) -> Interval:
        return Interval(value=value, lower=value, upper=value)

    (range_,) = MuGrid((mu,)).ranges
    return MuStep(mus=range_, durations={}, tsw=exact(tsw), tsfi=exact(tsfi))


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(0, 1)), min_size=1, max_size=20),
    st.floats(0, 1),
)
def test_a_recommendation_is_fair_enough_and_nothing_fair_is_better(pairs, target):
    steps = [step_of(tsw, tsfi, float(place)) for place, (tsw, tsfi) in enumerate(pairs)]
    best = recommend(steps, target).step
    fair = [step for step in steps if step.tsfi.value >= target]
    if best is None:
        assert not fair
    else:
        assert best in fair
        assert best.tsw.value == max(step.tsw.value for step in fair)
