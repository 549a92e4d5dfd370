"""The page of a run report: its content, computed from the records. The markup is in templates/run_report.html."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from commonweal.decision.reasons import how_sure_of_the_end, in_figures
from commonweal.records import ClientRound, Estimate, MuRange, RoundRecord, RoundReport, RunReport, UsedFigures
from commonweal.records.rounds import DEFAULT_MECHANISM
from commonweal.report.alone_or_together import alone_or_together
from commonweal.report.client_lines import CLIENTS_DRAWN
from commonweal.report.decision_map import MAPS_SHOWN, has_mu, map_of_round, rounds_with_choice, scale_of_run
from commonweal.report.glossary import WORDS_ABOUT_MU, metric_meaning, run_glossary
from commonweal.report.inline_svg import InlinePlot, in_both_widths, inline_svg
from commonweal.report.metric_text import MetricText
from commonweal.report.palette import client_styles
from commonweal.report.plots import fate_with_stability, in_all_rounds, metric_plot_name, payment_totals, plots
from commonweal.report.templating import render
from commonweal.report.text import MISSING, counted, decimals_for, estimate_parts, number, shortened, shown, with_error

Parts = tuple[str, str]  # a value and its standard error, or ""
_NAMED_CLIENTS = 6  # more are only counted
_SHOWN = ("durations", "mean", "profits", "expected-profits", "contributions", "tsw", "tsfi", "transfers")
_ALONE_COLUMNS = ("alone", "difference")
_MONEY_COLUMNS = ("utility", "cost", "profit", "contribution", "share", "payoff", "transfer")
_USED_COLUMNS: Mapping[str, Callable[[UsedFigures], Estimate | None]] = {
    "measured profit": lambda used: used.measured_profit,
    "expected profit": lambda used: used.expected_profit,
}  # beside the profit, where it is not used as measured


def to_page(run_report: RunReport) -> str:
    """The whole page; the same run report gives the same text."""
    has_alone = run_report.advice is not None
    return render(
        "run_report.html",
        report=run_report,
        tiles=_tiles(run_report),
        plots=_inline_plots(run_report),
        drawn=_drawn(run_report),
        payments=_payments(run_report),
        paid_in_words=_paid_in_words(run_report),
        loss_in_words=_loss_in_words(run_report),
        has_mu=has_mu(run_report),
        has_stability=_has_stability(run_report),
        decided_by=_decided_by(run_report),
        maps=_maps(run_report),
        rounds=_rounds(run_report),
        events=[(each.number, event.text) for each in run_report.rounds for event in each.events],
        clients=[_client(run_report, client) for client in run_report.clients],
        columns=[
            "round",
            run_report.metric.label,
            *_ALONE_COLUMNS * has_alone,
            *_money_columns(run_report),
            *["stability"] * _has_stability(run_report),
        ],
        metric=MetricText.of(run_report),
        metric_meaning=metric_meaning(run_report.metric),
        unmeasurable=_unmeasurable(run_report),
        welfare_of_all=_welfare_of_all(run_report),
        same_clients=_same_clients(run_report),
        alone=alone_or_together(run_report),
        named={client: _named(run_report, client) for client in run_report.clients},
        glossary=_glossary(run_report),
        words=_words(run_report),
        settings=_settings(run_report),
    )


def _welfare_of_all(run_report: RunReport) -> str:
    welfare = run_report.welfare_of_all
    return number(welfare, decimals=decimals_for((welfare,)), signed=True)


def _decided_by(run_report: RunReport) -> str:
    """A mechanism other than the default, with mu and its parameters; "" for the default one."""
    rules = run_report.rules
    if rules.mechanism == DEFAULT_MECHANISM:
        return ""
    return rules.in_words if run_report.mechanism is None else run_report.mechanism.description


def _tiles(run_report: RunReport) -> list[tuple[str, str, str]]:
    client_count = len(run_report.clients)
    moved = math.fsum(amount for *_, amount in run_report.payments)
    tsw, tsw_error = estimate_parts(run_report.tsw[-1], decimals=decimals_for((run_report.tsw[-1].value,)), signed=True)
    return [
        ("Rounds completed", str(len(run_report.rounds)), f"of {run_report.round_count} planned"),
        ("Stayed", str(client_count - len(run_report.left_after)), f"of {counted(client_count, 'client')}"),
        ("TSW", tsw, _noted(tsw_error, "total welfare")),
        ("Money moved", number(moved, decimals=decimals_for((moved,))), "paid between clients"),
        *_least_stable(run_report),
    ]


def _least_stable(run_report: RunReport) -> list[tuple[str, str, str]]:
    """The elimination that rests most on chance, if it is known how stable eliminations are."""
    known = [
        (stability.share, client, each.number)
        for each in run_report.rounds
        for client in each.record.decision.eliminated
        if (stability := each.record.stability_of(client)) is not None
    ]
    if not known:
        return []
    share, client, round_number = min(known, key=lambda one: one[0])
    return [("Least stable elimination", _percent(share), f"of draws: {shortened(client)}, round {round_number}")]


def _percent(share: float | None) -> str:
    return MISSING if share is None else f"{100 * share:.0f} %"


def _noted(error: str, note: str) -> str:
    return f"± {error} · {note}" if error else note


def _inline_plots(run_report: RunReport) -> dict[str, InlinePlot]:
    metric = metric_plot_name(run_report)
    return {
        "metric" if plot.name == metric else plot.name.replace("-", "_"): in_both_widths(plot)
        for plot in plots(run_report)
        if plot.name in _SHOWN or plot.name == metric
    }


def _same_clients(run_report: RunReport) -> str:
    """The caption of the mean metric: whose it is."""
    same, label = in_all_rounds(run_report), run_report.metric.label
    if not same:
        return f"No client took part in all rounds, so there is no mean {label} of the same clients."
    if len(same) == len(run_report.clients):
        return f"Mean {label} of all clients after each round."
    who = ", ".join(shown(client) for client in same) if len(same) <= _NAMED_CLIENTS else counted(len(same), "client")
    return (
        f"Mean {label} of the same clients after each round: those that took part in all of them ({who}). A mean over "
        "whoever is left would also change because others leave."
    )


def _unmeasurable(run_report: RunReport) -> list[str]:
    """A sentence about each client whose metric could not be measured in some round, with the reason where known."""
    label, sentences = MetricText.of(run_report).heading, []
    for client in run_report.clients:
        missing = [each.number for each in run_report.rounds if _is_unmeasured(each, client)]
        if not missing:
            continue
        took_part = sum(client in each.clients for each in run_report.rounds)
        when = "All rounds" if len(missing) == took_part else _numbered(missing)
        why = _reason(run_report, client) or f"{label} cannot be measured at {client} on its validation samples."
        sentences.append(f"{when}: {why}")
    return sentences


def _is_unmeasured(each: RoundReport, client: str) -> bool:
    return client in each.clients and math.isnan(each.clients[client].accuracy.value)


def _reason(run_report: RunReport, client: str) -> str:
    """The last thing that was said about why a client's metric cannot be measured."""
    said = [
        event.text
        for each in run_report.rounds
        for event in each.events
        if event.kind == "unmeasurable" and event.client == client
    ]
    return said[-1] if said else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Payment:
    amount: str
    depth: str  # how strong the colour is, from 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Payments:
    receivers: Sequence[str]
    rows: Sequence[tuple[_ClientName, Sequence[_Payment | None], str]]  # the payer, its payments by receiver, their sum
    received: Sequence[str]  # by receiver, and in total


