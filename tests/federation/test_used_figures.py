"""Profits by pooled and forecast gains in the simulator: from scores of samples to decisions, and back from disk."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from commonweal.client.reporting import account
from commonweal.data.federated_dataset import FederatedDataset
from commonweal.federation.checkpoint import CheckpointFile
from commonweal.federation.client_set import ToldGain
from commonweal.federation.run_report import make_run_report
from commonweal.federation.session import run_rounds
from commonweal.records import PairedGain
from commonweal.report.history_json import read_history, to_document, write_history
from commonweal.report.run_page.page import to_page
from commonweal.scenario.description import describe
from commonweal.scenario.spec import ClientSpec
from commonweal.scenario.toml_file import parse_scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import image_task
from commonweal.task.measured import Measured, gain_draws, measure, paired_gain
from commonweal.task.metrics import METRICS
from commonweal.task.records import Predictions
from commonweal.valuation.bootstrap import resampling_weights
from commonweal.valuation.forecast import forecast_draws
from commonweal.valuation.pooling import pool
from commonweal.valuation.used_gains import used_gains

FOUR = """
name = "four"
description = "four clients, each with its own source"
rounds = {rounds}
seed = 5
[learning]
iteration_limit = 2
stop_below = 0.0001
[mechanism]
mu = "inf"
contribution = "quantity"
figures = "{figures}"
[defaults]
samples_per_round = 24
cost_per_sample = 1e-3
[[clients]]
name = "paper"
source = "mnist-5k"
[[clients]]
name = "screen"
source = "rendered-digits"
unit_value = 2.0
[[clients]]
name = "tablet"
source = "uci-digits"
worth_curve = [[0.0, 0.0], [0.3, 0.0], [1.0, 1.0]]
[[clients]]
name = "poster"
source = "mnist-5k"
cost_per_round = 0.01
"""


class Watched:
    """The clients, and what they answered: openings and the last scores of the round's model, by round and client."""

    def __init__(self, clients, losses=None):
        self._clients, self._losses = clients, losses or {}
        self.openings, self.scores, self.told = {}, {}, {}

    def __getattr__(self, name):
        return getattr(self._clients, name)

    def open_round(self, number, clients, data_shares):
        lost = self._losses.get(number, ())
        self.openings[number] = {
            client: opening
            for client, opening in self._clients.open_round(number, clients, data_shares).items()
            if client not in lost
        }
        return self.openings[number]

    def evaluate(self, number, coalitions, clients):
        answers = self._clients.evaluate(number, coalitions, clients)
        whole = frozenset(clients)
        if whole in coalitions:
            self.scores[number] = {client: answers[client][whole].scores for client in clients}
        return answers

    def report(self, number, clients, told, rates):
        self.told[number] = told
        return self._clients.report(number, clients, told, rates)


def run(scenario, losses=None, **options):
    dataset = FederatedDataset.for_scenario(scenario, None)
    with InProcessClients(scenario, image_task(scenario, dataset)) as clients:
        watched = Watched(clients, losses)
        return list(run_rounds(watched, scenario, **options)), watched


def four(figures, rounds=3):
    return parse_scenario(FOUR.format(figures=figures, rounds=rounds), "four.toml")


@pytest.fixture(scope="module")
def forecast():
    """A forecast run in which poster misses the first round; its money is that of a pooled run."""
    scenario = four("forecast")
    return scenario, *run(scenario, {1: ("poster",)})


def curve(metric):
    return np.interp(metric, [0.0, 0.3, 1.0], [0.0, 0.0, 1.0])


