"""Everything about one client of a run: its state, totals and rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from commonweal.decision.reasons import in_figures
from commonweal.records import ClientRound, Estimate, MuRange, RoundRecord, RoundReport, RunReport, UsedFigures
from commonweal.report.metric_text import MetricText
from commonweal.report.plots import fate_with_stability
from commonweal.report.run_page.client_names import client_name
from commonweal.report.run_page.rounds import has_stability, stability_text
from commonweal.report.text import (
    MISSING,
    Parts,
    counted,
    decimals_for,
    estimate_parts,
    number,
    numbered_rounds,
    with_error,
)

_ALONE_COLUMNS = ("alone", "difference")
_MONEY_COLUMNS = ("utility", "cost", "profit", "contribution", "share", "payoff", "transfer")
_USED_COLUMNS: Mapping[str, Callable[[UsedFigures], Estimate | None]] = {
    "measured profit": lambda used: used.measured_profit,
    "expected profit": lambda used: used.expected_profit,
}  # beside the profit, where it is not used as measured


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastRound:
    number: int
    sentence: str
    eliminated: bool
    mu: str
    retained_for: str  # "": at no mu, since the mechanism did not decide about it


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClientRow:
    """One client's round; only the number is set if the client was absent."""

    number: int
    absent: str = ""  # how it was absent; empty if it was not
    eliminated: bool = False
    figures: Sequence[Parts | None] = ()  # None: private
    retained_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Client:
    """Everything about one client."""

    name: str
    anchor: str
    colour: str
    state: str
    duration: str
    transfers: Parts
    payoffs: Parts
    last: _LastRound | None  # None: it took part in no round
    facts: Mapping[str, str]
    totals: Mapping[str, str]
    rounds: Sequence[_ClientRow]
    advice: str  # whether it gains by federating; "" if it trains no model alone
    harm: _Harm | None  # None: not harmful
    reported: str  # that the profit is not the one it made: by agreed rates, or falsely reported; "" if it is
    reasons: Sequence[tuple[int, str]]
    events: Sequence[tuple[int, str]]


