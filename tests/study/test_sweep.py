"""A sweep computes no round twice and gives what separate runs give, to the bit."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise

import pytest

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.federation.round_result import RoundResult
from commonweal.federation.session import run_rounds
from commonweal.records import ContributionRule, MuRange
from commonweal.scenario.spec import Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import image_task
from commonweal.study.mu_sets import WHOLE_AXIS, MuAxis, MuGrid, intersection
from commonweal.study.sweep import CompletedRounds, Policies, SweptHistory, sweep
from tests.study.small_federation import small_federation

GRID = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, math.inf)


def swept(scenario: Scenario, policies: Policies) -> tuple[list[SweptHistory], list[CompletedRounds]]:
    pasts: list[CompletedRounds] = []
    with InProcessClients(
        scenario, image_task(scenario, FederatedDataset.for_scenario(scenario, None)), worker_count=1
    ) as clients:
        return list(sweep(clients, scenario, policies, on_round=pasts.append)), pasts


@cache
def swept_small(**policies: MuGrid | MuAxis) -> tuple[list[SweptHistory], list[CompletedRounds]]:
    """The sweep of the small federation, computed once for all tests that read it."""
    return swept(small_federation(), policies)


def run_alone(scenario: Scenario, mu: float, rule: ContributionRule = "clip") -> list[RoundResult]:
    rules = replace(scenario.mechanism.rules, mu=mu, contribution_rule=rule)
    alone = replace(scenario, mechanism=replace(scenario.mechanism, rules=rules))
    with InProcessClients(
        alone, image_task(alone, FederatedDataset.for_scenario(alone, None)), worker_count=2
    ) as clients:
        return list(run_rounds(clients, alone))


def branch_at(branches: list[SweptHistory], mu: float, rule: ContributionRule = "clip") -> SweptHistory:
    (found,) = [b for b in branches if any(mu in range_ for range_ in b.mu_ranges.get(rule, ()))]
    return found


def outcome(branch: SweptHistory) -> list[object]:
    return [(h.measured, h.figures, h.iteration_accuracies, kept) for h, kept in branch.rounds]


def histories(past: CompletedRounds) -> tuple[tuple[str, ...], ...]:
    return tuple(retained for _, retained in past)


@pytest.mark.parametrize(
    ("algorithm", "mechanism"),
    [
        ("fedavg", ""),
        pytest.param("fedbn", 'loss_rule = "equal"\ngrace_rounds = 1', marks=pytest.mark.soak),
        pytest.param("scaffold", "", marks=pytest.mark.soak),
    ],
)
def test_a_sweep_gives_what_separate_runs_give_to_the_bit(algorithm: str, mechanism: str) -> None:
    scenario = small_federation(algorithm=algorithm, mechanism=mechanism)
    both = {"clip": MuGrid(GRID), "raw": MuGrid(GRID)}
    branches, _ = swept_small(**both) if scenario == small_federation() else swept(scenario, both)
    assert len({histories(branch.rounds) for branch in branches}) > 2, (
        "the policies must diverge for this to test anything"
    )
    for rule, mus in (("clip", (0.0, 0.02, 0.05, math.inf)), ("raw", (0.05,))):
        for mu in mus:
            alone = run_alone(scenario, mu, rule)
            together = branch_at(branches, mu, rule)
            assert [h.record.decision.figures for h in alone] == [h.figures for h, _ in together.rounds], (rule, mu)
            assert [h.record.decision.retained for h in alone] == [kept for _, kept in together.rounds]
            assert [h.measured for h in alone] == [h.measured for h, _ in together.rounds]
            assert [h.iteration_accuracies for h in alone] == [h.iteration_accuracies for h, _ in together.rounds]


@pytest.mark.parametrize(
    "policies", [{"clip": MuGrid(GRID)}, {"clip": WHOLE_AXIS}, {"clip": WHOLE_AXIS, "raw": WHOLE_AXIS}]
)
def test_no_round_of_a_history_is_computed_twice(policies: Policies) -> None:
    branches, pasts = swept_small(**policies)
    times = Counter(map(histories, pasts))
    assert set(times.values()) == {1}
    # All rounds were needed: each is on the way to some policy's end.
    needed = {histories(branch.rounds)[:number] for branch in branches for number in range(len(branch.rounds))}
    assert set(times) == needed
    assert len(pasts) > small_federation().round_count, "one history alone would test nothing"


def test_the_whole_axis_restricted_to_a_grid_is_the_grid() -> None:
    axis, _ = swept_small(clip=WHOLE_AXIS, raw=WHOLE_AXIS)
    grid, _ = swept_small(clip=MuGrid(GRID), raw=MuGrid(GRID))
    for rule in ("clip", "raw"):
        for mu in GRID:
            assert outcome(branch_at(axis, mu, rule)) == outcome(branch_at(grid, mu, rule)), (rule, mu)


def test_the_whole_axis_is_covered_once() -> None:
    axis, _ = swept_small(clip=WHOLE_AXIS)
    ranges = sorted(
        (range_ for branch in axis for range_ in branch.mu_ranges["clip"]),
        key=lambda r: (r.exact_lower, r.exact_upper),
    )
    assert (ranges[0].exact_lower, ranges[0].closed_below) == (0, True)
    assert (ranges[-1].exact_upper, ranges[-1].closed_above) == (math.inf, True)
    for before, after in pairwise(ranges):
        assert before.exact_upper == after.exact_lower
        assert before.closed_above != after.closed_below


def test_breakpoints_of_the_axis_are_where_runs_change() -> None:
    """At and right beside every breakpoint a run of its own gives the branch that the axis names."""
    scenario = replace(small_federation(rounds=3), seed=3)  # with several breakpoints
    axis, _ = swept(scenario, {"clip": WHOLE_AXIS})
    bounds = {r.lower for b in axis for r in b.mu_ranges["clip"] if 0 < r.lower < math.inf}
    assert bounds
    for bound in sorted(bounds)[:2]:
        for mu in (math.nextafter(bound, 0), bound, math.nextafter(bound, math.inf)):
            alone = [h.record.decision.retained for h in run_alone(scenario, mu)]
            assert alone == list(histories(branch_at(axis, mu).rounds)), mu


def closed(lower: float, upper: float, below: bool = True, above: bool = True) -> MuRange:
    return MuRange(exact_lower=Fraction(lower), exact_upper=Fraction(upper), closed_below=below, closed_above=above)


def test_intersections_of_intervals() -> None:
    assert intersection(closed(0, 2), closed(1, 3)) == closed(1, 2)
    assert intersection(closed(0, 1, above=False), closed(1, 2)) is None
    assert intersection(closed(0, 1), closed(1, 2)) == closed(1, 1)
    assert intersection(closed(0, 1), closed(0, 1, below=False)) == closed(0, 1, below=False)
    assert intersection(closed(0, 1), closed(2, 3)) is None


def test_an_axis_of_several_intervals_keeps_them_apart() -> None:
    axis = MuAxis((closed(0, 1), closed(3, 4)))
    assert axis.ranges == (closed(0, 1), closed(3, 4))
