"""The rounds of a run: a table, and the map of each round in which somebody could have been eliminated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from commonweal.decision.reasons import how_sure_of_the_end
from commonweal.records import RoundRecord, RoundReport, RunReport
from commonweal.report.decision_map import MAPS_SHOWN, map_of_round, rounds_with_choice, scale_of_run
from commonweal.report.inline_svg import InlinePlot, inline_svg
from commonweal.report.text import Parts, counted, decimals_for, estimate_parts, number, numbered_rounds, percent


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maps:
    sentences: Sequence[str]  # about the rounds without a map
    first: Sequence[InlinePlot]
    later: Sequence[InlinePlot]
    summary: str  # the text that opens the later ones


def decision_maps(run_report: RunReport) -> _Maps:
    """The map of each round in which somebody could have been eliminated; those beyond the fifteenth are collapsed."""
    mapped = rounds_with_choice(run_report)
    grace = [each.number for each in run_report.rounds if each.record.decision.grace]
    finished = [each.number for each in run_report.rounds if each.record.decision.finished]
    unmapped = [
        each.number
        for each in run_report.rounds
        if each.decision_map is None and not each.record.decision.spares_losses
    ]
    unanimous = [each.number for each in run_report.rounds if each not in mapped and each.decision_map is not None]
    without_map = (
        (grace, "grace, nobody could be eliminated."),
        (finished, f"the federation was finished, and nobody is eliminated for a loss{_doubt(run_report)}."),
        (unanimous, "everybody is retained at any mu."),
        (unmapped, "no map, because the decision changes at too many values of mu."),
    )
    sentences = [f"{numbered_rounds(rounds)}: {why}" for rounds, why in sorted(without_map) if rounds]
    scale = scale_of_run(run_report)
    drawn = [
        inline_svg(
            lambda each=each: map_of_round(each, scale),  # type: ignore[misc]
            name=f"map-{each.number}",
            title=f"Decision map of round {each.number}: who is retained at which mu",
        )
        for each in mapped
    ]
    first, later = drawn[:MAPS_SHOWN], drawn[MAPS_SHOWN:]
    return _Maps(sentences=sentences, first=first, later=later, summary=f"Maps of {counted(len(later), 'later round')}")


def _doubt(run_report: RunReport) -> str:
    """How often a federation that ended would have gone on; "" if it did not end, or that is not known."""
    sure = how_sure_of_the_end(run_report.rounds[-1].record.ending_stability)
    return f"; {sure}" if sure else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    number: int
    client_count: int
    eliminated: Sequence[tuple[str, str]]  # with the stability of that
    absent: Sequence[str]
    budget: Parts
    tsw: Parts
    moved: str


def round_rows(run_report: RunReport) -> list[_Round]:
    budgets = [each.budget.value for each in run_report.rounds]
    decimals = decimals_for([*budgets, *(total.value for total in run_report.tsw)])
    rows = []
    for each, tsw in zip(run_report.rounds, run_report.tsw, strict=True):
        decision = each.record.decision
        moved = math.fsum(amount for amount in decision.received if amount > 0)
        rows.append(
            _Round(
                number=each.number,
                client_count=len(each.clients),
                eliminated=[(client, stability_text(each, client)) for client in decision.eliminated],
                absent=[_absence(each.record, client) for client in (*each.record.absent, *each.record.resting)],
                budget=estimate_parts(each.budget, decimals=decimals, signed=True),
                tsw=estimate_parts(tsw, decimals=decimals, signed=True),
                moved=number(moved, decimals=decimals),
            )
        )
    return rows


def _absence(record: RoundRecord, client: str) -> str:
    if client in record.resting:
        return f"{client} (resting)"
    return f"{client} (silent)" if client in record.silent else client


def has_stability(run_report: RunReport) -> bool:
    return any(each.record.draw_count is not None for each in run_report.rounds)


def stability_text(each: RoundReport, client: str) -> str:
    if client in each.record.decision.harmful:
        return "harmful"  # found by a test, not decided on draws
    stability = each.record.stability_of(client)
    return percent(None if stability is None else stability.share)