def _drawn(run_report: RunReport) -> str:
    """Which clients the plots show, if not all."""
    count = len(run_report.clients)
    if count <= CLIENTS_DRAWN:
        return ""
    return f"Plots of each client show the first {CLIENTS_DRAWN} of {count:,} clients. Tables and totals are of all."


def _paid_in_words(run_report: RunReport) -> str:
    """In place of the table of payments."""
    totals = payment_totals(run_report)
    if not totals:
        return "No money moved."
    payers, receivers = {payer for payer, _ in totals}, {receiver for _, receiver in totals}
    return (
        f"{len(payers):,} clients paid {len(receivers):,} others: too many for a table. Each client's transfers are "
        "in its details."
    )


_LOSS_RULES = {
    "contribution": "by contribution, too",
    "equal": "equally",
    "cost": "by cost",
    "loss": "in proportion to their own losses: profits cover the losses of others first",
}


def _loss_in_words(run_report: RunReport) -> str:
    """How the joint losses of the run were divided; "" if there were none, or its mechanism has a way of its own."""
    losses = [each.number for each in run_report.rounds if each.record.decision.budget < 0]
    rules = run_report.rules
    if not losses or rules.mechanism != DEFAULT_MECHANISM or rules.loss_rule not in _LOSS_RULES:
        return ""
    return (
        f" Where they made a loss together (round{'s' if len(losses) > 1 else ''} "
        f"{_numbered(losses).partition(' ')[2]}), they bore it {_LOSS_RULES[rules.loss_rule]}."
    )


