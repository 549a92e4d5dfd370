"""The federation's part of the report, from the first glance to the single round."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from commonweal.records import RoundReport, RunReport
from commonweal.report import figures
from commonweal.report.client_section import client_link, fate
from commonweal.report.decision_map_figures import MAPS_SHOWN, decision_map_of, telling_rounds
from commonweal.report.inline_svg import in_both_widths, inline_svg
from commonweal.report.markup import amount_markup, definitions, estimate_markup, name_markup, row, table, term, text
from commonweal.report.number_text import MISSING, counted, decimals_for, number, with_error
from commonweal.report.panels import NARROW
from commonweal.report.payment_figures import payment_totals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WARNINGS_SHOWN = 3


def warnings_box(chronicle: RunReport) -> str:
    """All warnings; beyond the first three on request."""
    if not chronicle.warnings:
        return ""
    items = [f"<li>{text(warning)}</li>" for warning in chronicle.warnings]
    first, rest = "".join(items[:_WARNINGS_SHOWN]), "".join(items[_WARNINGS_SHOWN:])
    more = f'<details class="more"><summary>{len(items) - _WARNINGS_SHOWN} more</summary><ul>{rest}</ul></details>'
    return f'<section class="warnings"><h2>Please note</h2><ul>{first}</ul>{more if rest else ""}</section>'


def key_numbers(chronicle: RunReport) -> str:
    """What a reader asks first."""
    stayed = len(chronicle.clients) - len(chronicle.departed_after)
    moved = math.fsum(amount for *_, amount in chronicle.payments)
    held = len(chronicle.rounds)
    tsw = with_error(chronicle.tsw[-1], decimals=decimals_for((chronicle.tsw[-1].value,)), signed=True)
    tsfi = with_error(chronicle.tsfi[-1], decimals=3)
    tiles = (
        ("Rounds held", str(held), f"of {chronicle.round_count} planned"),
        ("Stayed", str(stayed), f"of {len(chronicle.clients)} clients"),
        (term("TSW"), *_split(tsw, "welfare in total")),
        (term("TSFI"), *_split(tsfi, "selection fairness, at best 1")),
        ("Money moved", number(moved, decimals=decimals_for((moved,))), "paid from client to client"),
    )
    return "".join(
        f"<div><dt>{label}</dt><dd><strong>{value}</strong><small>{note}</small></dd></div>"
        for label, value, note in tiles
    )


def _split(figure: str, note: str) -> tuple[str, str]:
    value, _, error = figure.partition(" ± ")
    return value, f"± {error} · {note}" if error else note


def figure(chronicle: RunReport, name: str) -> str:
    """A figure in two drawings, for wide and for narrow pages; the style sheet shows one of them."""
    picture = next(each for each in figures.pictures(chronicle) if each.name == name)
    drawings = in_both_widths(picture.draw, name=name, title=picture.title)
    return f'<figure id="figure-{name}">{drawings}</figure>'


def tile(chronicle: RunReport, name: str) -> str:
    """A figure that needs no more width than a phone has."""
    picture = next(each for each in figures.pictures(chronicle) if each.name == name)
    drawing = inline_svg(_at(picture, NARROW), name=name, title=picture.title, css_class="figure")
    return f'<figure id="figure-{name}"><figcaption>{text(picture.title)}</figcaption>{drawing}</figure>'


def _at(picture: figures.Picture, width: float) -> Callable[[], Figure]:
    return lambda: picture.draw(width)


def payments_table(chronicle: RunReport) -> str:
    """Payers by receivers, with sums; the deeper the colour, the more was paid."""
    totals = payment_totals(chronicle)
    if not totals:
        return "<p>No money moved.</p>"
    payers = [c for c in chronicle.clients if any(payer == c for payer, _ in totals)]
    receivers = [c for c in chronicle.clients if any(receiver == c for _, receiver in totals)]
    largest = max(totals.values())
    received = [math.fsum(totals.get((p, r), 0.0) for p in payers) for r in receivers]
    decimals = decimals_for(totals.values())

    def cell(payer: str, receiver: str) -> str:
        amount = totals.get((payer, receiver))
        if amount is None:
            return f'<span class="quiet">{MISSING}</span>'
        return f'<span class="heat" style="--depth: {amount / largest:.2f}">{number(amount, decimals=decimals)}</span>'

    rows = [
        row(
            client_link(chronicle, payer),
            [
                *(cell(payer, receiver) for receiver in receivers),
                number(math.fsum(totals.get((payer, r), 0.0) for r in receivers), decimals=decimals),
            ],
        )
        for payer in payers
    ]
    sums = [*received, math.fsum(received)]
    rows.append(row("received", [number(amount, decimals=decimals) for amount in sums], "sum"))
    headings = ["paid by ↓ to →", *(name_markup(receiver) for receiver in receivers), "paid"]
    return table(label="Who paid whom", headings=headings, rows=rows, css_class="figures payments")


def balances_table(chronicle: RunReport) -> str:
    """What each client has in the end."""
    decimals = decimals_for(
        total.value for totals in (chronicle.total_transfers, chronicle.total_payoffs) for total in totals.values()
    )
    rows = [
        row(
            client_link(chronicle, client),
            [
                fate(chronicle, client),
                estimate_markup(chronicle.total_transfers[client], decimals=decimals, signed=True),
                estimate_markup(chronicle.total_payoffs[client], decimals=decimals, signed=True),
            ],
        )
        for client in chronicle.clients
    ]
    headings = ["client", "", term("transfer", "transfers"), term("payoff", "payoffs")]
    return table(label="Totals by client", headings=headings, rows=rows, css_class="figures totals")


def decision_maps(chronicle: RunReport) -> str:
    """The map of each round in which somebody could have left; beyond the fifteenth on request."""
    rounds = telling_rounds(chronicle)
    in_grace = [held.number for held in chronicle.rounds if held.record.decision.grace]
    unmapped = [
        held.number for held in chronicle.rounds if held.decision_map is None and not held.record.decision.grace
    ]
    unmoved = [held.number for held in chronicle.rounds if held not in rounds and held.decision_map is not None]
    parts = []
    if in_grace:
        parts.append(f"<p>{_numbered(in_grace)}: grace, nobody could be let go.</p>")
    if unmoved:
        parts.append(f"<p>{_numbered(unmoved)}: everybody stays at any mu.</p>")
    if unmapped:
        parts.append(f"<p>{_numbered(unmapped)}: no map, as the decision changes at too many mu to follow.</p>")
    first, rest = rounds[:MAPS_SHOWN], rounds[MAPS_SHOWN:]
    if first:
        parts.append(f'<div class="maps">{"".join(map(_map, first))}</div>')
    if rest:
        parts.append(
            f'<details class="more"><summary>Maps of {counted(len(rest), "later round")}</summary>'
            f'<div class="maps">{"".join(map(_map, rest))}</div></details>'
        )
    return "".join(parts)


def _numbered(rounds: Sequence[int]) -> str:
    """ "Round 3", "Rounds 1 to 3, 5"."""
    runs: list[list[int]] = []
    for number_ in rounds:
        if runs and number_ == runs[-1][-1] + 1:
            runs[-1].append(number_)
        else:
            runs.append([number_])
    spans = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return f"Round{'s' if len(rounds) > 1 else ''} {', '.join(spans)}"


def _map(held: RoundReport) -> str:
    drawing = inline_svg(
        lambda: decision_map_of(held),
        name=f"map-{held.number}",
        title=f"Decision map of round {held.number}: who stays at which mu",
        css_class="figure",
    )
    return f"<figure>{drawing}</figure>"


def rounds_table(chronicle: RunReport) -> str:
    """One line a round."""
    money = decimals_for([*(held.budget.value for held in chronicle.rounds), *(t.value for t in chronicle.tsw)])
    rows = []
    for place, held in enumerate(chronicle.rounds):
        decision = held.record.decision
        cells = [
            str(len(held.clients)),
            _names(decision.eliminated),
            _names(held.record.absent),
            estimate_markup(held.budget, decimals=money, signed=True),
            estimate_markup(chronicle.tsw[place], decimals=money, signed=True),
            estimate_markup(chronicle.tsfi[place], decimals=3),
            amount_markup(math.fsum(a for a in decision.transfers.values() if a > 0), decimals=money, signed=False),
        ]
        rows.append(row(str(held.number), cells, "left" if decision.eliminated else ""))
    headings = [
        term("round"), "took part", term("retained, eliminated", "eliminated"), term("absent"), term("budget"),
        term("TSW"), term("TSFI"), "money moved",
    ]  # fmt: skip
    return table(label="Rounds", headings=headings, rows=rows, css_class="figures rounds")


def _names(clients: tuple[str, ...]) -> str:
    return ", ".join(map(name_markup, clients)) or f'<span class="quiet">{MISSING}</span>'


def events_list(chronicle: RunReport) -> str:
    items = "".join(
        f"<li><span>Round {held.number}</span> {text(event.text)}</li>"
        for held in chronicle.rounds
        for event in held.events
    )
    return f'<h3>Events</h3><ul class="log">{items}</ul>' if items else ""


def settings_list(chronicle: RunReport) -> str:
    rules = chronicle.rules
    cap = "none" if rules.liability_cap is None else number(rules.liability_cap)
    return definitions(
        {
            **chronicle.settings,
            "liability cap": cap,
            "clients' own word": ", ".join(name.replace("_", " ") for name in chronicle.declared),
        },
        "facts settings",
    )
