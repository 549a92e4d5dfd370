"""The figures of money: who paid whom, and what each client has received or paid up to each round."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from commonweal.records import Estimate, RunReport
from commonweal.report.client_lines import lines_by_client
from commonweal.report.number_text import number
from commonweal.report.palette import INK, MUTED, STAYS
from commonweal.report.panels import TEXT_SIZE, amount_text, blank_figure, new_figure, quiet
from commonweal.report.shown_names import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_AMOUNTS_SHOWN = 8  # a matrix with more clients a side has no room for figures


def transfers(chronicle: RunReport, width: float) -> Figure:
    """Sums of transfers so far; their errors are not independent from round to round, so no band is drawn."""
    points: dict[str, dict[int, Estimate]] = {client: {} for client in chronicle.clients}
    for client in chronicle.clients:
        so_far = 0.0
        for held in chronicle.rounds:
            if client in held.clients:
                so_far += held.record.decision.transfers.get(client, 0.0)
                points[client][held.number] = Estimate(value=so_far, standard_error=None)
    return lines_by_client(chronicle, points, width=width, value_text=amount_text)


def payments(chronicle: RunReport, width: float) -> Figure:
    """Payers by receivers; the deeper the colour, the more was paid."""
    totals = payment_totals(chronicle)
    payers = [c for c in chronicle.clients if any(payer == c for payer, _ in totals)]
    receivers = [c for c in chronicle.clients if any(receiver == c for _, receiver in totals)]
    if not totals:
        return blank_figure(width, "No money moved.")
    figure = new_figure(width, 26.0 * len(payers) + 100)
    axes = figure.subplots()
    largest = max(totals.values())
    for (payer, receiver), amount in totals.items():
        column, row, depth = receivers.index(receiver), payers.index(payer), min(0.1 + 0.9 * amount / largest, 1.0)
        axes.broken_barh([(column - 0.48, 0.96)], (row - 0.46, 0.92), facecolors=STAYS, alpha=depth)
        if len(receivers) <= _AMOUNTS_SHOWN:
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


def payment_totals(chronicle: RunReport) -> dict[tuple[str, str], float]:
    """By payer and receiver, over all rounds."""
    amounts: dict[tuple[str, str], list[float]] = {}
    for _, payer, receiver, amount in chronicle.payments:
        amounts.setdefault((payer, receiver), []).append(amount)
    return {pair: math.fsum(of_pair) for pair, of_pair in amounts.items()}
