"""The section "Alone or together" of a run's page: what each client has without the federation and within it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from commonweal.records import Advice, ClientRound, ClientVerdict, Estimate, Improvement, RunReport
from commonweal.report.client_lines import CLIENTS_DRAWN, lines_beside, which_drawn
from commonweal.report.drawing import TEXT_SIZE, Plot, blank_figure, new_figure, quiet
from commonweal.report.inline_svg import InlinePlot, in_both_widths
from commonweal.report.metric_text import MetricText
from commonweal.report.palette import GRID, HELD, INK, MUTED, NOT_HELD, UNDECIDED, ZERO
from commonweal.report.text import MISSING, decimals_for, number, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS: dict[ClientVerdict, str] = {"gains": HELD, "loses": NOT_HELD, "unclear": UNDECIDED, "unmeasurable": MUTED}
_MARKERS: dict[ClientVerdict, str] = {"gains": "o", "loses": "X", "unclear": "D", "unmeasurable": ""}
_WORDS: dict[ClientVerdict, tuple[str, str]] = {  # in a table, and its style
    "gains": ("gains", "held"),
    "loses": ("better alone", "not-held"),
    "unclear": ("not clear", "undecided"),
    "unmeasurable": ("not measurable", "undecided"),
}
_SENTENCES_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAlone:
    """One client's row: figures of its last round, and costs over all its rounds."""

    client: str
    last_round: int
    alone: tuple[str, str]
    together: tuple[str, str]
    difference: tuple[str, str]
    cost_alone: str | None  # None: private, like the cost
    cost: str | None
    verdict: str
    style: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AloneOrTogether:
    """The content of the section."""

    sentence: str
    lead: str
    unit: str  # of differences, or ""
    costs: str  # a sentence, or ""
    plots: Sequence[InlinePlot]
    rows: Sequence[ClientAlone]
    shows_sentences: bool  # without being asked


def alone_or_together(run_report: RunReport) -> AloneOrTogether | None:
    """None if nobody trained a model alone."""
    advice = run_report.advice
    if advice is None:
        return None
    better = "right" if run_report.metric.higher_is_better else "left"
    return AloneOrTogether(
        sentence=advice.sentence,
        lead=(
            "Beside the federation every client trains a model alone, on its own samples, with all iterations of each "
            "round even where the federation stops earlier. "
            "Both models are measured on the same validation samples of the client. A point beyond twice its error "
            f"counts as a real difference: to the {better} of zero the federation's model is better."
            + (
                " A client that left early is judged by its last round, when models had seen fewer samples."
                if any(client in advice.clients for client in run_report.left_after)
                else ""
            )
        ),
        unit=MetricText.of(run_report).difference_unit,
        costs=_cost_sentence(run_report),
        plots=[in_both_widths(plot) for plot in alone_plots(run_report)],
        rows=_rows(run_report, advice),
        shows_sentences=len(advice.clients) <= _SENTENCES_SHOWN,
    )


def alone_plots(run_report: RunReport) -> tuple[Plot, ...]:
    """The plots of the section; none if nobody trained a model alone."""
    if run_report.advice is None:
        return ()
    text = MetricText.of(run_report)
    unit = f", in {text.difference_unit}" if text.difference_unit else ""
    which = which_drawn(run_report)
    return (
        Plot(
            name="differences",
            title=f"{text.heading} in the federation minus alone, last round, ± twice the standard error{unit}{which}",
            draw=lambda width: differences(run_report, width),
        ),
        Plot(
            name="alone",
            title=f"{text.heading} in the federation (coloured) and alone (grey, dashed) after each round{which}",
            draw=lambda width: over_rounds(run_report, width),
        ),
    )


