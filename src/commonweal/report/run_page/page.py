"""The whole page of a run report."""

from __future__ import annotations

import math

from commonweal.records import RoundReport, RunReport
from commonweal.records.rounds import DEFAULT_MECHANISM
from commonweal.report.alone_or_together import alone_or_together
from commonweal.report.client_lines import CLIENTS_DRAWN
from commonweal.report.decision_map import has_mu
from commonweal.report.glossary import WORDS_ABOUT_MU, metric_meaning, run_glossary
from commonweal.report.inline_svg import InlinePlot, in_both_widths
from commonweal.report.metric_text import MetricText
from commonweal.report.plots import in_all_rounds, metric_plot_name, plots
from commonweal.report.run_page.client_names import client_name
from commonweal.report.run_page.clients import client_details, columns
from commonweal.report.run_page.payments import loss_in_words, paid_in_words, payment_table
from commonweal.report.run_page.rounds import decision_maps, has_stability, round_rows
from commonweal.report.templating import render
from commonweal.report.text import (
    counted,
    decimals_for,
    estimate_parts,
    number,
    numbered_rounds,
    percent,
    shortened,
    shown,
)

_NAMED_CLIENTS = 6  # more are only counted
_SHOWN = ("durations", "mean", "profits", "expected-profits", "contributions", "tsw", "tsfi", "transfers")


def to_page(run_report: RunReport) -> str:
    """The whole page; the same run report gives the same text."""
    return render(
        "run_report.html",
        report=run_report,
        tiles=_tiles(run_report),
        plots=_inline_plots(run_report),
        drawn=_drawn(run_report),
        payments=payment_table(run_report),
        paid_in_words=paid_in_words(run_report),
        loss_in_words=loss_in_words(run_report),
        has_mu=has_mu(run_report),
        has_stability=has_stability(run_report),
        decided_by=_decided_by(run_report),
        maps=decision_maps(run_report),
        rounds=round_rows(run_report),
        events=[(each.number, event.text) for each in run_report.rounds for event in each.events],
        clients=[client_details(run_report, client) for client in run_report.clients],
        columns=columns(run_report),
        metric=MetricText.of(run_report),
        metric_meaning=metric_meaning(run_report.metric),
        unmeasurable=_unmeasurable(run_report),
        welfare_of_all=_welfare_of_all(run_report),
        same_clients=_same_clients(run_report),
        alone=alone_or_together(run_report),
        named={client: client_name(run_report, client) for client in run_report.clients},
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
    return [("Least stable elimination", percent(share), f"of draws: {shortened(client)}, round {round_number}")]


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
        when = "All rounds" if len(missing) == took_part else numbered_rounds(missing)
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


def _drawn(run_report: RunReport) -> str:
    """Which clients the plots show, if not all."""
    count = len(run_report.clients)
    if count <= CLIENTS_DRAWN:
        return ""
    return f"Plots of each client show the first {CLIENTS_DRAWN} of {count:,} clients. Tables and totals are of all."


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
