"""All plots of a study by name: of the whole study, and of each experiment."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from commonweal.records.study import ExperimentStudy, Study
from commonweal.report.drawing import Plot
from commonweal.report.study.axis_plot import over_mu
from commonweal.report.study.contact_sheet import contact_sheet
from commonweal.report.study.forest import forest
from commonweal.report.study.frontier import frontier, recommendations
from commonweal.report.study.grid_plots import durations, tsfi_over_rounds, tsw_over_rounds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[[Sequence[ExperimentStudy], float], "Figure"]


def plots(study: Study) -> dict[str, Plot]:
    """All plots that go to the folder `figures`, in the order in which a reader meets them."""
    made = [*_of_the_whole(study)]
    for experiment, slug in zip(study.experiments, slugs(study), strict=True):
        made += _of_one(experiment, slug)
    return {plot.name: plot for plot in made}


def data_notes(study: Study) -> dict[str, str]:
    """The notes on the data by experiment, without empty ones."""
    return {each.name: each.data_note for each in study.experiments if each.data_note}


def slugs(study: Study) -> list[str]:
    """Each experiment's name as a part of file names and links."""
    found: list[str] = []
    for place, experiment in enumerate(study.experiments, start=1):
        slug = re.sub(r"[^a-z0-9]+", "-", experiment.name.lower()).strip("-")[:40]
        found.append(slug if slug and slug not in found else f"{slug or 'experiment'}-{place}")
    return found


def _of_the_whole(study: Study) -> list[Plot]:
    made: list[Plot] = []
    notes: Mapping[str, str] = data_notes(study)
    if study.sheets:
        made.append(
            Plot(
                name="samples",
                title="Ten samples of each data set",
                draw=lambda width: contact_sheet(study.sheets, width),
            )
        )
    if study.findings:
        made.append(
            Plot(
                name="claims",
                title="Claims: intervals beside their thresholds, each effect on its own scale",
                draw=lambda width: forest(study.findings, notes, width),
            )
        )
    made += _by_mu(study.experiments)
    on_the_plane = [experiment for experiment in study.experiments if experiment.outcomes or experiment.steps]
    if on_the_plane:
        starred = any(map(recommendations, on_the_plane))
        title = f"Welfare and fairness along mu{'; stars are recommended' if starred else ''}"
        made.append(_plot("frontier", title, frontier, on_the_plane))
    return made


def _of_one(experiment: ExperimentStudy, slug: str) -> list[Plot]:
    made = _by_mu([experiment], prefix=f"{slug}-")
    if experiment.steps:
        made.append(
            Plot(
                name=f"{slug}-axis",
                title="Outcome on the whole axis of mu",
                draw=lambda width: over_mu(experiment, width),
            )
        )
    return made


def _by_mu(experiments: Sequence[ExperimentStudy], prefix: str = "") -> list[Plot]:
    """The plots of the experiments that have a μ at which all their replications were run."""
    drawn = [experiment for experiment in experiments if experiment.outcomes]
    if not drawn:
        return []
    return [
        _plot(f"{prefix}durations", "How long clients took part, by mu", durations, drawn),
        _plot(f"{prefix}tsw", "TSW after each round, by mu", tsw_over_rounds, drawn),
        _plot(f"{prefix}tsfi", "TSFI after each round, by mu", tsfi_over_rounds, drawn),
    ]


def _plot(name: str, title: str, draw: Draw, experiments: Sequence[ExperimentStudy]) -> Plot:
    return Plot(name=name, title=title, draw=lambda width: draw(experiments, width))