def differences(run_report: RunReport, width: float) -> Figure:
    """A point per client with the interval on which its advice rests."""
    assert run_report.advice is not None
    told, text = dict(list(run_report.advice.clients.items())[:CLIENTS_DRAWN]), MetricText.of(run_report)
    if all(one.improvement is None for one in told.values()):
        return blank_figure(width, "Differences cannot be measured at any client.")
    sign = 1.0 if run_report.metric.higher_is_better else -1.0
    figure = new_figure(width, 19.0 * len(told) + 40)
    axes = figure.subplots()
    axes.axvline(0, color=ZERO, linewidth=1)
    limit = _limit([one.improvement for one in told.values() if one.improvement is not None])
    for row, one in enumerate(told.values()):
        if one.improvement is None:
            axes.annotate("not measurable", (0, row), (6, 0), textcoords="offset points", va="center",
                          fontsize=TEXT_SIZE - 1, color=MUTED)  # fmt: skip
            continue
        colour = _COLOURS[one.verdict]
        low, high = sorted((sign * one.improvement.low, sign * one.improvement.high))
        ends = [min(max(end, -limit), limit) for end in (low, high)]
        axes.plot(ends, [row, row], color=colour, linewidth=2, alpha=0.55)
        if low < -limit:
            axes.plot([-limit], [row], marker="<", markersize=5, color=colour)
        if high > limit:
            axes.plot([limit], [row], marker=">", markersize=5, color=colour)
        if abs(one.improvement.mean) <= limit:
            axes.plot([sign * one.improvement.mean], [row], marker=_MARKERS[one.verdict], markersize=6, color=colour)
    quiet(axes)
    axes.spines["bottom"].set_visible(False)
    axes.set_yticks(range(len(told)), [shortened(client, 18) for client in told])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_ylim(len(told) - 0.4, -0.6)
    axes.xaxis.set_major_formatter(lambda value, _: text.difference_tick(value))
    axes.locator_params(axis="x", nbins=6)
    unit = f" ({text.difference_unit})" if text.difference_unit else ""
    axes.set_xlabel(f"difference in {run_report.metric.label}{unit}", fontsize=TEXT_SIZE, color=MUTED)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    return figure


def _limit(improvements: Sequence[Improvement]) -> float:
    """How far the axis reaches: a few very wide intervals end in arrows, so that the others can be told apart."""
    reach = sorted(max(abs(one.low), abs(one.high)) for one in improvements)
    return 2 * reach[3 * len(reach) // 4] or math.inf


def over_rounds(run_report: RunReport, width: float) -> Figure:
    """A small panel per client with the metric of both models."""
    alone: dict[str, dict[int, Estimate]] = {client: {} for client in run_report.clients}
    together: dict[str, dict[int, Estimate]] = {client: {} for client in run_report.clients}
    for each in run_report.rounds:
        for client, figures in each.clients.items():
            if figures.alone is not None:
                alone[client][each.number] = figures.alone
                together[client][each.number] = figures.accuracy
    return lines_beside(run_report, together, alone, width=width, value_text=MetricText.of(run_report).tick)


def _rows(run_report: RunReport, advice: Advice) -> list[ClientAlone]:
    text = MetricText.of(run_report)
    costs = {client: _costs(run_report, client) for client in advice.clients}
    decimals = decimals_for(cost for both in costs.values() for cost in both)
    rows = []
    for client, told in advice.clients.items():
        last_round, last = next(
            (each.number, each.clients[client])
            for each in reversed(run_report.rounds)
            if _has_both(each.clients, client)
        )
        assert last.alone is not None
        assert last.advantage is not None
        spent_alone, spent = costs[client]
        verdict, style = _WORDS[told.verdict]
        rows.append(
            ClientAlone(
                client=client,
                last_round=last_round,
                alone=_known(last.alone, text.parts),
                together=_known(last.accuracy, text.parts),
                difference=_known(last.advantage, text.difference_parts),
                cost_alone=None if spent_alone is None else number(spent_alone, decimals=decimals),
                cost=None if spent is None else number(spent, decimals=decimals),
                verdict=verdict,
                style=style,
                sentence=told.sentence,
            )
        )
    return rows


def _known(estimate: Estimate, parts: Callable[[Estimate], tuple[str, str]]) -> tuple[str, str]:
    """A dash where it cannot be measured: the row's verdict says so."""
    return (MISSING, "") if math.isnan(estimate.value) else parts(estimate)


def _has_both(clients: Mapping[str, ClientRound], client: str) -> bool:
    return client in clients and clients[client].alone is not None


def _costs(run_report: RunReport, client: str) -> tuple[float | None, float | None]:
    """What a client's rounds would have cost it alone, and what they did cost; None where that is private."""
    rounds = [each.clients[client] for each in run_report.rounds if _has_both(each.clients, client)]
    return _sum([figures.alone_cost for figures in rounds]), _sum([figures.cost for figures in rounds])


def _sum(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return math.fsum(known) if len(known) == len(amounts) else None


def _cost_sentence(run_report: RunReport) -> str:
    assert run_report.advice is not None
    both = [_costs(run_report, client) for client in run_report.advice.clients]
    known = [(alone, spent) for alone, spent in both if alone is not None and spent is not None]
    if not known:
        return ""
    alone, spent = (math.fsum(amounts) for amounts in zip(*known, strict=True))
    decimals = decimals_for((alone, spent))
    whose = "All clients" if len(known) == len(both) else f"The {len(known)} clients that show their costs"
    return (
        f"{whose} together spent {number(spent, decimals=decimals)} in the federation; alone, the same rounds would "
        f"have cost them {number(alone, decimals=decimals)}."
    )
