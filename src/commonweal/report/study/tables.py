"""The tables of a study, from its summary document alone: so what docs quote can be checked against summary.json."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from commonweal.records import MuRange
from commonweal.records.study import DEFAULT_RULE
from commonweal.report.number_text import MISSING, number
from commonweal.report.study.interval_text import interval_text, threshold_text
from commonweal.report.study.mu_text import NO_RECOMMENDATION, leaves_unit_interval, mu_label, range_text
from commonweal.report.study.promoted import promoted_document, rule_note
from commonweal.report.study.verdicts import SYMBOLS, legend, verdict_text

Document = Mapping[str, Any]
_CHOSEN_WHERE_MEASURED = (
    "A recommended mu did best in these replications, those that followed the whole axis. It was chosen on the figures "
    "it is shown with, so that neighbouring mu may do as well with other seeds. Bounds of mu are rounded."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Plain text in rows; the first column says what a row is of."""

    name: str  # "claims", "durations/heterogeneous"
    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()  # to be shown with it


def tables_of(document: Document) -> tuple[Table, ...]:
    """In the order in which a reader meets them; those with nothing to show are left out."""
    document = promoted_document(document)
    made = [claims(document), verdicts(document), changed_verdicts(document), alternatives(document)]
    for experiment in (*document["experiments"], *document["alternatives"]):
        made += [durations(experiment), outcomes(experiment)]
    made += [recommendations(document), sweep_cost(document), runs(document), facts(document)]
    return tuple(table for table in made if table.rows)


def claims(document: Document) -> Table:
    return Table(
        name="claims",
        title="Claims",
        headings=("claim", "statement", "experiment", "effect", "interval", "threshold", "verdict", "replications",
                  "driver"),
        rows=tuple(
            (f["claim"], f["statement"], f["experiment"], f["effect"], interval_of(f["interval"]),
             threshold_text(_float(f["threshold"])), verdict_text(f["verdict"]), str(f["replication_count"]),
             f["driver"])
            for f in document["findings"]
        ),
        notes=_notes(document, {finding["experiment"] for finding in document["findings"]}),
    )  # fmt: skip


def verdicts(document: Document) -> Table:
    """Claims by experiments at one glance; what the numbers are of is in the table of claims."""
    found = document["findings"]
    experiments = [e["name"] for e in document["experiments"] if any(f["experiment"] == e["name"] for f in found)]
    cells = {(f["claim"], f["experiment"]): f"{SYMBOLS[f['verdict']]} {interval_of(f['interval'])}" for f in found}
    statements = {f["claim"]: f["statement"] for f in found}
    return Table(
        name="verdicts",
        title=f"Claims by experiment: {legend()}",
        headings=("claim", "statement", *experiments),
        rows=tuple(
            (claim, statement, *(cells.get((claim, name), "") for name in experiments))
            for claim, statement in statements.items()
        ),
        notes=_notes(document, set(experiments)),
    )


def changed_verdicts(document: Document) -> Table:
    """Where another choice of the settled points changes what became of a claim."""
    changed = [(settled, other) for settled, other in _compared(document) if settled["verdict"] != other["verdict"]]
    return Table(
        name="changed-verdicts",
        title="Where another choice changes a verdict",
        headings=("claim", "experiment", "settled", "verdict", "other choice", "its effect", "its verdict", "why"),
        rows=tuple(
            (other["claim"], other["experiment"], counted_interval(settled), verdict_text(settled["verdict"]),
             other["variant"], counted_interval(other), verdict_text(other["verdict"]), other["driver"])
            for settled, other in changed
        ),
        notes=_notes(document, {other["experiment"] for _, other in changed}),
    )  # fmt: skip


def alternatives(document: Document) -> Table:
    """All claims that were tested under another choice, beside the settled one on the same replications."""
    pairs = list(_compared(document))
    return Table(
        name="alternatives",
        title="Claims under other choices",
        headings=("claim", "experiment", "other choice", "settled", "verdict", "its effect", "its verdict"),
        rows=tuple(
            (other["claim"], other["experiment"], other["variant"], counted_interval(settled),
             verdict_text(settled["verdict"]), counted_interval(other), verdict_text(other["verdict"]))
            for settled, other in pairs
        ),
        notes=_notes(document, {other["experiment"] for _, other in pairs}),
    )  # fmt: skip


def durations(experiment: Document) -> Table:
    """Clients by μ of the grid."""
    grid = experiment["outcomes"]
    return Table(
        name=f"durations/{_place(experiment)}",
        title=f"Durations of {_called(experiment)}, in rounds",
        headings=("client", *(f"mu = {mu_label(_float(outcome['mu']))}" for outcome in grid)),
        rows=tuple(
            (client, *(interval_of(outcome["durations"][client], decimals=2) for outcome in grid))
            for client in experiment["clients"]
            if grid
        ),
        notes=_own_note(experiment),
    )


def outcomes(experiment: Document) -> Table:
    """Welfare and fairness in the end, by μ of the grid."""
    return Table(
        name=f"outcomes/{_place(experiment)}",
        title=f"Outcome of {_called(experiment)} after round {experiment['round_count']}",
        headings=("mu", "TSW", "TSFI", "ended early", "replications"),
        rows=tuple(
            (mu_label(_float(outcome["mu"])), interval_of(outcome["tsw"][-1], decimals=3),
             interval_of(outcome["tsfi"][-1], decimals=3), f"{100 * outcome['ended_early_share']:.0f} %",
             str(outcome["replication_count"]))
            for outcome in experiment["outcomes"]
        ),
        notes=_own_note(experiment),
    )  # fmt: skip


