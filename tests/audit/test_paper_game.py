"""The paper's game, question by question, against decisions of the whole round."""

from __future__ import annotations

import math

import numpy as np
import pytest

from commonweal.audit.best_reply import best_exit, best_joint_reply, best_reply
from commonweal.audit.game import AuditedRound, Bounds, DecidedGame, Report
from commonweal.audit.paper_game import PaperGame
from commonweal.decision.mechanisms.paper import Paper
from commonweal.records import Figures, Rules
from tests.first_few import first_few

WIDE = Bounds(low=-0.5, high=0.5)
RULES = (
    {"mu": 0.05},
    {"mu": 0.0},
    {"mu": 0.4},
    {"mu": math.inf},
    {"mu": 0.05, "loss_rule": "equal"},
    {"mu": 0.1, "loss_rule": "loss"},
    {"mu": 0.1, "loss_rule": "cost"},
    {"mu": 0.1, "liability_cap": 0.02},
    {"mu": 0.1, "loss_rule": "loss", "liability_cap": 0.01},
)


def random_round(seed, *, grace=False, forecast=False):
    """Seeds divisible by 7 give no positive contributions, those divisible by 5 at most one; 1 to 4 are ordinary."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 6))
    names = [f"c{number}" for number in range(count)]
    profits = rng.normal(0.02, 0.06, count)
    contributions = rng.normal(0.02, 0.03, count)
    if seed % 7 == 0:
        contributions = np.minimum(contributions, 0)
    if seed % 5 == 0:
        contributions[1:] = -1e-3

    def named(values):
        return dict(zip(names, values.tolist(), strict=True))

    figures = Figures(
        profits=named(profits),
        contributions=named(contributions),
        costs=named(rng.uniform(0, 0.1, count)),
        expected=named(profits + rng.normal(0, 0.05, count)) if forecast else None,
    )
    return AuditedRound(number=1, figures=figures, spares_losses=grace)


def games(seed, rules, **options):
    mechanism = Paper(Rules(**rules))
    audited = random_round(seed, **options)
    return PaperGame.of(mechanism, audited), DecidedGame(mechanism=mechanism, round=audited, state={})


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("seed", first_few(3, [1, 5, 7, 0, 2, 3, 4, 6]))
def test_fates_are_those_of_the_decision(seed, rules):
    for options in ({}, {"grace": True}, {"forecast": True}):
        fast, slow = games(seed, rules, **options)
        assert fast.outcome().retained == slow.outcome().retained
        for client in fast.clients:
            own = fast.report_of(client)
            assert fast.outcome().fates[client].transfer == pytest.approx(
                slow.outcome().fates[client].transfer, abs=1e-15
            )
            largest = fast.place(client).largest_loss
            around = [] if math.isinf(largest) else [-largest * 0.999 - 1e-6, -largest * 1.001 - 1e-5]
            for profit in (*np.linspace(-0.5, 0.5, 11), *around, -1e-9, 0.0):
                report = Report(profit=float(profit), expected=None if own.expected is None else float(profit))
                found, expected = fast.fate(client, report), slow.fate(client, report)
                assert found.stays == expected.stays, (client, profit)
                assert found.transfer == pytest.approx(expected.transfer, abs=1e-14)


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("seed", first_few(1, [1, 0, 2]))
def test_best_reply_equals_an_exhaustive_grid(seed, rules):
    """Hundreds of reports per client, each decided as a whole round: none is better, and the best ones are near."""
    fast, slow = games(seed, rules)
    truth = slow.outcome().fates
    for client in fast.clients:
        own = fast.report_of(client)
        grid = np.linspace(WIDE.low, WIDE.high, 201).tolist()
        fates = [slow.fate(client, Report(profit=profit)) for profit in grid]
        best_on_grid = max([truth[client].transfer, *(fate.transfer for fate in fates if fate.stays)])
        found = best_reply(fast, client, WIDE, truth=own)
        exact = slow.fate(client, found.report)
        assert found.fate.transfer == pytest.approx(exact.transfer, abs=1e-14)
        assert found.fate.stays == exact.stays
        assert exact.transfer >= best_on_grid - 1e-8
        assert exact.transfer <= best_on_grid + (grid[1] - grid[0]) + 1e-8
        gone = [fate.transfer for fate in fates if not fate.stays]
        leaving = best_exit(fast, client, WIDE)
        assert (leaving is None) == (not gone)
        if leaving is not None:
            assert leaving.fate.transfer == max(gone)


@pytest.mark.parametrize("seed", first_few(10, range(30)))
def test_understating_gains_one_minus_share(seed):
    """With the retained set fixed, understating by d gains (1 − share) · d."""
    rng = np.random.default_rng(seed)
    mechanism = Paper(Rules(mu=0.05))
    audited = random_round(seed)
    names = audited.figures.clients
    profits = {name: float(profit) for name, profit in zip(names, rng.uniform(0.1, 0.3, len(names)), strict=True)}
    contributions = {name: float(q) for name, q in zip(names, rng.uniform(0.01, 0.1, len(names)), strict=True)}
    audited = AuditedRound(number=1, figures=Figures(profits=profits, contributions=contributions))
    game = PaperGame.of(mechanism, audited)
    for client in names:
        share = contributions[client] / sum(contributions.values())
        for d in (1e-3, 0.02, 0.1):
            lied = game.fate(client, Report(profit=profits[client] - d))
            gain = lied.transfer - game.outcome().fates[client].transfer
            assert abs(gain - (1 - share) * d) <= 1e-12
        gain = game.fate(client, Report(profit=min(profits[client], 0))).transfer
        gain -= game.outcome().fates[client].transfer
        assert abs(gain - (1 - share) * profits[client]) <= 1e-12
        assert game.fate(client, Report(profit=0.0)).stays


def test_without_leniency_the_best_reply_is_no_profit():
    """At mu 0 any loss costs the place, so nobody can do better than min(p, 0) = 0."""
    figures = Figures(profits={"a": 0.2, "b": 0.1, "c": 0.3}, contributions={"a": 0.3, "b": 0.3, "c": 0.4})
    game = PaperGame.of(Paper(Rules(mu=0.0)), AuditedRound(number=1, figures=figures))
    for client in figures.clients:
        reply = best_reply(game, client, WIDE, truth=game.report_of(client))
        assert reply.report.profit == 0.0


@pytest.mark.parametrize("seed", first_few(1, [1, 0, 2, 3]))
def test_best_joint_reply_equals_a_grid(seed):
    fast, slow = games(seed, {"mu": 0.2})
    pair = fast.clients[:2]
    grid = np.linspace(-0.5, 0.2, 29).tolist()
    truths = [fast.report_of(client) for client in pair]
    best = sum(slow.outcome().fates[client].transfer for client in pair)
    for one in grid:
        for two in grid:
            fates = slow.with_reports({pair[0]: Report(profit=one), pair[1]: Report(profit=two)}).outcome().fates
            if all(fates[client].stays for client in pair):
                best = max(best, sum(fates[client].transfer for client in pair))
    reports, paid = best_joint_reply(fast, pair, WIDE, truths=truths)
    fates = slow.with_reports(reports).outcome().fates
    assert paid == pytest.approx(sum(fates[client].transfer for client in pair), abs=1e-14)
    assert best - 1e-8 <= paid <= best + 2 * (grid[1] - grid[0]) + 1e-8


@pytest.mark.parametrize("seed", first_few(3, [3, 5, 7, 14]))
@pytest.mark.parametrize("mu", [0.0, 0.02, 0.3])
def test_raw_contributions(seed, mu):
    fast, slow = games(seed, {"mu": mu, "contribution_rule": "raw"})
    truth = slow.outcome().fates
    for client in fast.clients:
        grid = np.linspace(WIDE.low, WIDE.high, 31).tolist()
        fates = [slow.fate(client, Report(profit=profit)) for profit in grid]
        for profit, fate in zip(grid, fates, strict=True):
            found = fast.fate(client, Report(profit=profit))
            assert found.stays == fate.stays
            assert found.transfer == pytest.approx(fate.transfer, abs=1e-12, rel=1e-12)
        best = max([truth[client].transfer, *(fate.transfer for fate in fates if fate.stays)])
        found = best_reply(fast, client, WIDE, truth=fast.report_of(client))
        assert found.fate.transfer >= best - 1e-8 * (1 + abs(best))
