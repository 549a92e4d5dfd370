"""Where repeated best replies of everybody end: each client in turn reports what pays it most, again and again.

Of the reports with which it stays, that is: elimination is for good, and nobody gives up its place for one round.

Under the paper's mechanism two clients may undercut each other by ever smaller amounts, to stay in the other's place.
Where that ends is known (`PaperGame.unbeatable_report`): replies start there, and find that nobody gains by another.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from commonweal.audit.best_reply import best_reply
from commonweal.audit.game import Bounds, Game, Outcome, Report
from commonweal.audit.paper_game import PaperGame
from commonweal.records.audit import State, Unravelling

SWEEP_LIMIT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Unravelled:
    """One round with the truth, and after all replies."""

    profits: Mapping[str, float]  # true
    truth: Outcome
    end: Outcome
    sweep_count: int
    is_settled: bool


def unravel(game: Game, bounds: Bounds) -> Unravelled:
    """Let each client in turn reply best to what the others report, until nobody gains by another report."""
    truths = {client: game.report_of(client) for client in game.clients}
    truth = game.outcome()
    if isinstance(game, PaperGame) and game.is_clipped:
        game = game.with_reports(
            {client: game.unbeatable_report(client, bounds.around(report.profit)) for client, report in truths.items()}
        )
    seen: set[tuple[Report, ...]] = set()
    sweep_count, is_changed = 0, True
    while is_changed and sweep_count < SWEEP_LIMIT:
        sweep_count, is_changed = sweep_count + 1, False
        for client in game.clients:
            reply = best_reply(game, client, bounds, truth=truths[client], place_comes_first=True)
            if reply.report == game.report_of(client):
                continue
            is_changed = True
            if isinstance(game, PaperGame) and reply.fate.stays:
                game = game.after_staying(client, reply.report)
            else:
                game = game.with_reports({client: reply.report})
        reports = tuple(game.report_of(client) for client in game.clients)
        if is_changed and reports in seen:
            break  # in a circle
        seen.add(reports)
    return Unravelled(
        profits={client: report.profit for client, report in truths.items()},
        truth=truth,
        end=game.outcome(),
        sweep_count=sweep_count,
        is_settled=not is_changed,
    )


def summary(rounds: Sequence[Unravelled]) -> Unravelling:
    """Means over rounds."""
    stays = defaultdict[str, list[tuple[bool, bool]]](list)
    for each in rounds:
        for client in each.profits:
            stays[client].append((each.truth.fates[client].stays, each.end.fates[client].stays))
    return Unravelling(
        round_count=len(rounds),
        settled_share=float(np.mean([each.is_settled for each in rounds])),
        sweep_count=float(np.mean([each.sweep_count for each in rounds])),
        truth=_state([(each.truth, each.profits) for each in rounds]),
        end=_state([(each.end, each.profits) for each in rounds]),
        everybody_welfare=float(np.mean([math.fsum(each.profits.values()) for each in rounds])),
        stays_share={
            client: (float(np.mean([one for one, _ in pairs])), float(np.mean([one for _, one in pairs])))
            for client, pairs in stays.items()
        },
    )


def _state(outcomes: Sequence[tuple[Outcome, Mapping[str, float]]]) -> State:
    return State(
        money_moved=float(np.mean([outcome.money_moved for outcome, _ in outcomes])),
        eliminated_count=float(np.mean([len(outcome.fates) - len(outcome.retained) for outcome, _ in outcomes])),
        welfare=float(
            np.mean([math.fsum(profits[client] for client in outcome.retained) for outcome, profits in outcomes])
        ),
    )
