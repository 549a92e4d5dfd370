"""Means over replications along the whole axis, compared with a direct computation at many μ."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.paper.experiments import MUS
from commonweal.records.study import Interval, MuStep
from commonweal.study.outcomes import gather
from commonweal.study.replication import ReplicationTask, replicate
from commonweal.study.result_set import read_results
from commonweal.study.summary import axis_steps, experiment_study, recommend, shown_mus
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
