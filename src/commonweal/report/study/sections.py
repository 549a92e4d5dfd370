"""The parts of a study's page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from commonweal.records.study import DEFAULT_RULE, VERDICTS, ExperimentStudy, Study, Verdict
from commonweal.report.figures import Picture
from commonweal.report.inline_svg import in_both_widths, inline_svg
from commonweal.report.markup import definitions, name_markup, table, text
from commonweal.report.number_text import counted
from commonweal.report.panels import NARROW
from commonweal.report.study import tables
from commonweal.report.study.figures import slugs
from commonweal.report.study.interval_text import threshold_text
from commonweal.report.study.promoted import rule_note
from commonweal.report.study.tables import Table
from commonweal.report.study.verdicts import MEANINGS, SYMBOLS, verdict_of, verdict_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WHY = "why"  # always the last column
_WORDS = {"driver", "other choice", "statement"}  # columns of words, not of numbers
_NAMES = {"experiment", "contribution rule", "scenario", "verdict", "its verdict", "mu"}
_INTERVAL = re.compile(r"([^\s;]+);? ((?:\(|n = ).*)")


def sentence(study: Study) -> str:
    """What was run and what came out, in one sentence."""
    if not study.experiments:
        return "No experiment was run."
    counts = sorted({experiment.replication_count for experiment in study.experiments})
    many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    mus = len({outcome.mu for experiment in study.experiments for outcome in experiment.outcomes})
    followed = sum(experiment.axis_replication_count for experiment in study.experiments)
    axis = f", and {followed} replications on the whole axis of mu" if followed else ""
    experiments = f"{counted(len(study.experiments), 'experiment')}{_other_rules(study)}"
    run = f"{experiments} with {many} replications each at {counted(mus, 'value')} of mu{axis}."
    found = Counter(finding.verdict for finding in study.findings)
    told = ", ".join(f"{found[verdict]} {verdict}" for verdict in VERDICTS if found[verdict])
    return f"{run} Of {counted(len(study.findings), 'test')} of claims: {told}." if told else run


def _other_rules(study: Study) -> str:
    """Of which contribution rule they are, where it is not the settled one."""
    others = [experiment for experiment in study.experiments if experiment.contribution_rule != DEFAULT_RULE]
    rules = " and ".join(sorted({experiment.contribution_rule for experiment in others}))
    if not others:
        return ""
    which = "" if len(others) == len(study.experiments) else f"{len(others)} of them "
    return f", {which}under {rules} contributions alone,"


def key_numbers(study: Study) -> str:
    found = Counter(finding.verdict for finding in study.findings)
    tiles = [
        ("Experiments", str(len(study.experiments)), "of the paper"),
        ("Replications", str(sum(experiment.replication_count for experiment in study.experiments)), "in total"),
    ]
    tiles += [(f"{SYMBOLS[v]} {v.capitalize()}", str(found[v]), MEANINGS[v]) for v in VERDICTS]
    return "".join(
        f"<div><dt>{label}</dt><dd><strong>{value}</strong><small>{note}</small></dd></div>"
        for label, value, note in tiles
    )


def notes_box(notes: Mapping[str, str]) -> str:
    """What must be said of the data, at the top."""
    if not notes:
        return ""
    items = "".join(f"<li>{name_markup(name)}: {text(note)}</li>" for name, note in notes.items())
    return f'<section class="warnings"><h2>Please note</h2><ul>{items}</ul></section>'


def verdicts_table(document: Mapping[str, Any], links: Mapping[str, str]) -> str:
    """Claims by experiments at one glance; a colour and a symbol tell the verdict."""
    shown = tables.verdicts(document)
    claim, statement, *experiments = shown.headings
    heads = [*_heads((claim, statement)), *(_linked(name, links) for name in experiments)]
    rows = []
    for name, words, *cells in shown.rows:
        inner = "".join(f"<td>{_judged(cell)}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{text(name)}</th><td class="words">{text(words)}</td>{inner}</tr>')
    made = table(label=shown.title, headings=heads, rows=rows, css_class="figures glance")
    title = text(shown.title)
    for verdict in VERDICTS:  # a symbol stays beside its word
        title = title.replace(verdict_text(verdict), verdict_text(verdict).replace(" ", "\N{NO-BREAK SPACE}"))
    return f"<h3>{title}</h3>{made}{notes_markup(shown.notes)}"


def _judged(cell: str) -> str:
    """ "✓ 5.41 (4.79 to 6.03)" with the symbol in the colour of its verdict."""
    symbol, _, interval = cell.partition(" ")
    for verdict in VERDICTS:
        if symbol == SYMBOLS[verdict]:
            css_class = f"verdict {verdict.replace(' ', '-')}"
            return f'<span class="{css_class}" title="{text(verdict)}">{symbol}</span> {_interval_markup(interval)}'
    return text(cell)


def _linked(experiment: str, links: Mapping[str, str]) -> str:
    shown = name_markup(experiment)
    return f'<a href="#{links[experiment]}">{shown}</a>' if experiment in links else shown


def claims_table(document: Mapping[str, Any], links: Mapping[str, str]) -> str:
    """Experiments under the claim and the effect by which it was tested on them."""
    headings = ("experiment", "interval", "verdict", "driver")
    rows = []
    by_effect = groupby(document["findings"], key=lambda f: (f["claim"], f["statement"], f["effect"], f["threshold"]))
    for (claim, statement, effect, threshold), found in by_effect:
        rows.append(
            f'<tr class="claim"><th scope="rowgroup" colspan="{len(headings)}">{text(claim)} &nbsp;{text(statement)}'
            f'<br><span class="quiet">{text(effect)}; threshold {threshold_text(float(threshold))}</span></th></tr>'
        )
        for finding in found:
            cells = (tables.counted_interval(finding), verdict_text(finding["verdict"]), finding["driver"])
            rows.append(_row(_linked(finding["experiment"], links), cells, headings))
    made = table(label="Claims", headings=_heads(headings), rows=rows, css_class="figures claims")
    return made + notes_markup(tables.claims(document).notes)


def verdict_markup(verdict: Verdict) -> str:
    """A coloured word with a symbol: colour alone would not do."""
    return f'<span class="verdict {verdict.replace(" ", "-")}">{text(verdict_text(verdict))}</span>'


def table_markup(shown: Table, *, titled: bool = True, stacked: bool = False) -> str:
    """A table with its title and notes; words to the left, numbers to the right.

    A stacked one has on a phone its cells below one another, each number under what it is.
    """
    if not shown.rows:
        return ""
    headings = [heading for heading in shown.headings if heading != _WHY]
    rows = []
    for first, *cells in shown.rows:
        rows.append(_row(name_markup(first), cells[: len(headings) - 1], headings, labelled=stacked))
        if len(headings) < len(shown.headings) and cells[-1]:  # in a line of its own: it is long
            rows.append(f'<tr class="why"><td colspan="{len(headings)}">{text(cells[-1])}</td></tr>')
    heading = f"<h3>{text(shown.title)}</h3>" if titled else ""
    css_class = "figures stacked" if stacked else "figures"
    made = table(label=shown.title, headings=_heads(headings), rows=rows, css_class=css_class)
    return heading + made + notes_markup(shown.notes)


def notes_markup(notes: Iterable[str]) -> str:
    return "".join(f'<p class="note">{text(note)}</p>' for note in notes)


def _heads(headings: Sequence[str]) -> list[str]:
    return [f'<span class="{_kind(heading)}">{text(heading)}</span>' for heading in headings]


def _row(heading: str, cells: Sequence[str], headings: Sequence[str], *, labelled: bool = False) -> str:
    """The heading is markup, the cells are text; where labelled, each says of what it is."""
    inner = ""
    for cell, of in zip(cells, headings[1:], strict=True):
        label = f' data-of="{text(of)}"' if labelled else ""
        inner += f'<td class="{_kind(of)}"{label}>{_cell(cell, of)}</td>'
    return f'<tr><th scope="row">{heading}</th>{inner}</tr>'


def _kind(heading: str) -> str:
    return "words" if heading in _WORDS else "name" if heading in _NAMES else "number"


def _cell(cell: str, heading: str) -> str:
    """A verdict in its colour, an interval in a quieter ink than its middle."""
    if "verdict" in heading:
        return verdict_markup(verdict_of(cell))
    return _interval_markup(cell) if _kind(heading) == "number" else text(cell)


def _interval_markup(cell: str) -> str:
    parts = _INTERVAL.fullmatch(cell)
    if parts is None:
        return text(cell)
    return f'{text(parts[1])}<span class="error"> {text(parts[2])}</span>'


def choices(document: Mapping[str, Any]) -> str:
    """Where a verdict changes, and on request all that was tested."""
    every = tables.alternatives(document)
    if not every.rows:
        return "<p>No claim was tested under another choice.</p>"
    changed = tables.changed_verdicts(document)
    told = f"<p>{len(changed.rows)} of {counted(len(every.rows), 'test')} under another choice changed the verdict.</p>"
    all_of_them = table_markup(every, titled=False, stacked=True)
    more = f'<details class="more"><summary>All of them</summary>{all_of_them}</details>'
    return told + table_markup(changed, titled=False, stacked=True) + more


def figure(picture: Picture, *, caption: str, note: str = "", narrow: bool = False) -> str:
    """A drawing for each width, or one that needs no more width than a phone has; the drawing itself shows the note."""
    title = f"{caption} {note}".strip()
    if narrow:
        drawn = inline_svg(_at_phone_width(picture), name=picture.name, title=title, css_class="figure")
    else:
        drawn = in_both_widths(picture.draw, name=picture.name, title=title)
    return f'<figure id="figure-{picture.name}"><figcaption>{text(caption)}</figcaption>{drawn}</figure>'


def _at_phone_width(picture: Picture) -> Callable[[], Figure]:
    return lambda: picture.draw(NARROW)


def experiment_section(
    study: Study, experiment: ExperimentStudy, slug: str, shown: Mapping[str, Picture], document: Mapping[str, Any]
) -> str:
    """One experiment: its figures, then its numbers, then the same under other contribution rules."""
    place = study.experiments.index(experiment)
    over = f"{intervals(study)} over {counted(experiment.replication_count, 'replication')}"

    def drawn(kind: str, tail: str, *, narrow: bool = False) -> str:
        picture = shown.get(f"{slug}-{kind}")
        if picture is None:
            return ""
        return figure(picture, caption=f"{picture.title}. {tail}", note=experiment.data_note, narrow=narrow)

    written = document["experiments"][place]
    followed = counted(experiment.axis_replication_count, "replication")
    axis = drawn("axis", f"Bands are {intervals(study)} over the {followed} that followed the whole axis.")
    others = [each for each in document["alternatives"] if each["name"] == experiment.name]
    folded = "".join(
        f'<details class="more"><summary>The same with {text(each["contribution_rule"])} contributions</summary>'
        f"{table_markup(tables.durations(each))}{table_markup(tables.outcomes(each))}</details>"
        for each in others
    )
    return f"""<section id="experiment-{slug}">