def test_profits_follow_from_scores_as_the_formulas_say(forecast):
    scenario, results, watched = forecast
    tables = []
    for number, result in enumerate(results, 1):
        openings, scores = watched.openings[number], watched.scores[number]
        table = {}
        for client, opening in openings.items():
            before, now = opening.measured.scores, scores[client]
            assert len(before) == len(now) == opening.validation_count
            table[client] = PairedGain(
                gain=pytest.approx(now.mean() - before.mean(), abs=1e-12),
                sample_count=len(now),
                squared_change=float((now != before).sum()),
            )
        gains = result.record.gains
        assert dict(gains.table) == table
        newcomers = ["poster"] if number == 2 else []
        assert list(gains.newcomers) == newcomers
        pooled = pool(gains.table, newcomers).values
        assert gains.pooled == pooled
        if newcomers:
            assert gains.pooled["poster"] == gains.table["poster"].gain, "a newcomer's first round is not pooled"
        tables.append(gains.table)
        assert gains == used_gains("forecast/1", tables)
        for spec in scenario.clients:
            if spec.name not in table:
                continue
            figures, measured = result.record.decision.figures, result.measured[spec.name]
            spent = spec.cost_per_sample * measured.sample_count + spec.cost_per_round
            start, now = openings[spec.name].measured.value, measured.accuracy.value
            worth = curve if spec.worth_curve else (lambda metric: metric)
            used = spec.unit_value * (worth(start + pooled[spec.name]) - worth(start))
            assert figures.profits[spec.name] == pytest.approx(used - spent, abs=1e-12)
            coming = spec.unit_value * (worth(now + gains.expected[spec.name]) - worth(now))
            assert figures.expected[spec.name] == pytest.approx(coming - spent, abs=1e-12)
            plain = spec.unit_value * (worth(now) - worth(measured.previous_accuracy))
            assert measured.measured_profit.value == pytest.approx(plain - spent, abs=1e-12)
        assert math.fsum(result.record.decision.transfers.values()) == pytest.approx(0, abs=1e-12)


def test_paired_gains_are_used_as_measured_on_the_same_samples():
    scenario = four("paired", rounds=2)
    results, watched = run(scenario)
    for number, result in enumerate(results, 1):
        for spec in scenario.clients:
            opening, measured = watched.openings[number][spec.name].measured, result.measured[spec.name]
            start, now = opening.scores.mean(), watched.scores[number][spec.name].mean()
            worth = curve if spec.worth_curve else (lambda metric: metric)
            spent = spec.cost_per_sample * measured.sample_count + spec.cost_per_round
            used = spec.unit_value * (worth(now) - worth(start))
            assert result.record.decision.figures.profits[spec.name] == pytest.approx(used - spent, abs=1e-12)
        for place, spec in enumerate(scenario.clients):
            if spec.worth_curve is None:
                change = watched.scores[number][spec.name] - watched.openings[number][spec.name].measured.scores
                weights = resampling_weights(scenario.seed, spec.name, len(change))
                spent = spec.cost_per_sample * result.measured[spec.name].sample_count + spec.cost_per_round
                drawn = spec.unit_value * (change @ weights / weights.sum(axis=0)) - spent
                assert result.profit_draws[place] == pytest.approx(drawn, abs=1e-9)
    assert result.record.decision.figures.expected is None


def test_draws_are_pooled_like_the_figures(forecast):
    """So the error of a pooled profit is that of the pooled gain, which is smaller than that of the gain alone."""
    scenario, results, watched = forecast
    for number, result in enumerate(results, 1):
        clients = result.record.decision.figures.clients
        pooled = pool(result.record.gains.table, result.record.gains.newcomers)
        rows = {}
        for client in clients:
            before, now = watched.openings[number][client].measured.scores, watched.scores[number][client]
            weights = resampling_weights(scenario.seed, client, len(now))
            rows[client] = (now - before) @ weights / weights.sum(axis=0)
        mean = sum(part * rows[client] for client, part in pooled.precisions.items())
        for place, client in enumerate(clients):
            spec = next(spec for spec in scenario.clients if spec.name == client)
            if spec.worth_curve is not None:
                continue
            expected = rows[client]
            if client in pooled.precisions:
                expected = mean + pooled.weights[client] * (expected - mean)
            spent = spec.cost_per_sample * result.measured[client].sample_count + spec.cost_per_round
            assert result.profit_draws[place] == pytest.approx(spec.unit_value * expected - spent, abs=1e-9)


def test_fates_by_expected_profits_have_a_stability(forecast):
    """They are decided again on draws of the forecast; what a client spends is certain."""
    scenario, results, _ = forecast
    tables = []
    for result in results:
        gains, clients = result.record.gains, result.record.decision.figures.clients
        tables.append(gains.table)
        drawn = forecast_draws(tables)
        for place, client in enumerate(clients):
            spec = next(spec for spec in scenario.clients if spec.name == client)
            if spec.worth_curve is None:
                spent = spec.cost_per_sample * result.measured[client].sample_count + spec.cost_per_round
                assert result.expected_draws[place] == pytest.approx(spec.unit_value * drawn[client] - spent, abs=1e-9)
        assert all(result.record.stability_of(client).draw_count == 100 for client in clients)


