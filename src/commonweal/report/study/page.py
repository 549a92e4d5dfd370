"""Everything a reader is given of a study, into one folder: a page, figures, and numbers for programs and people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from commonweal.atomic_write import write_atomically
from commonweal.errors import InputError
from commonweal.records.study import DEFAULT_RULE, Study
from commonweal.report.figures import Picture
from commonweal.report.markup import definitions, text
from commonweal.report.shell import page_from
from commonweal.report.study import sections, tables
from commonweal.report.study.figures import data_notes, pictures, slugs
from commonweal.report.study.frontier import sample
from commonweal.report.study.markdown import to_markdown
from commonweal.report.study.promoted import promoted
from commonweal.report.study.summary_json import to_document, to_json
from commonweal.report.study.terms import STUDY_TERMS
from commonweal.report.write import rendered_pictures, write_images

_EVERY_TEST = "Every test: effect, threshold, replications, and why it came out so"


def write_study(study: Study, directory: Path) -> list[Path]:
    """Write summary.json, summary.md, report.html and figures/*.png, *.svg into an existing folder; returns them."""
    if not directory.is_dir():
        raise InputError(f"the report's folder must exist, got {str(directory)!r}; create it first")
    document = to_document(study)
    summary, tables_file, page = (directory / name for name in ("summary.json", "summary.md", "report.html"))
    # All is made before anything is written: drawing takes a while, and files of two studies must not stand together.
    contents = {
        summary: (to_json(document), "the summary"),
        tables_file: (to_markdown(document), "the summary"),
        page: (to_page(study), "the report"),
    }
    images = write_images(rendered_pictures(pictures(promoted(study)).values()), directory / "figures")
    for path, (content, what) in contents.items():
        write_atomically(path, content.encode(), what=what)
    return [*contents, *images]


def to_page(study: Study) -> str:
    """The whole page; the same study gives the same bytes."""
    study = promoted(study)
    document, shown, notes = to_document(study), pictures(study), data_notes(study)
    names = slugs(study)
    links = {e.name: f"experiment-{slug}" for e, slug in zip(study.experiments, names, strict=True)}
    return page_from(
        "study.html",
        title=text(study.title),
        sentence=text(sections.sentence(study)),
        notes=sections.notes_box(notes),
        key_numbers=sections.key_numbers(study),
        experiment_links=sections.experiment_links(study),
        intervals=text(f"Shown are {sections.intervals(study)} over replications."),
        claims=_claims(study, document, shown, links),
        choices=sections.choices(document),
        samples=_samples(shown),
        experiments="\n".join(
            sections.experiment_section(study, experiment, slug, shown, document)
            for experiment, slug in zip(study.experiments, names, strict=True)
        ),
        frontier=_frontier(study, document, shown),
        cost=sections.table_markup(tables.sweep_cost(document), titled=False)
        or "<p>No replication followed the whole axis of mu.</p>",
        facts=sections.facts(study, document),
        terms=definitions(STUDY_TERMS, "terms"),
    )


def _claims(study: Study, document: Mapping[str, Any], shown: Mapping[str, Picture], links: Mapping[str, str]) -> str:
    if not study.findings:
        rules = {experiment.contribution_rule for experiment in study.experiments}
        why = "" if DEFAULT_RULE in rules else f" That takes {DEFAULT_RULE} contributions, as settled here."
        return f"<p>No claim was tested.{why}</p>"
    picture = shown["claims"]
    drawn = sections.figure(picture, caption=f"{picture.title}. The dashed line is the threshold.")
    more = f'<details class="more"><summary>{_EVERY_TEST}</summary>{sections.claims_table(document, links)}</details>'
    return sections.verdicts_table(document, links) + more + drawn


def _samples(shown: Mapping[str, Picture]) -> str:
    if "samples" not in shown:
        return ""
    drawn = sections.figure(shown["samples"], caption=shown["samples"].title)
    return f'<section id="samples">\n<h2>The data</h2>\n{drawn}\n</section>'


def _frontier(study: Study, document: Mapping[str, Any], shown: Mapping[str, Picture]) -> str:
    if "frontier" not in shown:
        return "<p>No experiment has a mu at which all its replications were run.</p>"
    samples = {sample(experiment) for experiment in study.experiments}
    over = "the replications named below each panel"
    if len(samples) == 1:
        over = f"{samples.pop()}{', in each experiment' if len(study.experiments) > 1 else ''}"
    caption = f"{shown['frontier'].title}. Means and {sections.intervals(study)} over {over}."
    notes = sections.notes_markup(f"{name}: {note}" for name, note in data_notes(study).items())
    drawn = sections.figure(shown["frontier"], caption=caption)
    return drawn + notes + sections.table_markup(tables.recommendations(document))
