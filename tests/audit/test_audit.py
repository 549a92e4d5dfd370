"""The audit of rounds: what is reported, and where repeated best replies end."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from commonweal.audit.audit import RoundsAudit
from commonweal.audit.best_reply import best_reply, highest
from commonweal.audit.bounds import observed_bounds
from commonweal.audit.game import AuditedRound, Bounds, DecidedGame, Report
from commonweal.audit.paper_game import PaperGame
from commonweal.audit.unravelling import unravel
from commonweal.decision.mechanism import RoundDecider
from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import InputError
from commonweal.records import Figures, Rules


def made_rounds(count, size, *, seed=0, gain=0.06):
    rng = np.random.default_rng(seed)
    names = [f"c{number}" for number in range(size)]
    rounds = []
    for number in range(1, count + 1):
        costs = rng.uniform(0.01, 0.05, size)
        profits = rng.normal(gain, 0.04, size) - costs
        contributions = rng.uniform(0.005, 0.06, size)
        named = [dict(zip(names, values.tolist(), strict=True)) for values in (profits, contributions, costs)]
        figures = Figures(profits=named[0], contributions=named[1], costs=named[2])
        rounds.append(AuditedRound(number=number, figures=figures))
    return rounds


def report_on(rounds, bounds=None, **rules):
    mechanism = make_mechanism(Rules(**rules))
    bounds = observed_bounds(rounds) if bounds is None else bounds
    return RoundsAudit(mechanism=mechanism, rounds=rounds, bounds=bounds).report("rounds")


def test_the_audit_finds_that_hiding_profits_pays():
    rounds = made_rounds(20, 5, gain=0.1)
    report = report_on(rounds, mu=0.05)
    hiding, best, less = report.lie("no-profit"), report.lie("best-reply"), report.lie("less")
    assert hiding.pays_share > 0.8
    assert hiding.loses_place_share == 0
    assert best.gain.value >= hiding.gain.value > less.gain.value > 0
    assert best.gain.lower <= best.gain.value <= best.gain.upper
    assert best.loses_place_share == 0
    for one in report.lies:
        if one.liar_count == 1 and one.name != "exit":
            assert one.gain.value <= best.gain.value + 1e-9


def test_silence_gains_what_the_truth_would_have_cost():
    rounds = made_rounds(3, 4)
    report = report_on(rounds, mu=math.inf)
    transfers = [
        DecidedGame(mechanism=make_mechanism(Rules(mu=math.inf)), round=one, state={}).outcome().fates["c2"].transfer
        for one in rounds
    ]
    assert report.lie("silence").client_gains["c2"] == pytest.approx(-np.mean(transfers), abs=1e-15)


@pytest.mark.parametrize("mu", [0.02, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_repeated_best_replies_end_at_the_largest_loss_that_keeps_the_place(mu, seed):
    """Closed form: everybody reports −μ q / (Q − q), and nobody is eliminated, whoever would be with the truth."""
    (audited,) = made_rounds(1, 6, seed=seed, gain=0.04)
    game = PaperGame.of(make_mechanism(Rules(mu=mu)), audited)
    found = unravel(game, Bounds(low=-1.0, high=1.0))
    q = np.array(list(audited.figures.contributions.values()))
    reports = -mu * q / (q.sum() - q)
    transfers = q / q.sum() * reports.sum() - reports
    assert found.is_settled
    assert found.end.retained == game.clients
    for client, expected in zip(game.clients, transfers.tolist(), strict=True):
        assert found.end.fates[client].transfer == pytest.approx(expected, abs=1e-7)


def test_fli_is_led_through_the_rounds():
    """A lie in every round, replayed by hand."""
    rounds = made_rounds(4, 3)
    report = report_on(rounds, mu=math.inf, mechanism="fli")
    paid = {}
    for factor in (1.0, 0.5):
        decider = RoundDecider(make_mechanism(Rules(mu=math.inf, mechanism="fli")))
        paid[factor] = 0.0
        for one in rounds:
            profits = {**one.figures.profits, "c1": factor * one.figures.profits["c1"]}
            told = Figures(profits=profits, contributions=one.figures.contributions, costs=one.figures.costs)
            paid[factor] += decider.decide(told, round_number=one.number).transfers["c1"]
    gain = (paid[0.5] - paid[1.0]) / len(rounds)
    assert report.lie("half").client_gains["c1"] == pytest.approx(gain, abs=1e-12)
    assert report.lie("cost") is not None


def test_a_best_reply_never_loses_however_few_rounds_there_are():
    """Its interval over two rounds would reach far below 0 otherwise."""
    for mechanism in ("equal", "paper"):
        rounds = [*made_rounds(1, 3, gain=0.2), *made_rounds(1, 3, seed=1, gain=0.04)]
        report = report_on(rounds, mu=0.05 if mechanism == "paper" else math.inf, mechanism=mechanism)
        for liar_count in (1, 2):
            best = report.lie("best-reply", liar_count)
            assert best.gain.value > best.gain.lower >= 0
            assert best.relative_gain.lower >= 0
        assert report.lie("half").gain.lower < 0


def test_a_false_metric_is_told_where_metrics_are_paid_for():
    metrics = [{"c0": 0.5, "c1": 0.9, "c2": 0.3}, {"c0": 0.95, "c1": 0.6}]
    rounds = [
        replace(one, figures=replace(one.figures, further={"metric": measured}))
        for one, measured in zip(made_rounds(2, 3), metrics, strict=True)
    ]
    report = report_on(rounds, mu=math.inf, mechanism="kang-contract")
    paid = {}
    for metric in (0.3, 0.5, 0.6, 0.9, 0.95, 1.0):
        figures = replace(rounds[0].figures, further={"metric": dict.fromkeys(("c0", "c1", "c2"), metric)})
        mechanism = make_mechanism(Rules(mu=math.inf, mechanism="kang-contract"))
        paid[metric] = RoundDecider(mechanism).decide(figures).transfers["c0"]
    gains = report.lie("metric").client_gains
    assert gains["c0"] == pytest.approx((2 * paid[1.0] - paid[0.5] - paid[0.95]) / 2, abs=1e-12)
    assert gains["c1"] == pytest.approx((2 * paid[1.0] - paid[0.9] - paid[0.6]) / 2, abs=1e-12)
    assert gains["c2"] == pytest.approx((paid[1.0] - paid[0.3]) / 2, abs=1e-12)  # it has no metric in round 2
    assert min(gains.values()) > 0


def test_that_only_money_counts_is_said_where_a_mechanism_decides_more():
    rounds = [
        replace(
            one,
            sample_counts=dict.fromkeys(one.figures.clients, 30),
            figures=replace(
                one.figures,
                further={"utility": {c: p + one.figures.costs[c] for c, p in one.figures.profits.items()}},
            ),
        )
        for one in made_rounds(2, 3)
    ]
    said = "Gains are in money alone"
    assert any("(data)" in note and said in note for note in report_on(rounds, mu=math.inf, mechanism="zhang").notes)
    assert not any(said in note for note in report_on(rounds, mu=math.inf, mechanism="equal").notes)


def test_the_search_finds_a_jump():
    """FLI shares no loss: a client gains most where its report leaves a budget of 0, and nothing just below that."""
    (audited,) = made_rounds(1, 3, gain=0.15)
    game = DecidedGame(mechanism=make_mechanism(Rules(mu=math.inf, mechanism="fli")), round=audited, state={})
    others = sum(audited.figures.profits[client] for client in ("c1", "c2"))
    reply = best_reply(game, "c0", Bounds(low=-2 * others, high=others), truth=game.report_of("c0"))
    assert reply.fate.transfer == pytest.approx(others, rel=1e-6)
    assert game.fate("c0", Report(profit=-others - 1e-6, cost=reply.report.cost)).transfer == 0


def test_the_search_closes_in():
    def jumping(at):
        return at if at <= 0.123456 else -math.inf

    assert highest(jumping, Bounds(low=-1, high=1), []) == pytest.approx(0.123456, abs=1e-5)
    assert highest(lambda at: -((at - 0.3) ** 2), Bounds(low=-1, high=1), []) == pytest.approx(0.3, abs=1e-4)
    assert highest(lambda at: -at, Bounds(low=-1, high=1), []) == -1


def test_search_agrees_with_the_closed_form():
    """The search knows nothing of the paper's mechanism, and finds its best replies."""
    mechanism = make_mechanism(Rules(mu=0.1))
    for audited in made_rounds(3, 4, seed=5):
        exact, searched = PaperGame.of(mechanism, audited), DecidedGame(mechanism=mechanism, round=audited, state={})
        for client in exact.clients:
            truth = exact.report_of(client)
            best = best_reply(exact, client, Bounds(low=-0.5, high=0.5), truth=truth).fate.transfer
            found = best_reply(searched, client, Bounds(low=-0.5, high=0.5), truth=truth).fate.transfer
            assert found == pytest.approx(best, abs=1e-5)


def test_one_client_cannot_be_audited():
    with pytest.raises(InputError, match="at least two clients"):
        report_on(made_rounds(1, 1), mu=0.05)
    with pytest.raises(InputError, match="no rounds"):
        RoundsAudit(mechanism=make_mechanism(Rules(mu=0.05)), rounds=[], bounds=Bounds(low=0, high=1))
