"""The page as Markdown, and its plots. What it says follows from the study and the comparisons alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from commonweal.atomic_write import write_atomically
from commonweal.paper.experiments import EXPERIMENTS
from commonweal.paper.make_study import PaperStudy
from commonweal.paper.page import worked_example
from commonweal.paper.page.agreement import Agreement, agreement
from commonweal.paper.page.exhibits import EXHIBITS, Exhibit, PlotKind
from commonweal.paper.page.settings import SETTINGS, changes
from commonweal.records.study import ClaimResult, ExperimentStudy, SampleSheet, Study
from commonweal.report.drawing import Plot
from commonweal.report.study.grid_plots import durations, tsfi_over_rounds, tsw_over_rounds
from commonweal.report.study.tables import markdown_cells
from commonweal.report.study.text import SYMBOLS, interval_text, legend, threshold_text
from commonweal.report.text import number
from commonweal.report.write import rendered_plots, write_images
from commonweal.scenario.shipped import load

_DRAW = {"durations": durations, "tsw": tsw_over_rounds, "tsfi": tsfi_over_rounds}
_TITLES = {
    "durations": "How long clients took part, by mu",
    "tsw": "TSW after each round, by mu",
    "tsfi": "TSFI after each round, by mu",
}
_GREY = ("mnist", "usps")

_INTRODUCTION = """\
Everything that the paper shows, in its order, with our results beside it, for each regime in which all six experiments
were run. How each claim is tested: [claims](../concepts/claims.md). All tables and plots: [results](README.md).

A figure or table **agrees** if all claims that the paper draws from it held, as far as they could be tested. It
**agrees in part** if some held and some did not, and **disagrees** if none held and some did not. It is **undecided**
if nothing was refuted and something is open. The paper has 100 replications; ours are the n of each result.

