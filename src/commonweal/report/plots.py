"""The plots of a run report, each drawn for a width: 720 points for a desktop, 360 for a phone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from commonweal.records import ClientRound, Estimate, RunReport
from commonweal.records.run_report import OUTSIDE
from commonweal.report.alone_or_together import alone_plots
from commonweal.report.client_lines import CLIENTS_DRAWN, lines_by_client, which_drawn
from commonweal.report.decision_map import has_mu, maps_of_run
from commonweal.report.drawing import (
    TEXT_SIZE,
    Plot,
    amount_text,
    blank_figure,
    new_figure,
    quiet,
    round_axis,
)
from commonweal.report.metric_text import MetricText
from commonweal.report.palette import GRID, INK, MUTED, PAPER, RETAINED, ZERO, client_styles
from commonweal.report.text import number, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_AMOUNTS_SHOWN = 8  # a matrix of more clients has no room for amounts


def plots(run_report: RunReport) -> tuple[Plot, ...]:
    """All plots that go to the folder `figures`."""

    def plot(name: str, title: str, draw: Callable[[RunReport, float], Figure]) -> Plot:
        return Plot(name=name, title=title, draw=lambda width: draw(run_report, width))

    def each(name: str, title: str, draw: Callable[[RunReport, float], Figure]) -> Plot:
        return plot(name, title + which_drawn(run_report), draw)

    heading = MetricText.of(run_report).heading
    has_mean = bool(in_all_rounds(run_report))
    return (
        *alone_plots(run_report),
        each("durations", "Rounds each client took part in", durations),
        each(metric_plot_name(run_report), f"{heading} of each client after each round", metric),
        *([plot("mean", f"Mean {run_report.metric.label} of the same clients after each round", mean)] * has_mean),
        each("profits", "Profit of each client in each round", profits),
        each("contributions", "Contribution of each client in each round", contributions),
        plot("tsw", "TSW: total social welfare after each round", tsw),
        plot("tsfi", "TSFI: total selection fairness index after each round", tsfi),
        each("payments", "Who paid whom, over all rounds", payments),
        each("transfers", "What each client has received (+) or paid (−) up to each round", transfers),
        *(
            [plot("decision-maps", "Who is retained at which mu: dark = retained, light = eliminated", maps_of_run)]
            if has_mu(run_report)
            else []
        ),
    )


def durations(run_report: RunReport, width: float) -> Figure:
    """A bar per client: solid if it stayed to the end, pale and crossed if it left."""
    styles = client_styles(run_report.clients)
    clients = run_report.clients[:CLIENTS_DRAWN]
    figure = new_figure(width, 21.0 * len(clients) + 34)
    axes = figure.subplots()
    for row, client in enumerate(clients):
        rounds, left = run_report.durations[client], run_report.left_after.get(client)
        colour = styles[client].colour
        axes.barh(row, rounds, height=0.62, color=PAPER, linewidth=0)  # so that the grid does not show through
        axes.barh(row, rounds, height=0.62, color=colour, alpha=0.38 if left else 1.0, linewidth=0)
        if left:
            axes.plot([rounds], [row], marker="X", markersize=9, color=colour, markeredgecolor=PAPER, clip_on=False)
        fate = run_report.fate_of(client)
        axes.annotate(
            f"{rounds} · {fate}", (rounds, row), (8, 0), textcoords="offset points", va="center", fontsize=TEXT_SIZE,
            color=MUTED, annotation_clip=False,
        )  # fmt: skip
    quiet(axes)
    axes.spines["bottom"].set_visible(False)
    axes.set_yticks(range(len(clients)), [shortened(c, 18) for c in clients], color=INK)
    axes.set_ylim(len(clients) - 0.45, -0.55)
    axes.set_xlim(0, run_report.round_count)
    axes.locator_params(axis="x", integer=True, nbins=8)
    axes.set_xlabel("rounds", fontsize=TEXT_SIZE, color=MUTED)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    return figure


def metric_plot_name(run_report: RunReport) -> str:
    return "accuracy" if run_report.metric.name == "accuracy" else "metric"


def metric(run_report: RunReport, width: float) -> Figure:
    """Of the round's model on each client's validation samples, with gaps where it cannot be measured."""
    points = {
        client: {each.number: each.clients[client].accuracy for each in run_report.rounds if client in each.clients}
        for client in run_report.clients
    }
    return lines_by_client(run_report, points, width=width, value_text=MetricText.of(run_report).tick)


def in_all_rounds(run_report: RunReport) -> tuple[str, ...]:
    """The clients at which the metric was measured in every round: their mean does not change because others leave."""
    return tuple(
        client
        for client in run_report.clients
        if all(
            client in each.clients and not math.isnan(each.clients[client].accuracy.value) for each in run_report.rounds
        )
    )


def mean(run_report: RunReport, width: float) -> Figure:
    """The mean metric of the clients that were measured in all rounds; their validation samples are independent."""
    same, means = in_all_rounds(run_report), []
    for each in run_report.rounds:
        measured = [each.clients[client].accuracy for client in same]
        errors = [one.standard_error for one in measured if one.standard_error is not None]
        error = math.hypot(*errors) / len(same) if len(errors) == len(same) else None
        means.append(Estimate(value=math.fsum(one.value for one in measured) / len(same), standard_error=error))
    figure = _total(run_report, means, width)
    figure.axes[0].yaxis.set_major_formatter(lambda value, _: MetricText.of(run_report).tick(value))
    return figure


def profits(run_report: RunReport, width: float) -> Figure:
    """Before transfers; below zero a client made a loss."""
    return _by_client(run_report, lambda figures: figures.profit, width)


def contributions(run_report: RunReport, width: float) -> Figure:
    """As measured, before any rule."""
    return _by_client(run_report, lambda figures: figures.contribution, width)


def _by_client(run_report: RunReport, figure_of: Callable[[ClientRound], Estimate], width: float) -> Figure:
    points = {
        client: {
            each.number: _with_finite_error(figure_of(each.clients[client]))
            for each in run_report.rounds
            if client in each.clients
        }
        for client in run_report.clients
    }
    return lines_by_client(run_report, points, width=width, value_text=amount_text)


def _with_finite_error(estimate: Estimate) -> Estimate:
    """A sampled contribution of which only one sample is known has an infinite error, which cannot be drawn."""
    is_known = estimate.standard_error is not None and math.isfinite(estimate.standard_error)
    return estimate if is_known else Estimate(value=estimate.value, standard_error=None)


def tsw(run_report: RunReport, width: float) -> Figure:
    figure = _total(run_report, run_report.tsw, width)
    axes = figure.axes[0]
    axes.set_ylim(min(axes.get_ylim()[0], 0.0), max(axes.get_ylim()[1], 0.0))
    axes.axhline(0, color=ZERO, linewidth=1)
    axes.yaxis.set_major_formatter(lambda value, _: amount_text(value))
    return figure


def tsfi(run_report: RunReport, width: float) -> Figure:
    figure = _total(run_report, run_report.tsfi, width)
    axes = figure.axes[0]
    low = min(axes.get_ylim()[0], 0.0)
    axes.set_ylim(low, max(axes.get_ylim()[1], 1.04))
    return figure


def _total(run_report: RunReport, totals: Sequence[Estimate], width: float) -> Figure:
    """One total of the whole federation, ± one standard error."""
    figure = new_figure(width, 210.0)
    axes = figure.subplots()
    rounds = [each.number for each in run_report.rounds]
    values = [total.value for total in totals]
    errors = [total.standard_error or 0.0 for total in totals]
    axes.errorbar(rounds, values, errors, color=RETAINED, linestyle="none", linewidth=3, alpha=0.35)
    if len(rounds) > 1:
        low = [value - error for value, error in zip(values, errors, strict=True)]
        high = [value + error for value, error in zip(values, errors, strict=True)]
        axes.fill_between(rounds, low, high, color=RETAINED, alpha=0.15, linewidth=0)
    axes.plot(rounds, values, color=RETAINED, linewidth=2, marker="o" if len(rounds) <= 30 else None, markersize=4)
    quiet(axes)
    round_axis(axes, rounds[-1])
    return figure


def transfers(run_report: RunReport, width: float) -> Figure:
    """Sums of transfers so far, without bands, because errors of different rounds are not independent."""
    points: dict[str, dict[int, Estimate]] = {client: {} for client in run_report.clients}
    for client in run_report.clients:
        so_far = 0.0
        for each in run_report.rounds:
            if client in each.clients:
                so_far += each.record.decision.transfers.get(client, 0.0)
                points[client][each.number] = Estimate(value=so_far, standard_error=None)
    return lines_by_client(run_report, points, width=width, value_text=amount_text)


def payments(run_report: RunReport, width: float) -> Figure:
    """Payers by receivers; the stronger the colour, the more was paid."""
    totals = payment_totals(run_report)
    if not totals:
        return blank_figure(width, "No money moved.")
    paying, receiving = {payer for payer, _ in totals}, {receiver for _, receiver in totals}
    parties = (*run_report.clients, OUTSIDE)
    payers = [client for client in parties if client in paying][:CLIENTS_DRAWN]
    receivers = [client for client in parties if client in receiving][:CLIENTS_DRAWN]
    rows, columns = ({client: n for n, client in enumerate(drawn)} for drawn in (payers, receivers))
    figure = new_figure(width, 26.0 * len(payers) + 100)
    axes = figure.subplots()
    largest = max(totals.values())
    drawn = [
        (columns[receiver], rows[payer], amount, min(0.1 + 0.9 * amount / largest, 1.0))
        for (payer, receiver), amount in totals.items()
        if payer in rows and receiver in columns
    ]
    axes.bar(
        [column for column, *_ in drawn], 0.92, 0.96, [row - 0.46 for _, row, *_ in drawn],
        color=[(RETAINED, depth) for *_, depth in drawn], linewidth=0,
    )  # fmt: skip
    if len(receivers) <= _AMOUNTS_SHOWN:
        for column, row, amount, depth in drawn:
            colour = "#ffffff" if depth > 0.6 else INK
            axes.text(column, row, number(amount), ha="center", va="center", fontsize=TEXT_SIZE, color=colour)
    axes.set_xticks(range(len(receivers)), [shortened(c, 18) for c in receivers], rotation=45)
    axes.set_yticks(range(len(payers)), [shortened(c, 18) for c in payers])
    quiet(axes)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(labelcolor=INK, labelsize=TEXT_SIZE)
    axes.set_xlim(-0.5, len(receivers) - 0.5)
    axes.set_ylim(len(payers) - 0.5, -0.5)
    axes.set_xlabel("receiver", fontsize=TEXT_SIZE, color=MUTED)
    axes.set_ylabel("payer", fontsize=TEXT_SIZE, color=MUTED)
    return figure


def payment_totals(run_report: RunReport) -> dict[tuple[str, str], float]:
    """By payer and receiver, over all rounds."""
    amounts: dict[tuple[str, str], list[float]] = {}
    for _, payer, receiver, amount in run_report.payments:
        amounts.setdefault((payer, receiver), []).append(amount)
    return {pair: math.fsum(of_pair) for pair, of_pair in amounts.items()}