def test_pooled_and_forecast_differ_only_in_selection(forecast):
    _, results, _ = forecast
    pooled, _ = run(four("pooled"), {1: ("poster",)})
    for one, other in zip(results, pooled, strict=True):
        assert other.record.decision.figures == replace(one.record.decision.figures, expected=None)
        assert other.record.gains.version == "pooled/1"
        assert other.record.gains.expected is None


def test_a_checkpoint_holds_the_gains_and_continues_to_the_bit(forecast, tmp_path):
    scenario, whole, _ = forecast
    dataset = FederatedDataset.for_scenario(scenario, None)
    checkpoint = CheckpointFile(path=tmp_path / "checkpoint.npz", identity="this run")
    with InProcessClients(scenario, image_task(scenario, dataset)) as clients:
        results = []
        for result in run_rounds(Watched(clients, {1: ("poster",)}), scenario):
            results.append(result)
            checkpoint.save(results, clients.save())
            if len(results) == 2:
                break
    loaded, state = checkpoint.load(scenario.mechanism.rules)
    assert [one.record for one in loaded] == [one.record for one in results] == [one.record for one in whole[:2]]
    assert [one.measured for one in loaded] == [one.measured for one in results]
    with InProcessClients(scenario, image_task(scenario, dataset)) as clients:
        clients.restore(2, state)
        (last,) = run_rounds(clients, scenario, completed=loaded)
    assert last.record == whole[2].record
    assert (last.profit_draws == whole[2].profit_draws).all()
    assert (last.expected_draws == whole[2].expected_draws).all()


def test_measured_figures_are_told_nothing():
    results, watched = run(four("measured", rounds=1))
    assert watched.told == {1: None}
    assert results[0].record.gains is None
    assert results[0].record.decision.figures.expected is None
    assert results[0].measured["paper"].measured_profit is None


# Single steps


def test_a_gain_of_scores_and_of_predictions():
    """Hits by hand; predictions of the same hits have the variance of the bootstrap, which is close to that of hits."""
    rng = np.random.default_rng(3)
    targets = rng.integers(0, 2, 400)
    before, now = (np.where(rng.random(400) < accuracy, targets, 1 - targets) for accuracy in (0.6, 0.75))
    weights = resampling_weights(1, "a", 400)
    accuracy = METRICS["accuracy"]
    scored = [measure((guess == targets).astype(float), accuracy, weights) for guess in (now, before)]
    predicted = [
        measure(Predictions(targets=targets, values=guess.astype(float)), accuracy, weights) for guess in (now, before)
    ]
    by_scores, by_predictions = paired_gain(*scored, accuracy, 400), paired_gain(*predicted, accuracy, 400)
    assert (
        by_scores.gain
        == by_predictions.gain
        == pytest.approx(((now == targets).sum() - (before == targets).sum()) / 400)
    )
    assert by_scores.squared_change == (now != before).sum()
    centred = by_scores.squared_change - 400 * by_scores.gain**2  # the bootstrap's variance is around the mean
    assert by_predictions.squared_change == pytest.approx(centred, rel=0.2)
    assert gain_draws(*scored, accuracy) == pytest.approx(scored[0].draws - scored[1].draws)


def test_a_gain_has_the_sign_that_makes_more_better():
    error = METRICS["mean-absolute-error"]
    weights = resampling_weights(1, "a", 3)
    now, before = (
        measure(Predictions(targets=np.zeros(3), values=np.array(values)), error, weights)
        for values in ([1.0, 1.0, 2.0], [2.0, 2.0, 3.0])
    )
    assert paired_gain(now, before, error, 3).gain == pytest.approx(1.0)
    assert not paired_gain(now, before, error, 3).is_bounded
    assert gain_draws(now, before, error) == pytest.approx(np.ones(400))


def test_what_is_not_measurable_has_no_gain_and_rounding_is_none():
    draws, accuracy = np.zeros(4), METRICS["accuracy"]
    undefined = Measured(value=math.nan, draws=draws)
    assert paired_gain(undefined, Measured(value=0.5, draws=draws), accuracy, 3) is None
    one, other = Measured(value=0.1 + 0.2, draws=draws), Measured(value=0.3, draws=draws)
    assert paired_gain(one, other, accuracy, 3).gain == 0.0


