"""One client's part of the report: what it is, what became of it and why, its rounds and its money."""

from __future__ import annotations

import math
from collections.abc import Sequence

from commonweal.records import ClientRound, Estimate, MuRange, RoundReport, RunReport
from commonweal.report.markup import amount_markup, definitions, estimate_markup, name_markup, row, table, term, text
from commonweal.report.number_text import counted, decimals_for, number, percent, with_error
from commonweal.report.palette import client_styles

_HEADINGS = ("round", "accuracy", "utility", "cost", "profit", "contribution", "share", "payoff", "transfer")


def anchor(chronicle: RunReport, client: str) -> str:
    """By number: a name may hold anything."""
    return f"client-{chronicle.clients.index(client) + 1}"


def fate(chronicle: RunReport, client: str) -> str:
    if client in chronicle.withdrawn_after:
        return f"withdrew after round {chronicle.withdrawn_after[client]}"
    left = chronicle.eliminated_after[client]
    return "stayed to the end" if left is None else f"left after round {left}"


def client_link(chronicle: RunReport, client: str) -> str:
    """A link to the client's section, with its colour."""
    return f'<a href="#{anchor(chronicle, client)}">{_swatch(chronicle, client)}{name_markup(client)}</a>'


def client_section(chronicle: RunReport, client: str) -> str:
    """Everything about one client, folded until asked for."""
    return f"""<details class="client" id="{anchor(chronicle, client)}">
<summary><h3>{_swatch(chronicle, client)}{name_markup(client)}</h3>
<span class="fate">{fate(chronicle, client)}, {counted(chronicle.durations[client], "round")}</span></summary>
<div class="client-body">
{_why(chronicle, client)}
<div class="pair">
<div><h4>Facts</h4>{definitions(chronicle.client_facts.get(client, {}), "facts")}</div>
<div><h4>Money in total</h4>{_money(chronicle, client)}</div>
</div>
<h4>Round by round</h4>
{_rounds(chronicle, client)}
{_reasons(chronicle, client)}
{_events(chronicle, client)}
</div>
</details>"""


def in_words(ranges: Sequence[MuRange] | None, *, grace: bool = False) -> str:
    """Ranges of μ in words."""
    if grace:
        return "any (grace)"
    if ranges is None:
        return "not known"
    return " or ".join(map(str, ranges)) or "never"


def _swatch(chronicle: RunReport, client: str) -> str:
    colour = client_styles(chronicle.clients)[client].colour
    return f'<span class="swatch" style="background: var(--ink-{colour[1:]})"></span>'


def _took_part(chronicle: RunReport, client: str) -> list[tuple[RoundReport, ClientRound]]:
    return [(held, held.clients[client]) for held in chronicle.rounds if client in held.clients]


def _why(chronicle: RunReport, client: str) -> str:
    """The sentence of its last round; for who was let go, also the μ that would have kept it."""
    rounds = _took_part(chronicle, client)
    if not rounds:
        return '<p class="why">It took part in no round.</p>'
    held, last = rounds[-1]
    if chronicle.eliminated_after[client] is None:
        return f'<h4>Why it stayed</h4><p class="why">Round {held.number}. {text(last.sentence)}</p>'
    return (
        f'<h4>Why it was let go</h4><p class="why">Round {held.number}. {text(last.sentence)}</p>'
        f"<p>The round was decided at mu = {number(held.record.decision.mu)}; it would have stayed for "
        f"{term('mu, leniency', 'mu')}: <strong>{text(in_words(last.stays_for_mu))}</strong>.</p>"
    )


def _money(chronicle: RunReport, client: str) -> str:
    transfers = [held.record.decision.transfers.get(client, 0.0) for held in chronicle.rounds]
    received = math.fsum(amount for amount in transfers if amount > 0)
    paid = -math.fsum(amount for amount in transfers if amount < 0)
    decimals = decimals_for((received, paid, chronicle.total_payoffs[client].value))

    def shown(total: Estimate) -> str:
        return with_error(total, decimals=decimals, signed=True)

    return definitions(
        {
            "received": amount_markup(received, decimals=decimals),
            "paid": amount_markup(-paid, decimals=decimals),
            "transfers": shown(chronicle.total_transfers[client]),
            "payoffs": shown(chronicle.total_payoffs[client]),
        },
        "facts money",
    )


def _rounds(chronicle: RunReport, client: str) -> str:
    rounds = _took_part(chronicle, client)

    def decimals(values: Sequence[Estimate | float | None]) -> int | None:
        return decimals_for(v.value if isinstance(v, Estimate) else v for _, v in zip(rounds, values, strict=True))

    figures = [each for _, each in rounds]
    money = decimals_for(
        amount.value
        for each in figures
        for amount in (each.utility, each.profit, each.payoff, each.transfer)
        if amount is not None
    )
    contribution = decimals([each.contribution for each in figures])
    rows: list[str] = []
    for held in chronicle.rounds:
        if client in held.record.absent:
            rows.append(
                f'<tr class="quiet"><th scope="row">{held.number}</th><td colspan="{len(_HEADINGS)}">absent</td></tr>'
            )
        if client not in held.clients:
            continue
        each = held.clients[client]
        private = '<span class="quiet">private</span>'
        cells = [
            _accuracy(each.accuracy),
            private if each.utility is None else estimate_markup(each.utility, decimals=money, signed=True),
            private if each.cost is None else amount_markup(each.cost, decimals=money, signed=False),
            estimate_markup(each.profit, decimals=money, signed=True),
            estimate_markup(each.contribution, decimals=contribution, signed=True),
            estimate_markup(each.share, decimals=3),
            estimate_markup(each.payoff, decimals=money, signed=True),
            estimate_markup(each.transfer, decimals=money, signed=True),
            text(in_words(each.stays_for_mu, grace=held.record.decision.grace)),
        ]
        left = client in held.record.decision.eliminated
        rows.append(row(f"{held.number}{' ✕' if left else ''}", cells, "left" if left else ""))
    headings = [*(term(word) for word in _HEADINGS), term("mu, leniency", "stays for mu")]
    return table(label=f"Rounds of {client}", headings=headings, rows=rows, css_class="figures")


def _accuracy(accuracy: Estimate) -> str:
    error = f'<span class="error"> ± {100 * accuracy.standard_error:.1f}</span>' if accuracy.standard_error else ""
    return f"{percent(accuracy.value)}{error}"


def _reasons(chronicle: RunReport, client: str) -> str:
    items = "".join(
        f"<li><span>Round {held.number}</span> {text(each.sentence)}</li>"
        for held, each in _took_part(chronicle, client)
    )
    return f'<details class="more"><summary>The reason in each round</summary><ul class="log">{items}</ul></details>'


def _events(chronicle: RunReport, client: str) -> str:
    items = "".join(
        f"<li><span>Round {held.number}</span> {text(event.text)}</li>"
        for held in chronicle.rounds
        for event in held.events
        if event.client == client
    )
    return f'<h4>Events</h4><ul class="log">{items}</ul>' if items else ""
