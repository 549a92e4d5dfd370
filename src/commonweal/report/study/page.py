"""The output of a study in one folder: a page, plots, and numbers for programs and people.

What the page shows is computed here; the markup is in templates/study.html.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from commonweal.atomic_write import write_atomically
from commonweal.errors import StorageError
from commonweal.records.study import DEFAULT_RULE, VERDICTS, ExperimentStudy, Study, Verdict
from commonweal.report.drawing import Plot
from commonweal.report.glossary import STUDY_GLOSSARY
from commonweal.report.inline_svg import InlinePlot, at_phone_width, in_both_widths
from commonweal.report.study import tables
from commonweal.report.study.frontier import sample
from commonweal.report.study.plots import data_notes, plots, slugs
from commonweal.report.study.summary_json import to_document, to_json
from commonweal.report.study.tables import Document, Table, promoted
from commonweal.report.study.text import MEANINGS, SYMBOLS, rule_note, threshold_text, verdict_of, verdict_text
from commonweal.report.templating import render
from commonweal.report.text import counted
from commonweal.report.write import rendered_plots, write_images

_WHY = "why"  # always the last column
_WORDS = {"driver", "other choice", "statement"}  # columns of words, not of numbers
_NAMES = {"experiment", "contribution rule", "scenario", "verdict", "verdict under it", "mu"}
_INTERVAL = re.compile(r"([^\s;]+);? ((?:\(|n = ).*)")


def write_study(study: Study, directory: Path) -> list[Path]:
    """Write summary.json, summary.md, report.html and figures/*.png, *.svg into an existing folder; returns them."""
    if not directory.is_dir():
        raise StorageError(f"Cannot write the report: the folder {str(directory)!r} does not exist. Create it first.")
    document = to_document(study)
    summary, tables_file, page = (directory / name for name in ("summary.json", "summary.md", "report.html"))
    # Make everything before writing anything, because drawing takes a while and files of two studies must not mix.
    contents = {
        summary: (to_json(document), "the summary"),
        tables_file: (tables.to_markdown(document), "the summary"),
        page: (to_page(study), "the report"),
    }
    images = write_images(rendered_plots(plots(promoted(study)).values()), directory / "figures")
    for path, (content, what) in contents.items():
        write_atomically(path, content.encode(), what=what)
    return [*contents, *images]


def to_page(study: Study) -> str:
    """The whole page; the same study gives the same text."""
    study = promoted(study)
    document, drawn, notes = to_document(study), plots(study), data_notes(study)
    names = slugs(study)
    return render(
        "study.html",
        title=study.title,
        sentence=_sentence(study),
        data_notes=notes,
        tiles=_tiles(study),
        intervals=_intervals(study),
        links={e.name: f"experiment-{slug}" for e, slug in zip(study.experiments, names, strict=True)},
        claims=_claims(study, document, drawn) if study.findings else None,
        default_rule=DEFAULT_RULE if all(e.contribution_rule != DEFAULT_RULE for e in study.experiments) else "",
        choices=_choices(document),
        samples=in_both_widths(drawn["samples"]) if "samples" in drawn else None,
        experiments=[
            _experiment(study, experiment, slug, drawn, document)
            for experiment, slug in zip(study.experiments, names, strict=True)
        ],
        frontier=_frontier(study, drawn["frontier"]) if "frontier" in drawn else None,
        recommendations=_shown(tables.recommendations(document)),
        sweep_cost=_shown(tables.sweep_cost(document)),
        facts=study.facts,
        runs=_shown(tables.runs(document)),
        words=STUDY_GLOSSARY,
    )


def _sentence(study: Study) -> str:
    """What was run and what came out."""
    if not study.experiments:
        return "No experiment was run."
    counts = sorted({experiment.replication_count for experiment in study.experiments})
    many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    mus = len({outcome.mu for experiment in study.experiments for outcome in experiment.outcomes})
    on_axis = sum(experiment.axis_replication_count for experiment in study.experiments)
    axis = f", and {on_axis} replications on the whole axis of mu" if on_axis else ""
    experiments = f"{counted(len(study.experiments), 'experiment')}{_other_rules(study)}"
    run = f"{experiments} with {many} replications each at {counted(mus, 'value')} of mu{axis}."
    found = Counter(finding.verdict for finding in study.findings)
    told = ", ".join(f"{found[verdict]} {verdict}" for verdict in VERDICTS if found[verdict])
    return f"{run} Results of {counted(len(study.findings), 'test')} of claims: {told}." if told else run


def _other_rules(study: Study) -> str:
    """The contribution rules that were used, if any differs from the default."""
    others = [experiment for experiment in study.experiments if experiment.contribution_rule != DEFAULT_RULE]
    rules = " and ".join(sorted({experiment.contribution_rule for experiment in others}))
    if not others:
        return ""
    which = "" if len(others) == len(study.experiments) else f"{len(others)} of them "
    return f", {which}under {rules} contributions only,"


def _tiles(study: Study) -> list[tuple[str, str, str]]:
    found = Counter(finding.verdict for finding in study.findings)
    return [
        ("Experiments", str(len(study.experiments)), "in this study"),
        ("Replications", str(sum(experiment.replication_count for experiment in study.experiments)), "in total"),
        *((f"{SYMBOLS[v]} {v.capitalize()}", str(found[v]), MEANINGS[v]) for v in VERDICTS),
    ]


def _intervals(study: Study) -> str:
    """ "95% intervals", if the fact of this name starts with a level: "95%, bootstrap over replications"."""
    level = study.facts.get("intervals", "").partition(",")[0]
    return f"{level} intervals" if level.endswith("%") else "intervals"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """A table cell: a verdict, or text with the bounds of its interval in a muted colour."""

    heading: str
    kind: str  # "words", "name" or "number": its CSS class
    text: str
    bounds: str = ""
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    name: str
    cells: Sequence[_Cell]
    why: str = ""  # on a line of its own, because it is long


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    title: str
    headings: Sequence[tuple[str, str]]  # text and kind
    rows: Sequence[_Row]
    notes: Sequence[str]


def _shown(table: Table) -> _Table:
    headings = [heading for heading in table.headings if heading != _WHY]
    explained = len(headings) < len(table.headings)
    return _Table(
        title=table.title,
        headings=[(heading, _kind(heading)) for heading in headings],
        rows=[
            _Row(
                name=first,
                cells=[_cell(text, of) for text, of in zip(cells, headings[1:], strict=False)],
                why=cells[-1] if explained else "",
            )
            for first, *cells in table.rows
        ],
        notes=table.notes,
    )


def _kind(heading: str) -> str:
    return "words" if heading in _WORDS else "name" if heading in _NAMES else "number"


def _cell(text: str, heading: str) -> _Cell:
    kind = _kind(heading)
    if "verdict" in heading:
        return _Cell(heading=heading, kind=kind, text=text, verdict=verdict_of(text))
    parts = _INTERVAL.fullmatch(text) if kind == "number" else None
    if parts is None:
        return _Cell(heading=heading, kind=kind, text=text)
    return _Cell(heading=heading, kind=kind, text=parts[1], bounds=parts[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """A cell of the table of claims by experiments: symbol, value and bounds."""

    verdict: Verdict
    symbol: str
    text: str
    bounds: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Effect:
    """A claim and the effect by which it was tested, with a row per experiment."""

    claim: str
    statement: str
    quote: str
    effect: str
    threshold: str
    rows: Sequence[_Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Glance:
    """Claims by experiments, in one regime."""

    title: str
    label: str
    experiments: Sequence[str]
    rows: Sequence[tuple[str, str, Sequence[_Judged | None]]]  # claim, statement, and one cell per experiment
    notes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claims:
    regimes: _Table
    glances: Sequence[_Glance]
    headings: Sequence[tuple[str, str]]  # of the table of effects
    effects: Sequence[_Effect]
    notes: Sequence[str]
    plot: InlinePlot
    caption: str


def _claims(study: Study, document: Document, drawn: Mapping[str, Plot]) -> _Claims:
    glances = tables.verdicts(document)
    caption = f"{drawn['claims'].title}. The dashed line is the threshold."
    headings = ("experiment", "interval", "verdict", "p, corrected", "power", "driver")
    by_effect = groupby(document["findings"], key=lambda f: (f["claim"], f["statement"], f["effect"], f["threshold"]))
    quotes = {finding["claim"]: finding.get("quote", "") for finding in document["findings"]}
    return _Claims(
        regimes=_shown(tables.regimes(document)),
        glances=[_glance(table) for table in glances],
        headings=[(heading, _kind(heading)) for heading in headings],
        effects=[
            _Effect(
                claim=claim,
                statement=statement,
                quote=quotes.get(claim, ""),
                effect=effect,
                threshold=threshold_text(float(threshold)),
                rows=[_claim_row(finding, headings) for finding in found],
            )
            for (claim, statement, effect, threshold), found in by_effect
        ],
        notes=list(dict.fromkeys(note for table in glances for note in table.notes)),
        plot=in_both_widths(drawn["claims"], title=caption),
        caption=caption,
    )


def _glance(table: tables.Table) -> _Glance:
    title = table.title
    for verdict in VERDICTS:  # a symbol stays beside its word
        title = title.replace(verdict_text(verdict), verdict_text(verdict).replace(" ", "\N{NO-BREAK SPACE}"))
    return _Glance(
        title=title,
        label=table.title,
        experiments=table.headings[2:],
        rows=[(claim, statement, [_judged(cell) for cell in cells]) for claim, statement, *cells in table.rows],
        notes=table.notes,
    )


def _judged(cell: str) -> _Judged | None:
    """From "✓ 5.41 (4.79 to 6.03)"; None where the claim was not tested on the experiment."""
    symbol, _, interval = cell.partition(" ")
    for verdict in VERDICTS:
        if symbol == SYMBOLS[verdict]:
            parts = _INTERVAL.fullmatch(interval)
            text, bounds = (interval, "") if parts is None else (parts[1], parts[2])
            return _Judged(verdict=verdict, symbol=symbol, text=text, bounds=bounds)
    return None


def _claim_row(finding: Document, headings: Sequence[str]) -> _Row:
    cells = (
        tables.counted_interval(finding),
        verdict_text(finding["verdict"]),
        tables.p_text(finding),
        tables.power_text(finding),
        finding["driver"],
    )
    return _Row(
        name=finding["experiment"], cells=[_cell(text, of) for text, of in zip(cells, headings[1:], strict=True)]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choices:
    sentence: str
    changed: _Table
    every: _Table


def _choices(document: Document) -> _Choices | None:
    """The verdicts that another choice changes, and all tests under other choices."""
    every = tables.alternatives(document)
    if not every.rows:
        return None
    changed = tables.changed_verdicts(document)
    return _Choices(
        sentence=f"{len(changed.rows)} of {counted(len(every.rows), 'test')} under another choice changed the verdict.",
        changed=_shown(changed),
        every=_shown(every),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Experiment:
    """One experiment: its plots, then its numbers, then the same under other contribution rules."""

    name: str
    rule_note: str
    slug: str
    description: str
    size: str
    data_note: str
    durations: tuple[InlinePlot, str] | None  # a plot and its caption
    tsw: tuple[InlinePlot, str] | None
    tsfi: tuple[InlinePlot, str] | None
    axis: tuple[InlinePlot, str] | None
    tables: Sequence[_Table]
    others: Sequence[tuple[str, Sequence[_Table]]]  # a contribution rule and the tables under it


def _experiment(
    study: Study, experiment: ExperimentStudy, slug: str, drawn: Mapping[str, Plot], document: Document
) -> _Experiment:
    clients, rounds = counted(len(experiment.clients), "client"), counted(experiment.round_count, "round")
    replications = counted(experiment.replication_count, "replication")
    on_axis = counted(experiment.axis_replication_count, "replication")
    intervals = _intervals(study)

    def captioned(kind: str, tail: str, *, narrow: bool = False) -> tuple[InlinePlot, str] | None:
        plot = drawn.get(f"{slug}-{kind}")
        if plot is None:
            return None
        caption = f"{plot.title}. {tail}"
        title = f"{caption} {experiment.data_note}".strip()  # the drawing itself shows the note
        return (at_phone_width(plot, title=title) if narrow else in_both_widths(plot, title=title)), caption

    own = document["experiments"][study.experiments.index(experiment)]
    others = [each for each in document["alternatives"] if each["name"] == experiment.name]
    bands = f"Bands are {intervals} over {replications}."
    return _Experiment(
        name=experiment.name,
        rule_note=rule_note(experiment.contribution_rule),
        slug=slug,
        description=experiment.description,
        size=f"{clients}, {rounds}, {replications}.",
        data_note=experiment.data_note,
        durations=captioned("durations", f"Bars are {intervals} over {replications}."),
        tsw=captioned("tsw", bands, narrow=True),
        tsfi=captioned("tsfi", bands, narrow=True),
        axis=captioned("axis", f"Bands are {intervals} over the {on_axis} that covered the whole axis."),
        tables=_tables_of(own),
        others=[(each["contribution_rule"], _tables_of(each)) for each in others],
    )


def _tables_of(experiment: Document) -> list[_Table]:
    return [_shown(table) for table in (tables.durations(experiment), tables.outcomes(experiment)) if table.rows]


def _frontier(study: Study, plot: Plot) -> tuple[InlinePlot, str]:
    samples = {sample(experiment) for experiment in study.experiments}
    over = "the replications named below each panel"
    if len(samples) == 1:
        over = f"{samples.pop()}{', in each experiment' if len(study.experiments) > 1 else ''}"
    caption = f"{plot.title}. Means and {_intervals(study)} over {over}."
    return in_both_widths(plot, title=caption), caption
