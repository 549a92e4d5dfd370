"""The tables of a study, as text and as Markdown.

They are made only from the summary document, so that tables quoted in docs can be checked against summary.json.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from commonweal.records import MuRange
from commonweal.records.study import DEFAULT_RULE, VERDICTS, Study
from commonweal.report.study.text import (
    NO_RECOMMENDATION,
    SYMBOLS,
    interval_text,
    leaves_unit_interval,
    legend,
    mu_label,
    range_text,
    rule_note,
    threshold_text,
    verdict_text,
)
from commonweal.report.text import MISSING, number, shown

_SPECIAL = re.compile(r"([\\`*_|$~]|\](?=[(\[]))")  # of Markdown; a single bracket does not make a link
Document = Mapping[str, Any]
_CHOSEN_ELSEWHERE = (
    "A recommended mu did best in every second replication; its figures are those of the other replications, on which "
    "it was not chosen, so TSFI may miss its target there. Neighbouring mu may do as well. Bounds of mu are rounded."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Plain text in rows; the first column names the row."""

    name: str  # "claims", "durations/heterogeneous"
    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()  # shown below it


def tables_of(document: Document) -> tuple[Table, ...]:
    """In the order in which a reader meets them, without empty ones."""
    document = promoted_document(document)
    made = [
        claims(document),
        regimes(document),
        *verdicts(document),
        changed_verdicts(document),
        alternatives(document),
    ]
    for experiment in (*document["experiments"], *document["alternatives"]):
        made += [durations(experiment), outcomes(experiment)]
    made += [recommendations(document), sweep_cost(document), runs(document), facts(document)]
    return tuple(table for table in made if table.rows)


def claims(document: Document) -> Table:
    return Table(
        name="claims",
        title="Claims",
        headings=("claim", "statement", "experiment", "effect", "interval", "threshold", "verdict", "replications",
                  "p, corrected", "power", "driver"),
        rows=tuple(
            (f["claim"], f["statement"], f["experiment"], f["effect"], interval_of(f["interval"]),
             threshold_text(_float(f["threshold"])), verdict_text(f["verdict"]), str(f["replication_count"]),
             p_text(f), power_text(f), f["driver"])
            for f in document["findings"]
        ),
        notes=_notes(document, {finding["experiment"] for finding in document["findings"]}),
    )  # fmt: skip


def verdicts(document: Document) -> list[Table]:
    """Claims by experiments at a glance, a table for each regime; the table of claims says what each number is."""
    return [_verdicts(document, regime) for regime in _regimes(document)]


def _verdicts(document: Document, regime: str) -> Table:
    found = [f for f in document["findings"] if _regime(f["experiment"]) == regime]
    experiments = [e["name"] for e in document["experiments"] if any(f["experiment"] == e["name"] for f in found)]
    cells = {(f["claim"], f["experiment"]): f"{SYMBOLS[f['verdict']]} {interval_of(f['interval'])}" for f in found}
    statements = {f["claim"]: f["statement"] for f in found}
    return Table(
        name=f"verdicts/{regime}" if regime else "verdicts",
        title=f"Claims by experiment{f', {regime}' if regime else ''}: {legend()}",
        headings=("claim", "statement", *experiments),
        rows=tuple(
            (claim, statement, *(cells.get((claim, name), "") for name in experiments))
            for claim, statement in statements.items()
        ),
        notes=_notes(document, set(experiments)),
    )


def regimes(document: Document) -> Table:
    """Where each claim holds: on how many experiments, by regime. Empty if there is only one regime."""
    found, every = document["findings"], _regimes(document)
    counts = Counter((f["claim"], _regime(f["experiment"]), f["verdict"]) for f in found)
    statements = {f["claim"]: f["statement"] for f in found}

    def told(claim: str, regime: str) -> str:
        return ", ".join(f"{SYMBOLS[v]} {counts[claim, regime, v]}" for v in VERDICTS if counts[claim, regime, v])

    return Table(
        name="regimes",
        title=f"Where each claim holds, in how many experiments: {legend()}",
        headings=("claim", "statement", *(regime or "as shipped" for regime in every)),
        rows=tuple(
            (claim, statement, *(told(claim, regime) for regime in every)) for claim, statement in statements.items()
        )
        if len(every) > 1
        else (),
    )


def _regimes(document: Document) -> list[str]:
    return list(dict.fromkeys(_regime(finding["experiment"]) for finding in document["findings"]))


def _regime(experiment: str) -> str:
    """The keys in which a scenario differs from the shipped one: "learning_rate=0.01"."""
    return experiment.partition("[")[2].removesuffix("]")


def p_text(finding: Document) -> str:
    """The corrected p-value, to two digits; nothing where there is none."""
    p = finding.get("adjusted_p", finding.get("p_value"))
    if p is None:
        return MISSING
    return "< 0.0001" if p < 1e-4 else number(p, decimals=4 if p < 0.01 else 2)


def power_text(finding: Document) -> str:
    power = finding.get("power")
    return MISSING if power is None else f"{100 * power:.0f} %"