def recommendations(document: Document) -> Table:
    """The μ with the most welfare for each fairness target."""
    rows = []
    for experiment in document["experiments"]:
        count = str(experiment["axis_replication_count"])
        if leaves_unit_interval(_float(step["tsfi"]["value"]) for step in experiment["steps"]):
            rows.append((experiment["name"], MISSING, NO_RECOMMENDATION, MISSING, MISSING, count))
            continue
        for recommendation in experiment["recommendations"]:
            step = recommendation["step"]
            found = (MISSING, MISSING, MISSING)
            if step is not None:
                found = (
                    range_text(_range(step["mus"])),
                    interval_of(step["tsw"], decimals=3),
                    interval_of(step["tsfi"], decimals=3),
                )
            rows.append((experiment["name"], number(_float(recommendation["fairness_target"])), *found, count))
    chosen = [_CHOSEN_WHERE_MEASURED] if any(row[2] not in (MISSING, NO_RECOMMENDATION) for row in rows) else []
    return Table(
        name="recommendations",
        title="The mu with the most welfare among those that are fair enough",
        headings=("experiment", "TSFI of at least", "mu", "TSW", "TSFI", "replications"),
        rows=tuple(rows),
        notes=(*chosen, *_notes(document, {row[0] for row in rows})),
    )


def sweep_cost(document: Document) -> Table:
    """How many rounds had to be computed, and what the whole axis costs beside a single μ."""
    rows = []
    for experiment in document["experiments"]:
        cost = experiment["sweep_cost"]
        if cost is not None:
            one, grid, axis = (_float(cost[key]) for key in ("most_lenient", "grid", "whole_axis"))
            times = f"{axis / one:.1f}" if one else MISSING
            rows.append(
                (experiment["name"], f"{one:.1f}", f"{grid:.1f}", f"{axis:.1f}", times, str(cost["replication_count"]))
            )
    return Table(
        name="sweep-cost",
        title="Rounds that had to be computed in a replication, mean",
        headings=("experiment", "mu = inf alone", "the grid", "the whole axis", "axis over mu = inf", "replications"),
        rows=tuple(rows),
        notes=_notes(document, {row[0] for row in rows}),
    )


def runs(document: Document) -> Table:
    """What was run."""
    everything = (*document["experiments"], *document["alternatives"])
    return Table(
        name="runs",
        title="What was run",
        headings=("experiment", "contribution rule", "replications", "with the whole axis",
                  "seconds of a replication, as it ran", "scenario"),
        rows=tuple(
            (e["name"], e["contribution_rule"], str(e["replication_count"]), str(e["axis_replication_count"]),
             interval_of(e["seconds"], decimals=1), e["scenario_digest"][:12])
            for e in everything
        ),
        notes=_notes(document, {e["name"] for e in everything}),
    )  # fmt: skip


def facts(document: Document) -> Table:
    rows = tuple((name, document["facts"][name]) for name in sorted(document["facts"]))
    return Table(name="facts", title="Facts", headings=("fact", "value"), rows=rows)


def interval_of(written: Document, *, decimals: int | None = None) -> str:
    """An interval of the document as text."""
    value, lower, upper = (_float(written[key]) for key in ("value", "lower", "upper"))
    return interval_text(value, lower, upper, decimals=decimals)


def counted_interval(finding: Document) -> str:
    """ "5.41 (4.79 to 6.03); n = 20"."""
    return f"{interval_of(finding['interval'])}; n = {finding['replication_count']}"


def _compared(document: Document) -> Sequence[tuple[Document, Document]]:
    """Findings under another choice, each with the settled one it is to be compared with."""
    beside = [finding for finding in document["alternative_findings"] if not finding["variant"]]
    pairs = []
    for other in document["alternative_findings"]:
        if not other["variant"]:
            continue
        same = [f for f in (*beside, *document["findings"])
                if (f["claim"], f["experiment"]) == (other["claim"], other["experiment"])]  # fmt: skip
        # On as many replications if there is one: fewer can change a verdict by themselves.
        same.sort(key=lambda f: f["replication_count"] != other["replication_count"])
        if same:
            pairs.append((same[0], other))
    return pairs


def _notes(document: Document, experiments: set[str]) -> tuple[str, ...]:
    """Of those that are shown."""
    concerned = [e for e in document["experiments"] if e["name"] in experiments and e["data_note"]]
    return tuple(f"{experiment['name']}: {experiment['data_note']}" for experiment in concerned)


def _own_note(experiment: Document) -> tuple[str, ...]:
    return (experiment["data_note"],) if experiment["data_note"] else ()


def _place(experiment: Document) -> str:
    rule = experiment["contribution_rule"]
    return experiment["name"] if rule == DEFAULT_RULE else f"{experiment['name']}/{rule}"


def _called(experiment: Document) -> str:
    return f"{experiment['name']}{rule_note(experiment['contribution_rule'])}"


def _range(mus: Document) -> MuRange:
    return MuRange(
        exact_lower=_float(mus["lower"]),
        exact_upper=_float(mus["upper"]),
        closed_below=mus["includes_lower"],
        closed_above=mus["includes_upper"],
    )


def _float(value: float | str) -> float:
    """As JSON has it: a number, or "inf"."""
    return math.inf if value == "inf" else -math.inf if value == "-inf" else float(value)