In the tables of claims: {legend}. The paper's sentence stands above each claim.
"""


def paper_plots(study: Study) -> list[Plot]:
    """A plot for each figure of the paper that has one, with a panel for each experiment and regime."""
    return [
        _plot(exhibit, kind, shown)
        for exhibit in EXHIBITS
        for kind in exhibit.plots
        if (shown := [one for name in exhibit.experiments for one in _everywhere(study, name)])
    ]


def paper_page(paper: PaperStudy) -> str:
    """The whole page; the same study gives the same text."""
    study = paper.study
    parts = [
        "# The paper, figure by figure",
        _INTRODUCTION.format(legend=legend()),
        "## At a glance",
        _glance(study),
        *(part for exhibit in EXHIBITS for part in _exhibit(study, exhibit)),
        *_worked_example(),
        "## Where the setting differs",
        "The paper leaves much open.",
        _table(("setting", "in the paper", "here"), [(one.name, one.paper, one.here) for one in SETTINGS]),
        *_changes(paper),
        *_data(study.sheets),
        "## What was run",
        _table(("fact", "value"), sorted(study.facts.items())),
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _changes(paper: PaperStudy) -> list[str]:
    shown = full_regimes(paper.study)  # a variant of a variant would say little
    variants = [one for one in paper.variants if one.ours.regime in shown]
    found = [change for setting in SETTINGS for change in changes(setting, variants, paper.regimes)]
    if not found:
        return []
    return [
        "What changed under another choice, on the same replications. An effect differs surely if its difference is "
        "significant after Holm's correction for the effects compared under that choice; verdicts are those before "
        "correction for the whole page.",
        _table(
            ("setting", "other choice", "replications", "effects that differ surely", "verdicts that change", "which"),
            [(one.setting, one.choice, one.replications, one.surely, one.verdicts, one.which) for one in found],
        ),
    ]


def write_page(paper: PaperStudy, directory: Path) -> list[Path]:
    """Write paper.md and its plots into an existing folder, if some regime has all six experiments; returns them."""
    if not full_regimes(paper.study):
        return []
    page = directory / "paper.md"
    images = write_images(rendered_plots(paper_plots(paper.study)), directory / "figures")
    write_atomically(page, paper_page(paper).encode(), what="the page")
    return [page, *images]


def full_regimes(study: Study) -> list[str]:
    """The regimes in which all six experiments were run, as shipped first."""
    names = {experiment.name for experiment in study.experiments}
    found = dict.fromkeys(("", *(_regime(name) for name in names if _regime(name))))
    return [one for one in sorted(found) if all(_named(name, one) in names for name in EXPERIMENTS)]


def agreement_of(study: Study, exhibit: Exhibit, regime: str) -> Agreement:
    """Of what a regime found with what the paper shows there."""
    return agreement([finding.verdict for finding in _findings(study, exhibit, regime)])


def _glance(study: Study) -> str:
    regimes = full_regimes(study)
    rows = []
    for exhibit in EXHIBITS:
        if exhibit.claims:
            rows.append((exhibit.name, exhibit.caption, *(agreement_of(study, exhibit, one) for one in regimes)))
        elif exhibit.name == "Figure 1":
            rows.append((exhibit.name, exhibit.caption, *[_samples_agree(study.sheets)] * len(regimes)))
    example = agreement(["held" if agrees else "not held" for agrees in worked_example.agreements().values()])
    rows.append(("Worked example", "TSW, TSFI and decisions of three clients", *[example] * len(regimes)))
    return _table(("in the paper", "what it shows", *map(_label, regimes)), rows)


def _exhibit(study: Study, exhibit: Exhibit) -> list[str]:
    parts = [f"## {exhibit.name}", f"> {exhibit.caption}"]
    if exhibit.name == "Figure 1" and study.sheets:
        parts.append("![Ten samples of each data set](figures/samples.png)")
        parts.append(_samples_sentence(study.sheets))
    for kind in exhibit.plots:
        if any(_everywhere(study, name) for name in exhibit.experiments):
            parts.append(f"![{_TITLES[kind]}](figures/{_plot_name(exhibit, kind)}.png)")
    return [*parts, *_claims(study, exhibit), exhibit.ours]


def _claims(study: Study, exhibit: Exhibit) -> list[str]:
    """The paper's sentence above each claim, then a row per experiment and a column per regime."""
    regimes = full_regimes(study)
    found = {(f.claim, f.experiment): f for regime in regimes for f in _findings(study, exhibit, regime)}
    parts = []
    for claim in exhibit.claims:
        of_claim = [one for (name, _), one in found.items() if name == claim]
        if not of_claim:
            continue
        first = of_claim[0]
        rows = [
            (name, *(_cell(found.get((claim, _named(name, regime)))) for regime in regimes))
            for name in exhibit.experiments
            if any((claim, _named(name, regime)) in found for regime in regimes)
        ]
        parts += [
            f"> {first.quote}",
            f"**{claim}**: {first.statement} Measured: {first.effect}; claimed to be {_claimed(first.threshold)}.",
            _table(("experiment", *map(_label, regimes)), rows),
        ]
    return parts


def _claimed(threshold: float) -> str:
    """ "above 0.25", or "1" if only an effect of exactly 1 is above the threshold."""
    shown = threshold_text(threshold)
    exact = shown.removeprefix("just below ")
    return exact if exact != shown else f"above {shown}"


def _cell(finding: ClaimResult | None) -> str:
    if finding is None:
        return ""
    interval = interval_text(finding.interval.value, finding.interval.lower, finding.interval.upper)
    return f"{SYMBOLS[finding.verdict]} {interval}; n = {finding.replication_count}"


def _findings(study: Study, exhibit: Exhibit, regime: str) -> list[ClaimResult]:
    """In the exhibit's order of claims."""
    wanted = {_named(name, regime) for name in exhibit.experiments}
    found = [one for one in study.findings if one.claim in exhibit.claims and one.experiment in wanted]
    return sorted(found, key=lambda one: exhibit.claims.index(one.claim))


