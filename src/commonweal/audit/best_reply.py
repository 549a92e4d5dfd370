"""What a client would best report, given what the others report: of the reports that keep its place, the best paid.

Elimination is for good, and what later rounds would have paid is not in a round's figures. So a report that costs the
place is never the best reply; what it pays is found apart, by `best_exit`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from commonweal.audit.game import ROUNDING, Bounds, Fate, Game, Report
from commonweal.audit.paper_game import PaperGame

_GRID = 9  # reports evenly spread over the bounds, besides those where something is likely to happen
_REFINEMENTS = 36
_NEARLY = 1e-7  # of the width of the bounds: on both sides of reports where a decision is likely to change


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a client reports, and what becomes of it."""

    report: Report
    fate: Fate


def best_reply(game: Game, client: str, bounds: Bounds, *, truth: Report, place_comes_first: bool = False) -> Reply:
    """The best paid report that keeps the client's place; its present report or the truth if none is better.

    If the place comes first, a report that keeps it is better than any that does not, whatever it costs.
    """
    bounds = bounds.around(truth.profit)
    known = [_tried(game, client, report) for report in dict.fromkeys((game.report_of(client), truth))]
    if isinstance(game, PaperGame):
        found = [_tried(game, client, report) for report in _of_the_paper(game, client, bounds)]
    else:
        found = [_searched(game, client, bounds)]
    best = known[0]
    for reply in [*known[1:], *found]:
        if not reply.fate.stays and reply.report not in (known[0].report, truth):
            continue
        if place_comes_first and reply.fate.stays != best.fate.stays:
            is_better = reply.fate.stays
        else:
            is_better = reply.fate.transfer > best.fate.transfer + ROUNDING * game.scale
        if is_better:
            best = reply
    return best


def best_exit(game: Game, client: str, bounds: Bounds) -> Reply | None:
    """The best paid of the reports that cost the place; None if no report within the bounds does."""
    own = game.report_of(client)
    replies = [_tried(game, client, report) for report in (own, own.with_profit(bounds.low))]
    return max((one for one in replies if not one.fate.stays), key=lambda one: one.fate.transfer, default=None)


def best_joint_reply(
    game: Game, pair: Sequence[str], bounds: Bounds, *, truths: Sequence[Report]
) -> tuple[dict[str, Report], float]:
    """The reports of two clients that together are paid most while both keep their places; and what they are paid.

    For the paper's mechanism one after the other takes as much as it can: what both are paid depends on the sum of the
    losses that they report, and the sums that keep both places are limited for each of them and for both.
    """
    before = game.outcome().fates
    best = {client: game.report_of(client) for client in pair}, math.fsum(before[one].transfer for one in pair)
    # Without the truth's loss-makers being eliminated: each first claims a place, then what it can get.
    for order in (tuple(pair), tuple(reversed(pair))):
        told, reached = game, dict(zip(pair, truths, strict=True))
        for client in order:
            partner = next(one for one in pair if one != client)
            reached[client] = _joint_step(told, client, partner, bounds.around(reached[client].profit))
            told = told.with_reports({client: reached[client]})
        fates = told.outcome().fates
        paid = math.fsum(fates[one].transfer for one in pair)
        if all(fates[one].stays for one in pair) and paid > best[1] + ROUNDING * game.scale:
            best = dict(reached), paid
    return best


def _joint_step(game: Game, client: str, partner: str, bounds: Bounds) -> Report:
    if isinstance(game, PaperGame) and game.is_clipped:
        return game.lowest_report(client, bounds)
    own = game.report_of(client)

    def paid(profit: float) -> float:
        fates = game.with_reports({client: own.with_profit(profit)}).outcome().fates
        stay = fates[client].stays and fates[partner].stays
        return fates[client].transfer + fates[partner].transfer if stay else -math.inf

    return own.with_profit(highest(paid, bounds, _likely(game, client)))


def _tried(game: Game, client: str, report: Report) -> Reply:
    return Reply(report=report, fate=game.fate(client, report))


def _of_the_paper(game: PaperGame, client: str, bounds: Bounds) -> list[Report]:
    """The reports of which one is the best: with clipped contributions the lowest that keeps the place."""
    lowest = game.lowest_report(client, bounds)
    if game.is_clipped:
        return [lowest]
    # Raw shares may lie outside 0..1, and then a transfer may rise with the report.
    inside = Bounds(low=lowest.profit, high=max(bounds.high, lowest.profit))

    def paid(profit: float) -> float:
        fate = game.fate(client, replace(lowest, profit=profit))
        return fate.transfer if fate.stays else -math.inf

    return [lowest, replace(lowest, profit=highest(paid, inside, _likely(game, client)))]


def _searched(game: Game, client: str, bounds: Bounds) -> Reply:
    own = game.report_of(client)

    def paid(profit: float) -> float:
        fate = game.fate(client, own.with_profit(profit))
        return fate.transfer if fate.stays else -math.inf

    return _tried(game, client, own.with_profit(highest(paid, bounds, _likely(game, client))))


def _likely(game: Game, client: str) -> list[float]:
    """Reports where a decision is likely to change: its own, none, where the budget is 0, and what others report."""
    others = [game.report_of(other).profit for other in game.clients if other != client]
    budget = math.fsum(others)
    return [game.report_of(client).profit, 0.0, -budget, max(others, default=0.0), min(others, default=0.0)]


def highest(value: Callable[[float], float], bounds: Bounds, likely: Iterable[float]) -> float:
    """Where a function of one report is highest, found by a grid and by closing in on its best point.

    −∞ marks reports that are not allowed. The function may jump: closing in then ends beside the jump, on its high
    side, within about 1e-6 of the bounds' width.
    """
    width = bounds.high - bounds.low
    if width <= 0:
        return bounds.low
    at_jumps = [at + side * _NEARLY * width for at in likely for side in (-1, 0, 1)]
    spread = [bounds.low + width * step / (_GRID - 1) for step in range(_GRID)]
    points = sorted({min(max(at, bounds.low), bounds.high) for at in (*at_jumps, *spread)})
    values = [value(at) for at in points]
    best = max(range(len(points)), key=lambda place: values[place])
    at, top = points[best], values[best]
    left, right = points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)]
    for _ in range(_REFINEMENTS):
        goes_left = at - left >= right - at
        probe = (left + at) / 2 if goes_left else (at + right) / 2
        if max(at - left, right - at) <= 1e-7 * width:
            break
        found = value(probe)
        if found > top:
            left, right = (left, at) if goes_left else (at, right)
            at, top = probe, found
        elif goes_left:
            left = probe
        else:
            right = probe
    return at