@pytest.mark.parametrize("name", ["accuracy", "mean-absolute-error"])
def test_a_report_of_what_was_told(name):
    """A gain improves the metric: with an error, the curve is read to the left."""
    metric, sign = METRICS[name], 1 if METRICS[name].higher_is_better else -1
    terms = ClientSpec(name="a", unit_value=2.0, cost_per_round=0.01, worth_curve=((0.0, 0.0), (0.5, 0.1), (1.0, 1.0)))
    draws = np.linspace(-0.1, 0.1, 5)
    own = account(
        terms,
        metric,
        now=Measured(value=0.7, draws=0.7 + draws),
        before=Measured(value=0.6, draws=0.6 + draws),
        sample_count=3,
        step_count=4,
        opening=Measured(value=0.65, draws=0.65 + draws),
        told=ToldGain(pooled=0.04, pooled_draws=0.04 + draws, expected=0.02),
    )

    def worth(metric):
        return np.interp(metric, [0.0, 0.5, 1.0], [0.0, 0.1, 1.0])

    assert own.utility == pytest.approx(2 * (worth(0.65 + sign * 0.04) - worth(0.65)))
    assert own.profit == pytest.approx(own.utility - 0.01)
    assert own.expected_profit == pytest.approx(2 * (worth(0.7 + sign * 0.02) - worth(0.7)) - 0.01)
    assert own.measured_profit == pytest.approx(2 * (worth(0.7) - worth(0.6)) - 0.01)
    drawn = 2 * (worth(0.65 + draws + sign * (0.04 + draws)) - worth(0.65 + draws)) - 0.01
    assert own.profit_draws == pytest.approx(drawn)


def test_where_nothing_can_be_measured_nothing_is_gained():
    unknown = Measured(value=math.nan, draws=np.full(5, math.nan))
    for points in (None, ((0.0, 0.0), (1.0, 1.0))):
        own = account(
            ClientSpec(name="a", cost_per_round=0.01, worth_curve=points),
            METRICS["roc-auc"],
            now=unknown,
            before=unknown,
            sample_count=3,
            step_count=4,
            opening=unknown,
            told=ToldGain(pooled=0.0, pooled_draws=np.zeros(5), expected=0.0),
        )
        assert (own.utility, own.profit, own.expected_profit) == (0.0, -0.01, -0.01)
        assert (own.profit_draws == -0.01).all()


# What readers see


@pytest.fixture(scope="module")
def run_report(forecast):
    scenario, results, _ = forecast
    return make_run_report(scenario, describe(scenario), results)


def test_the_run_report_has_measured_and_used_figures_side_by_side(forecast, run_report):
    _, results, _ = forecast
    for each, result in zip(run_report.rounds, results, strict=True):
        for client, figures in each.clients.items():
            gains, used = result.record.gains, figures.used
            assert used.measured_gain.value == gains.table[client].gain
            assert (used.used_gain, used.expected_gain) == (gains.pooled[client], gains.expected[client])
            assert used.measured_profit == result.measured[client].measured_profit
            assert used.expected_profit.value == result.record.decision.figures.expected[client]
            assert used.expected_profit.standard_error >= 0
            assert "is expected to" in figures.sentence
            assert figures.profit.value == result.record.decision.figures.profits[client]


def test_history_json_says_all_of_it_and_is_read_back(run_report, tmp_path):
    write_history(run_report, tmp_path / "history.json")
    document = json.loads((tmp_path / "history.json").read_text())
    assert document["figures"] == "forecast"
    first = document["rounds"][0]
    assert first["gains"]["table"]["version"] == "forecast/1"
    row = next(one for one in first["clients"] if one["client"] == "paper")
    assert row["used"]["used_gain"] == first["gains"]["pooled"]["paper"]
    assert row["candidate"] == (row["used"]["expected_profit"]["value"] < 0)
    read = read_history(tmp_path / "history.json")
    assert to_document(read) == document
    for one, other in zip(read.rounds, run_report.rounds, strict=True):
        assert one.record.gains == other.record.gains
        assert one.record.decision.figures == other.record.decision.figures
        assert {client: row.used for client, row in one.clients.items()} == {
            client: row.used for client, row in other.clients.items()
        }


def test_the_page_shows_the_profit_as_measured_and_as_expected(run_report):
    page = to_page(run_report)
    for column in ("measured profit", "expected profit"):
        assert column in page
    assert "gains pooled over clients; selection by the expected profit of the next round" in page