def changed_verdicts(document: Document) -> Table:
    """Where a choice other than ours changes the verdict on a claim."""
    changed = [(ours, other) for ours, other in _compared(document) if ours["verdict"] != other["verdict"]]
    return Table(
        name="changed-verdicts",
        title="Where another choice changes a verdict",
        headings=("claim", "experiment", "effect", "verdict", "other choice", "effect under it", "verdict under it",
                  "why"),
        rows=tuple(
            (other["claim"], other["experiment"], counted_interval(ours), verdict_text(ours["verdict"]),
             other["variant"], counted_interval(other), verdict_text(other["verdict"]), other["driver"])
            for ours, other in changed
        ),
        notes=_notes(document, {other["experiment"] for _, other in changed}),
    )  # fmt: skip


def alternatives(document: Document) -> Table:
    """All claims that were tested under another choice, beside ours on the same replications."""
    pairs = list(_compared(document))
    return Table(
        name="alternatives",
        title="Claims under other choices",
        headings=("claim", "experiment", "other choice", "effect", "verdict", "effect under it", "verdict under it"),
        rows=tuple(
            (other["claim"], other["experiment"], other["variant"], counted_interval(ours),
             verdict_text(ours["verdict"]), counted_interval(other), verdict_text(other["verdict"]))
            for ours, other in pairs
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
    """Final welfare and fairness, by μ of the grid."""
    return Table(
        name=f"outcomes/{_place(experiment)}",
        title=f"Outcome of {_called(experiment)} after round {experiment['round_count']}",
        headings=("mu", "TSW", "welfare of all who took part", "TSFI", "ended early", "replications"),
        rows=tuple(
            (mu_label(_float(outcome["mu"])), interval_of(outcome["tsw"][-1], decimals=3),
             interval_of(outcome["welfare_of_all"], decimals=3) if "welfare_of_all" in outcome else MISSING,
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
        count = str(experiment["replication_count"])
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
    chosen = [_CHOSEN_ELSEWHERE] if any(row[2] not in (MISSING, NO_RECOMMENDATION) for row in rows) else []
    return Table(
        name="recommendations",
        title="The mu with the most welfare among those that are fair enough",
        headings=("experiment", "TSFI of at least", "mu", "TSW", "TSFI", "replications"),
        rows=tuple(rows),
        notes=(*chosen, *_notes(document, {row[0] for row in rows})),
    )


def sweep_cost(document: Document) -> Table:
    """How many rounds had to be computed, and what the whole axis costs compared with a single μ."""
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
        title="Rounds computed per replication, mean",
        headings=("experiment", "mu = inf only", "the grid", "the whole axis", "axis / mu = inf", "replications"),
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
                  "processor seconds per replication", "scenario"),
        rows=tuple(
            (e["name"], e["contribution_rule"], str(e["replication_count"]), str(e["axis_replication_count"]),
             interval_of(e["processor_seconds"], decimals=1), e["scenario_digest"][:12])
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
    """Results under another choice, each with the one under our choice to compare it with."""
    beside = [finding for finding in document["alternative_findings"] if not finding["variant"]]
    pairs = []
    for other in document["alternative_findings"]:
        if not other["variant"]:
            continue
        same = [f for f in (*beside, *document["findings"])
                if (f["claim"], f["experiment"]) == (other["claim"], other["experiment"])]  # fmt: skip
        # On as many replications if possible: fewer can change a verdict by themselves.
        same.sort(key=lambda f: f["replication_count"] != other["replication_count"])
        if same:
            pairs.append((same[0], other))
    return pairs


def _notes(document: Document, experiments: set[str]) -> tuple[str, ...]:
    """Notes on the data of the experiments shown."""
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
    """A number of the document; JSON has no infinity, so that is "inf"."""
    return math.inf if value == "inf" else -math.inf if value == "-inf" else float(value)


def promoted(study: Study) -> Study:
    """The study as the reader sees it.

    An experiment that was run only under another contribution rule has nothing to be an alternative to, so it takes its
    place among the experiments.
    """
    names = {experiment.name for experiment in study.experiments}
    return replace(
        study,
        experiments=(*study.experiments, *(e for e in study.alternatives if e.name not in names)),
        alternatives=tuple(e for e in study.alternatives if e.name in names),
    )


def promoted_document(document: Document) -> dict[str, Any]:
    """The same of a summary document."""
    names = {experiment["name"] for experiment in document["experiments"]}
    return {
        **document,
        "experiments": [*document["experiments"], *(e for e in document["alternatives"] if e["name"] not in names)],
        "alternatives": [e for e in document["alternatives"] if e["name"] in names],
    }


def to_markdown(document: Document) -> str:
    """summary.md: each table under its title."""
    parts = [f"# {_markdown_text(document['title'])}\n"]
    for table in tables_of(document):
        parts.append(f"## {_markdown_text(table.title)}\n\n{_markdown_table(table)}")
        parts += [f"{_markdown_text(note)}\n" for note in table.notes]
    return "\n".join(parts)


def markdown_tables(document: Document) -> dict[str, str]:
    """Each table of summary.md by name, such as "claims" or "durations/heterogeneous"."""
    return {table.name: _markdown_table(table) for table in tables_of(document)}


def _markdown_table(table: Table) -> str:
    head = [markdown_cells(table.headings), "|---" * len(table.headings) + "|"]
    return "\n".join((*head, *map(markdown_cells, table.rows))) + "\n"


def markdown_cells(cells: Sequence[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(map(_markdown_text, cells))} |"


def _markdown_text(value: str) -> str:
    """Text in one line, escaped so that Markdown shows it unchanged."""
    words = " ".join(shown(value.replace("\n", " ")).split())
    return _SPECIAL.sub(r"\\\1", words.replace("&", "&amp;").replace("<", "&lt;"))
