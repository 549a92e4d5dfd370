"""What lying pays by agreed rates: about value and cost nothing, about scores and counts a lot."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from commonweal.audit.audit import RoundsAudit
from commonweal.audit.bounds import observed_bounds
from commonweal.audit.game import AuditedRound, RatedFigures
from commonweal.audit.lies import POINT
from commonweal.audit.rigged_scores import ScoreLie
from commonweal.audit.training import ScenarioAudit, Variant
from commonweal.decision.mechanisms import make_mechanism
from commonweal.records import AgreedRates, Figures, Rates, Rules
from commonweal.simulation.simulated_task import task_of
from tests.first_few import first_few
from tests.study.small_federation import small_federation

RATES = AgreedRates(
    by_class={"large": Rates(gain=2.0, sample=1e-4, round=0.01), "small": Rates(gain=0.5, sample=3e-4)},
    classes={"c0": "large", "c1": "small", "c2": "large", "c3": "small"},
)
ABOUT_VALUE_OR_COST = ("half", "double", "less", "more", "no-profit", "cost")


def made_rounds(count, *, is_forecast=False, seed=0):
    rng = np.random.default_rng(seed)
    names = tuple(RATES.classes)
    rounds = []
    for number in range(1, count + 1):
        gains = dict(zip(names, rng.normal(0.05, 0.04, 4).tolist(), strict=True))
        counts = dict(zip(names, rng.integers(20, 200, 4).tolist(), strict=True))
        rates = {name: RATES.of(name) for name in names}
        costs = {name: rates[name].sample * counts[name] + rates[name].round for name in names}
        profits = {name: rates[name].gain * gains[name] - costs[name] for name in names}
        figures = Figures(
            profits=profits,
            contributions=dict(zip(names, rng.uniform(0.01, 0.06, 4).tolist(), strict=True)),
            costs=costs,
            expected=profits if is_forecast else None,
        )
        rated = RatedFigures(
            rates=rates, gains=gains, made=dict.fromkeys(names, 1.0), expected_gains=gains if is_forecast else None
        )
        rounds.append(AuditedRound(number=number, figures=figures, sample_counts=counts, rated=rated))
    return rounds


def report_on(rounds, **rules):
    return RoundsAudit(
        mechanism=make_mechanism(Rules(**rules)), rounds=rounds, bounds=observed_bounds(rounds), rates=RATES.in_words
    ).report("rounds")


@pytest.mark.parametrize("is_forecast", [False, True])
@pytest.mark.parametrize("rules", first_few(2, [{"mu": 0.05}, {"mu": math.inf, "mechanism": "fli"}, {"mu": math.inf}]))
def test_misreporting_value_or_cost_gains_exactly_nothing(rules, is_forecast):
    report = report_on(made_rounds(6, is_forecast=is_forecast), **rules)
    for name in ABOUT_VALUE_OR_COST:
        for liar_count in (1, 2):
            lie = report.lie(name, liar_count)
            assert (lie.gain.value, lie.gain.lower, lie.gain.upper) == (0.0, 0.0, 0.0), name
            assert set(lie.client_gains.values()) == {0.0}
            assert (lie.pays_share, lie.loses_place_share) == (0.0, 0.0)


def test_false_scores_and_counts_gain_what_the_formula_says():
    """The set is fixed, since mu is infinite: (1 − share) ρ d, with d a point of the metric; of counts, d samples."""
    rounds = made_rounds(1)
    (audited,) = rounds
    report = report_on(rounds, mu=math.inf)
    total = math.fsum(audited.figures.contributions.values())
    for client, contribution in audited.figures.contributions.items():
        rates, not_its_share = RATES.of(client), 1 - contribution / total
        scores, counts = (report.lie(name).client_gains[client] for name in ("own-scores", "count"))
        assert scores == pytest.approx(not_its_share * rates.gain * POINT, rel=1e-12, abs=1e-12)
        expected = not_its_share * rates.sample * audited.sample_counts[client]
        assert counts == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_what_clients_really_made_counts_as_their_payoff():
    report = report_on(made_rounds(2), mu=math.inf)
    assert report.mean_payoff == pytest.approx(1.0, abs=1e-12), "transfers sum to zero"
    assert report.unravelling.truth.welfare == pytest.approx(4.0, abs=1e-12)


def rated_federation(**options):
    scenario = small_federation(**options)
    rules = replace(scenario.mechanism.rules, mu=math.inf)
    mechanism = replace(scenario.mechanism, rules=rules, rates=AgreedRates(common=Rates(gain=3.0, sample=1e-3)))
    clients = tuple(replace(client, cost_per_step=1e-4) for client in scenario.clients)
    return replace(scenario, mechanism=mechanism, clients=clients)


@pytest.mark.parametrize("figures", ["measured", "pooled"])
def test_low_scores_in_a_run(figures):
    """Each round's gain is a point lower; nothing that is trained, contributed or really made changes."""
    scenario = rated_federation(rounds=2)
    scenario = replace(scenario, mechanism=replace(scenario.mechanism, figures=figures))
    honest = Variant(name="", title="", scenario=scenario, simulated=task_of(scenario, None), identities=("a",))
    lied = replace(honest, scores=ScoreLie(liar="a", rig="low-scores"))
    for true, false in zip(honest.run(2), lied.run(2), strict=True):
        before, after = true.record.decision, false.record.decision
        for client in before.figures.clients:
            assert after.figures.contributions[client] == pytest.approx(before.figures.contributions[client], abs=1e-12)
            assert false.measured[client].actual_profit == true.measured[client].actual_profit
        if figures == "measured":
            assert after.figures.profits["a"] == pytest.approx(before.figures.profits["a"] - 3.0 * POINT, abs=1e-12)
            gained = after.transfers["a"] - before.transfers["a"]
            assert gained == pytest.approx((1 - before.shares["a"]) * 3.0 * POINT, abs=1e-12)
        else:
            tables = [one.record.gains.table["a"].gain for one in (true, false)]
            assert tables[1] == pytest.approx(tables[0] - POINT, abs=1e-12)


def test_a_scenario_with_rates_is_audited_in_true_figures():
    report = ScenarioAudit(scenario=rated_federation(rounds=1), worker_count=2).report("rated")
    tried = {lie.name for lie in report.lies if lie.kind == "training"}
    assert {"low-scores", "counts"} <= tried
    assert "agreed rates" in report.notes[0]
    assert all(report.lie(name).gain.value == 0.0 for name in ABOUT_VALUE_OR_COST)
    assert report.lie("own-scores").gain.value > 0
    low = report.lie("low-scores")
    assert low.gain.value == pytest.approx(report.lie("own-scores").client_gains["a"], abs=1e-12)