def _payments(run_report: RunReport) -> _Payments | None:
    """Payers by receivers, with sums; the stronger the colour, the more was paid.

    None if nobody paid, or too many did.
    """
    totals = payment_totals(run_report)
    paying, receiving = {payer for payer, _ in totals}, {receiver for _, receiver in totals}
    if not 0 < max(len(paying), len(receiving)) <= CLIENTS_DRAWN:
        return None
    payers = [client for client in run_report.clients if client in paying]
    receivers = [client for client in run_report.clients if client in receiving]
    largest, decimals = max(totals.values()), decimals_for(totals.values())

    def cell(payer: str, receiver: str) -> _Payment | None:
        amount = totals.get((payer, receiver))
        if amount is None:
            return None
        return _Payment(amount=number(amount, decimals=decimals), depth=f"{amount / largest:.2f}")

    def sum_of(pairs: Sequence[tuple[str, str]]) -> float:
        return math.fsum(totals.get(pair, 0.0) for pair in pairs)

    received = [sum_of([(payer, receiver) for payer in payers]) for receiver in receivers]
    return _Payments(
        receivers=receivers,
        rows=[
            (
                _named(run_report, payer),
                [cell(payer, receiver) for receiver in receivers],
                number(sum_of([(payer, receiver) for receiver in receivers]), decimals=decimals),
            )
            for payer in payers
        ],
        received=[number(amount, decimals=decimals) for amount in (*received, math.fsum(received))],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maps:
    sentences: Sequence[str]  # about the rounds without a map
    first: Sequence[InlinePlot]
    later: Sequence[InlinePlot]
    summary: str  # the text that opens the later ones


def _maps(run_report: RunReport) -> _Maps:
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
    sentences = [f"{_numbered(rounds)}: {why}" for rounds, why in sorted(without_map) if rounds]
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


def _numbered(rounds: Sequence[int]) -> str:
    """ "Round 3", "Rounds 1 to 3, 5"."""
    runs: list[list[int]] = []
    for each in rounds:
        if runs and each == runs[-1][-1] + 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    spans = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return f"Round{'s' if len(rounds) > 1 else ''} {', '.join(spans)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    number: int
    client_count: int
    eliminated: Sequence[tuple[str, str]]  # with the stability of that
    absent: Sequence[str]
    budget: Parts
    tsw: Parts
    moved: str


def _rounds(run_report: RunReport) -> list[_Round]:
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
                eliminated=[(client, _stability(each, client)) for client in decision.eliminated],
                absent=[_absence(each.record, client) for client in (*each.record.absent, *each.record.resting)],
                budget=estimate_parts(each.budget, decimals=decimals, signed=True),
                tsw=estimate_parts(tsw, decimals=decimals, signed=True),
                moved=number(moved, decimals=decimals),
            )
        )
    return rows


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


def _glossary(run_report: RunReport) -> dict[str, str]:
    """What the page's tooltips explain."""
    return run_glossary(
        run_report.metric,
        utility=run_report.utility,
        figures=run_report.figures,
        has_alone=run_report.advice is not None,
    )


def _words(run_report: RunReport) -> dict[str, str]:
    """The glossary at the end of the page."""
    words = _glossary(run_report)
    unused = set() if has_mu(run_report) else set(WORDS_ABOUT_MU)
    if not any(each.record.harm for each in run_report.rounds):
        unused.add("harmful")
    if not any(each.record.ending for each in run_report.rounds):
        unused.add("finished")
    return {word: text for word, text in words.items() if word not in unused}


def _settings(run_report: RunReport) -> dict[str, str]:
    cap, mechanism = run_report.rules.liability_cap, run_report.mechanism
    by_default = run_report.rules.mechanism == DEFAULT_MECHANISM
    can_be_capped = by_default if mechanism is None else "liability_cap" in mechanism.honours
    return {
        **run_report.settings,
        **({"liability cap": "none" if cap is None else number(cap)} if can_be_capped else {}),
        "declared by clients": ", ".join(name.replace("_", " ") for name in run_report.declared),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClientName:
    name: str
    anchor: str
    colour: str


def _named(run_report: RunReport, client: str) -> _ClientName:
    """The anchor is a number, because a name may contain any character."""
    place, styles = run_report.clients.index(client) + 1, client_styles(run_report.clients)
    return _ClientName(name=client, anchor=f"client-{place}", colour=styles[client].colour)


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


def _client(run_report: RunReport, client: str) -> _Client:
    named = _named(run_report, client)
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
    return f"{_numbered(rounds)}: the profit is the one that the client reported, not utility minus cost."


def _advice(run_report: RunReport, client: str) -> str:
    advice = run_report.advice
    return advice.clients[client].sentence if advice is not None and client in advice.clients else ""


def _state(run_report: RunReport, client: str) -> str:
    fate = fate_with_stability(run_report, client)
    return fate.replace("stayed", "stayed to the end", 1) if run_report.fate_of(client) == "stayed" else fate


def _has_stability(run_report: RunReport) -> bool:
    return any(each.record.draw_count is not None for each in run_report.rounds)


def _stability(each: RoundReport, client: str) -> str:
    if client in each.record.decision.harmful:
        return "harmful"  # found by a test, not decided on draws
    stability = each.record.stability_of(client)
    return _percent(None if stability is None else stability.share)


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


def _alone_parts(metric: MetricText, figures: ClientRound) -> tuple[Parts, Parts]:
    if figures.alone is None or figures.advantage is None:
        return (MISSING, ""), (MISSING, "")
    return metric.parts(figures.alone), metric.difference_parts(figures.advantage)


def _how_absent(record: RoundRecord, client: str) -> str:
    if client in record.resting:
        return "resting: the mechanism did not ask it to take part"
    return "silent: had the round's model, and did not report" if client in record.silent else "absent"


def _absence(record: RoundRecord, client: str) -> str:
    if client in record.resting:
        return f"{client} (resting)"
    return f"{client} (silent)" if client in record.silent else client


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
                    *([(_stability(each, client), "")] if _has_stability(run_report) else []),
                ],
                retained_for="never (harmful)"
                if client in each.record.decision.harmful
                else _in_words(figures.stays_for_mu, grace=each.record.decision.spares_losses),
            )
        )
    return rows