def _worked_example() -> list[str]:
    cases = worked_example.cases()
    first, second = worked_example.thresholds()
    printed = worked_example.PRINTED_THRESHOLDS
    return [
        "## Worked example",
        "> Now, we will present a toy example to demonstrate the calculations of the evaluation metrics",
        _table(
            ("eliminated in round 2", "TSW, printed", "TSW", "TSFI, printed", "TSFI of the final set",
             "TSFI by the printed formula"),
            [
                (", ".join(case.eliminated) or "nobody", number(case.printed_tsw), number(case.tsw),
                 number(case.printed_tsfi), number(case.tsfi_final_set), number(case.tsfi))
                for case in cases
            ],
        ),
        "TSW agrees. The printed TSFI come out if the final set is counted in every round, not by the paper's own "
        "formula; we use the formula, and test claims with both.",
        f"By the paper the decision changes at μ = {printed[0]} and {printed[1]}; it changes at {number(first)} and "
        f"{number(second)}. The first is a slip: 0.05 / (3/2 − 1/9) = 0.036.",
    ]  # fmt: skip


def _samples_agree(sheets: Iterable[SampleSheet]) -> Agreement:
    """Whether the sources that the paper calls grey are grey, and the others are not."""
    digits = [sheet for sheet in sheets if sheet.source != "cifar10"]
    if not digits:
        return "not testable"
    return "agrees" if all(_is_grey(one) == (one.source in _GREY) for one in digits) else "disagrees"


def _is_grey(sheet: SampleSheet) -> bool:
    return bool((sheet.images == sheet.images[..., :1]).all())


def _samples_sentence(sheets: Iterable[SampleSheet]) -> str:
    grey = [sheet.source for sheet in sheets if _is_grey(sheet)]
    rebuilt = [sheet.source for sheet in sheets if "rebuilt" in sheet.label]
    note = f" {', '.join(rebuilt)}: rendered again from the published description, not the original." if rebuilt else ""
    return f"Grey images: {', '.join(grey)}.{note}"


def _data(sheets: Sequence[SampleSheet]) -> list[str]:
    if not sheets:
        return []
    return [
        "## The data",
        "The fingerprint is the SHA-256 of all images and labels as they are used.",
        _table(
            ("source", "samples", "which", "size", "fingerprint"),
            [
                (sheet.label, f"{sheet.sample_count:,}", sheet.note, "×".join(map(str, np.shape(sheet.images)[1:])),
                 sheet.fingerprint[:16])
                for sheet in sheets
            ],
        ),
    ]  # fmt: skip


def _plot(exhibit: Exhibit, kind: PlotKind, shown: Sequence[ExperimentStudy]) -> Plot:
    return Plot(name=_plot_name(exhibit, kind), title=_TITLES[kind], draw=lambda width: _DRAW[kind](shown, width))


def _plot_name(exhibit: Exhibit, kind: PlotKind) -> str:
    name = exhibit.name.lower().replace(" ", "-")
    return name if len(exhibit.plots) == 1 else f"{name}-{kind}"


def _everywhere(study: Study, experiment: str) -> list[ExperimentStudy]:
    """The experiment in each full regime."""
    wanted = [_named(experiment, regime) for regime in full_regimes(study)]
    return [one for name in wanted for one in study.experiments if one.name == name and one.outcomes]


def _named(experiment: str, regime: str) -> str:
    return f"{experiment}[{regime}]" if regime else experiment


def _regime(experiment: str) -> str:
    return experiment.partition("[")[2].removesuffix("]")


def _label(regime: str) -> str:
    return regime or f"as shipped (learning_rate={load(EXPERIMENTS[0]).learning.learning_rate:g})"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([markdown_cells(headings), "|---" * len(headings) + "|", *map(markdown_cells, rows)])