<h2>{name_markup(experiment.name)}{text(rule_note(experiment.contribution_rule))}</h2>
<p class="lead">{text(experiment.description)} {counted(len(experiment.clients), "client")},
{counted(experiment.round_count, "round")}, {counted(experiment.replication_count, "replication")}.</p>
{notes_markup([experiment.data_note] if experiment.data_note else [])}
{drawn("durations", f"Bars are {over}.")}
<div class="pair">
{drawn("tsw", f"Bands are {over}.", narrow=True)}
{drawn("tsfi", f"Bands are {over}.", narrow=True)}
</div>
{axis}
{table_markup(tables.durations(written))}
{table_markup(tables.outcomes(written))}
{folded}
</section>"""


def experiment_links(study: Study) -> str:
    return "\n".join(
        f'<a href="#experiment-{slug}">{name_markup(experiment.name)}</a>'
        for experiment, slug in zip(study.experiments, slugs(study), strict=True)
    )


def intervals(study: Study) -> str:
    """ "95% intervals", if that is how the fact of this name begins: "95%, bootstrap over replications"."""
    level = study.facts.get("intervals", "").partition(",")[0]
    return f"{level} intervals" if level.endswith("%") else "intervals"


def facts(study: Study, document: Mapping[str, Any]) -> str:
    stated = definitions(study.facts, "facts") if study.facts else ""
    return stated + table_markup(tables.runs(document))