def client_details(run_report: RunReport, client: str) -> _Client:
    named = client_name(run_report, client)
    decimals = decimals_for(
        total.value for totals in (run_report.total_transfers, run_report.total_payoffs) for total in totals.values()
    )
    took_part = [(each, each.clients[client]) for each in run_report.rounds if client in each.clients]
    eliminated = run_report.eliminated_after[client] is not None
    return _Client(
        name=client,
        anchor=named.anchor,
        colour=named.colour,
        state=_state(run_report, client),
        duration=counted(run_report.durations[client], "round"),
        transfers=estimate_parts(run_report.total_transfers[client], decimals=decimals, signed=True),
        payoffs=estimate_parts(run_report.total_payoffs[client], decimals=decimals, signed=True),
        last=_last_round(*took_part[-1], client, eliminated=eliminated) if took_part else None,
        facts=run_report.client_facts.get(client, {}),
        totals=_totals(run_report, client),
        rounds=_client_rounds(run_report, client),
        advice=_advice(run_report, client),
        harm=_harm(run_report, client),
        reported=_by_rates(run_report, client) if run_report.profits == "rates" else _reported(took_part),
        reasons=[(each.number, figures.sentence) for each, figures in took_part],
        events=[
            (each.number, event.text) for each in run_report.rounds for event in each.events if event.client == client
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Harm:
    """The evidence of harm."""

    effects: Mapping[str, str]  # of its updates on the score of each other client
    test: Mapping[str, str]


def _harm(run_report: RunReport, client: str) -> _Harm | None:
    """The last evidence against the client."""
    found = [one for each in run_report.rounds for one in each.record.harm if one.client == client]
    if not found:
        return None
    last = found[-1]
    decimals = decimals_for(last.by_scorer.values())
    return _Harm(
        effects={scorer: number(effect, decimals=decimals, signed=True) for scorer, effect in last.by_scorer.items()},
        test={
            "mean effect": in_figures(last.mean, last.standard_error),
            "upper bound of the mean": number(last.bound, decimals=decimals, signed=True),
            "harmful if the bound is below": number(last.margin, decimals=decimals, signed=True),
            "tests that share the chance of error": f"{last.test_count:,}",
        },
    )


def _by_rates(run_report: RunReport, client: str) -> str:
    sentence, payoff = "Utility, cost and profit follow from the agreed rates.", run_report.actual_payoffs.get(client)
    if payoff is None:
        return sentence
    return (
        f"{sentence} By its own figures the client made {number(payoff, signed=True)} in all its rounds, with its "
        "transfers; this decides only whether it withdraws."
    )


def _reported(took_part: Sequence[tuple[RoundReport, ClientRound]]) -> str:
    rounds = [each.number for each, figures in took_part if figures.actual_profit is not None]
    if not rounds:
        return ""
    return f"{numbered_rounds(rounds)}: the profit is the one that the client reported, not utility minus cost."


def _advice(run_report: RunReport, client: str) -> str:
    advice = run_report.advice
    return advice.clients[client].sentence if advice is not None and client in advice.clients else ""


def _state(run_report: RunReport, client: str) -> str:
    fate = fate_with_stability(run_report, client)
    return fate.replace("stayed", "stayed to the end", 1) if run_report.fate_of(client) == "stayed" else fate


def _last_round(last: RoundReport, figures: ClientRound, client: str, *, eliminated: bool) -> _LastRound:
    return _LastRound(
        number=last.number,
        sentence=figures.sentence,
        eliminated=eliminated,
        mu=number(last.record.decision.mu),
        retained_for="" if client in last.record.decision.harmful else _in_words(figures.stays_for_mu),
    )


def _in_words(ranges: Sequence[MuRange] | None, *, grace: bool = False) -> str:
    if grace:
        return "any (grace)"
    if ranges is None:
        return "not known"
    return " or ".join(map(str, ranges)) or "never"


def _totals(run_report: RunReport, client: str) -> dict[str, str]:
    transfers = [each.record.decision.transfers.get(client, 0.0) for each in run_report.rounds]
    received = math.fsum(amount for amount in transfers if amount > 0)
    paid = math.fsum(amount for amount in transfers if amount < 0)
    decimals = decimals_for((received, paid, run_report.total_payoffs[client].value))
    return {
        "received": number(received, decimals=decimals, signed=True),
        "paid": number(paid, decimals=decimals, signed=True),
        "transfers": with_error(run_report.total_transfers[client], decimals=decimals, signed=True),
        "payoffs": with_error(run_report.total_payoffs[client], decimals=decimals, signed=True),
    }


def _how_absent(record: RoundRecord, client: str) -> str:
    if client in record.resting:
        return "resting: the mechanism did not ask it to take part"
    return "silent: had the round's model, and did not report" if client in record.silent else "absent"


def _client_rounds(run_report: RunReport, client: str) -> list[_ClientRow]:
    took_part = [each.clients[client] for each in run_report.rounds if client in each.clients]
    money = decimals_for(
        amount.value
        for each in took_part
        for amount in (each.utility, each.profit, each.payoff, each.transfer)
        if amount is not None
    )
    contributions = decimals_for(each.contribution.value for each in took_part)
    metric = MetricText.of(run_report)
    rows = []
    for each in run_report.rounds:
        if client in each.record.absent or client in each.record.resting:
            rows.append(_ClientRow(number=each.number, absent=_how_absent(each.record, client)))
        if client not in each.clients:
            continue
        figures = each.clients[client]
        rows.append(
            _ClientRow(
                number=each.number,
                eliminated=client in each.record.decision.eliminated,
                figures=[
                    metric.parts(figures.accuracy),
                    *(_alone_parts(metric, figures) if run_report.advice is not None else ()),
                    None if figures.utility is None else estimate_parts(figures.utility, decimals=money, signed=True),
                    None if figures.cost is None else (number(figures.cost, decimals=money), ""),
                    estimate_parts(figures.profit, decimals=money, signed=True),
                    *_used_parts(run_report, figures, money),
                    estimate_parts(figures.contribution, decimals=contributions, signed=True),
                    estimate_parts(figures.share, decimals=3),
                    estimate_parts(figures.payoff, decimals=money, signed=True),
                    estimate_parts(figures.transfer, decimals=money, signed=True),
                    *([(stability_text(each, client), "")] if has_stability(run_report) else []),
                ],
                retained_for="never (harmful)"
                if client in each.record.decision.harmful
                else _in_words(figures.stays_for_mu, grace=each.record.decision.spares_losses),
            )
        )
    return rows


def columns(run_report: RunReport) -> list[str]:
    """The headings of the table of one client's rounds."""
    return [
        "round",
        run_report.metric.label,
        *_ALONE_COLUMNS * (run_report.advice is not None),
        *_money_columns(run_report),
        *["stability"] * has_stability(run_report),
    ]


def _money_columns(run_report: RunReport) -> list[str]:
    """With the profit as measured and the expected one beside the one used, where they differ."""
    beside = [column for column in _USED_COLUMNS if _has_used(run_report, column)]
    place = _MONEY_COLUMNS.index("profit") + 1
    return [*_MONEY_COLUMNS[:place], *beside, *_MONEY_COLUMNS[place:]]


def _has_used(run_report: RunReport, column: str) -> bool:
    return any(
        figures.used is not None and _USED_COLUMNS[column](figures.used) is not None
        for each in run_report.rounds
        for figures in each.clients.values()
    )


def _used_parts(run_report: RunReport, figures: ClientRound, decimals: int | None) -> list[Parts]:
    columns = [of for column, of in _USED_COLUMNS.items() if _has_used(run_report, column)]
    return [
        estimate_parts(None if figures.used is None else of(figures.used), decimals=decimals, signed=True)
        for of in columns
    ]


def _alone_parts(metric: MetricText, figures: ClientRound) -> tuple[Parts, Parts]:
    if figures.alone is None or figures.advantage is None:
        return (MISSING, ""), (MISSING, "")
    return metric.parts(figures.alone), metric.difference_parts(figures.advantage)
