"""Plots of a study: drawn at any width, the same bytes every time, true to the study."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_hex

from commonweal.report.drawing import NARROW, WIDE, rendered
from commonweal.report.palette import client_styles, mu_styles
from commonweal.report.study.axis_plot import over_mu, scale_for
from commonweal.report.study.contact_sheet import contact_sheet
from commonweal.report.study.forest import COLOURS, forest
from commonweal.report.study.frontier import frontier, label_offsets
from commonweal.report.study.grid_plots import durations, tsfi_over_rounds, tsw_over_rounds
from commonweal.report.study.plots import plots
from commonweal.report.study.tables import promoted
from commonweal.report.study.text import NO_RECOMMENDATION, range_text
from commonweal.report.write import rendered_plots
from tests.report import artificial_study


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in (*axes.texts, *axes.get_xticklabels())]


def headings(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def long_lines(axes):
    return {to_hex(line.get_color()): line for line in axes.lines if len(line.get_xdata()) > 1}


@pytest.mark.slow
def test_plots_that_pages_do_not_show_can_be_drawn_for_a_phone(rude_study):
    """Everything else is drawn at both widths for its page and files."""
    drawn = plots(rude_study)
    for kind in ("durations", "tsw", "tsfi"):
        assert rendered(lambda kind=kind: drawn[kind].draw(NARROW), "svg").startswith(b"<?xml"), kind


@pytest.mark.slow
@pytest.mark.parametrize("name", ["raw_only", "nothing_in_common"])
def test_unusual_studies_can_be_drawn(name):
    for plot in plots(promoted(getattr(artificial_study, name)())).values():
        assert rendered(lambda drawn=plot: drawn.draw(WIDE), "svg", name=plot.name).startswith(b"<?xml"), plot.name


def test_text_from_users_is_only_text_in_a_plot(study_folders):
    drawings = list((study_folders["rude"] / "figures").glob("*.svg"))
    assert len(drawings) > 10
    for drawing in drawings:
        assert b"<script" not in drawing.read_bytes(), drawing.name


def test_the_same_study_gives_the_same_bytes(study_folders):
    again = plots(artificial_study.rude())
    (axis,) = (name for name in again if name.endswith("-axis"))
    for name in ("samples", "frontier", axis):
        for file, content in rendered_plots([again[name]]).items():
            assert (study_folders["rude"] / "figures" / file).read_bytes() == content, file


def test_each_kind_of_plot_is_there(study):
    names = set(plots(study))
    assert {"samples", "claims", "durations", "tsw", "tsfi", "frontier"} <= names
    for experiment in study.experiments:
        assert {f"{experiment.name}-{kind}" for kind in ("durations", "tsw", "tsfi")} <= names
        assert (f"{experiment.name}-axis" in names) == bool(experiment.steps)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_plot_of_an_experiment_has_the_note_on_its_data(study, width):
    noted = study.experiments[0]
    for draw in (durations, tsw_over_rounds, tsfi_over_rounds, frontier):
        for shown in ([noted], study.experiments):
            assert artificial_study.REBUILT in " ".join(texts(draw(shown, width))).replace("\n", " "), draw
    assert artificial_study.REBUILT in texts(over_mu(noted, width))
    footnote = " ".join(texts(forest(study.findings, {noted.name: noted.data_note}, width)))
    assert f"* heterogeneous: {artificial_study.REBUILT}" in footnote
    assert any("rebuilt" in label for label in texts(contact_sheet(study.sheets, width)))


def test_points_are_mean_durations_in_the_clients_colours(study):
    figure = durations(study.experiments, WIDE)
    assert headings(figure) == [experiment.name for experiment in study.experiments]
    for axes, experiment in zip(figure.axes, study.experiments, strict=True):
        lines = long_lines(axes)
        for client, style in client_styles(experiment.clients).items():
            values = [outcome.durations[client].value for outcome in experiment.outcomes]
            assert list(lines[style.colour].get_ydata()) == values
        ticks = [tick.get_text() for tick in axes.get_xticklabels()]
        assert ticks == ["0\nleast\nlenient", "0.01", "0.02", "0.05", "0.1", "0.2", "inf\nmost\nlenient"]


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_labels_of_many_mu_do_not_hide_each_other(study, width):
    mus = (0.0, *(round(1e-4 * 1.15**place, 6) for place in range(58)), math.inf)
    crowded = artificial_study.at_mus(study.experiments[1], mus)
    for shown in ([crowded], [crowded, study.experiments[0]]):
        figure = durations(shown, width)
        figure.draw_without_rendering()
        axes = figure.axes[0]
        labels = axes.get_xticklabels()
        assert labels[0].get_text().startswith("0\n")
        assert labels[-1].get_text().startswith("inf\n")
        assert 4 <= len(labels) <= 20
        boxes = [label.get_window_extent() for label in labels]
        assert all(before.x1 < after.x0 for before, after in pairwise(boxes))
        for label, place in zip(labels, axes.get_xticks(), strict=True):
            assert float(label.get_text().partition("\n")[0]) == mus[round(place)]


@pytest.mark.parametrize(("draw", "series"), [(tsw_over_rounds, "tsw"), (tsfi_over_rounds, "tsfi")])
def test_lines_are_means_by_mu_with_bands(study, draw, series):
    experiment = study.experiments[0]
    figure = draw([experiment], WIDE)
    axes = figure.axes[0]
    styles = mu_styles([outcome.mu for outcome in experiment.outcomes])
    drawn = [list(line.get_ydata()) for line in axes.lines if len(line.get_xdata()) == experiment.round_count]
    assert drawn == [[total.value for total in getattr(outcome, series)] for outcome in experiment.outcomes]
    assert len(axes.collections) == len(experiment.outcomes)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[0] == "mu = 0 (least lenient)"
    assert labels[-1] == "mu = inf (most lenient)"
    assert len({str(style.dash) for style in styles.values()}) == 3  # the baselines have dashes of their own


def test_steps_are_drawn_where_they_lie(study):
    experiment = study.experiments[0]
    welfare = over_mu(experiment, WIDE).axes[1]
    line = next(line for line in welfare.lines if len(line.get_xdata()) > 10)
    scale = scale_for(experiment.steps)
    finite = experiment.steps[:-1]
    assert list(line.get_xdata()[:-1]) == [scale.place(step.mus.lower) for step in finite]
    assert list(line.get_ydata()[:-1]) == [step.tsw.value for step in finite]
    isolated = [line for line in welfare.lines if list(line.get_xdata()) == [scale.place(math.inf)]]
    assert [line.get_ydata()[0] for line in isolated] == [experiment.steps[-1].tsw.value]


def test_the_shape_of_too_many_steps_remains():
    experiment = artificial_study.experiment("many", ("a", "b", "c", "d"), seed=7, axis_count=150)
    assert len(experiment.steps) > 1000
    fairness = over_mu(experiment, NARROW).axes[2]
    line = max(fairness.lines, key=lambda line: len(line.get_xdata()))
    assert 300 < len(line.get_xdata()) < 450
    scale = scale_for(experiment.steps)
    places = [scale.place(step.mus.lower) for step in experiment.steps[:-1]]
    values = [step.tsfi.value for step in experiment.steps[:-1]]
    for x, y in zip(line.get_xdata()[:-1], line.get_ydata()[:-1], strict=True):
        near = [
            value
            for place, after, value in zip(places, [*places[1:], scale.end], values, strict=True)
            if place <= x + scale.end / 399 and after >= x
        ]
        assert min(near) <= y <= max(near)


def test_the_scale_of_mu_rises_and_keeps_infinity_apart(study):
    scale = scale_for(study.experiments[0].steps)
    mus = [0.0, 1e-9, 1e-4, 0.001, 0.002, 0.01, 0.05, 0.1, 1.0, math.inf]
    places = [scale.place(mu) for mu in mus]
    assert places == sorted(places)
    assert places[0] == 0
    assert scale.place(math.inf) > scale.end
    assert scale.limits[0] < 0 < scale.place(math.inf) < scale.limits[1]
    assert scale.ticks[0] == 0
    assert scale.ticks[-1] == math.inf
    for step in study.experiments[0].steps[:-1]:
        assert scale.place(step.mus.lower) < scale.end
    assert scale_for(study.experiments[0].steps[-1:]).end > 0  # no breakpoint at all


def test_the_frontier_labels_the_grid_and_marks_the_recommended(study):
    experiment = study.experiments[0]
    axes = frontier([experiment], WIDE).axes[0]
    labels = [text.get_text() for text in axes.texts]
    assert {"0", "0.01", "0.02", "0.05", "0.1", "0.2", "inf"} <= set(labels)
    stars = [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if line.get_marker() == "*"]
    steps = [recommendation.step for recommendation in experiment.recommendations if recommendation.step]
    assert set(stars) == {(step.tsfi.value, step.tsw.value) for step in steps}
    sentences = " ".join(" ".join(labels).split())
    assert "no mu is that fair" in sentences
    assert range_text(steps[0].mus) in sentences


def test_all_of_a_frontier_is_over_the_same_replications(study):
    experiment = study.experiments[0]
    assert experiment.axis_replication_count < experiment.replication_count
    axes = frontier([experiment], WIDE).axes[0]
    drawn = {(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if len(line.get_xdata()) == 1}
    along = {(step.tsfi.value, step.tsw.value) for step in experiment.steps}
    assert len(drawn) > 5
    assert drawn <= along
    for outcome in experiment.outcomes:
        (step,) = [step for step in experiment.steps if outcome.mu in step.mus]
        assert (step.tsfi.value, step.tsw.value) in drawn
    assert "Means over 12 replications with the whole axis." in " ".join(texts(axes.figure))
    without_axis = frontier([study.experiments[1]], WIDE)
    assert "Means over 20 replications." in " ".join(texts(without_axis))


def test_nothing_is_recommended_where_tsfi_leaves_0_to_1(study):
    experiment = artificial_study.with_wild_tsfi(study.experiments[0])
    assert experiment.recommendations
    axes = frontier([experiment], WIDE).axes[0]
    assert not [line for line in axes.lines if line.get_marker() == "*"]
    shown = " ".join(texts(axes.figure))
    assert NO_RECOMMENDATION in shown
    assert "TSFI of at least" not in shown


def test_plots_with_nothing_to_show_are_left_out():
    names = set(plots(artificial_study.nothing_in_common()))
    assert names == {"samples", "claims", "frontier", "heterogeneous-axis"}
    assert set(plots(artificial_study.raw_only())) == {"samples"}  # nothing was run under our choices


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_labels_of_the_frontier_do_not_hide_each_other(study, width):
    for experiment in study.experiments:
        figure = frontier([experiment], width)
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in figure.axes[0].texts if text.get_text()]
        for place, box in enumerate(boxes):
            for other in boxes[place + 1 :]:
                assert not box.padded(-2).overlaps(other.padded(-2)), experiment.name


def test_labels_of_points_in_one_place_are_spread():
    points = [(100.0, 100.0)] * 6
    offsets = label_offsets(points, [(20.0, 10.0)] * 6, inside=(0, 0, 200, 200))
    for place, (x, y) in enumerate(offsets):
        for other_x, other_y in offsets[place + 1 :]:
            assert abs(x - other_x) >= 20 - 1e-9 or abs(y - other_y) >= 10 - 1e-9


def test_the_forest_plot_shows_every_result_in_the_colour_of_its_verdict(study):
    axes = forest(study.findings, {}, WIDE).axes[0]
    points = [line for line in axes.lines if line.get_marker() in ("o", "X", "D")]
    assert [to_hex(point.get_color()) for point in points] == [COLOURS[f.verdict] for f in study.findings]
    for point, finding in zip(points, study.findings, strict=True):
        from_threshold = finding.interval.value - finding.threshold
        assert np.sign(round(point.get_xdata()[0] - 325.0, 3)) == np.sign(round(from_threshold, 12))
    shown = texts(axes.figure)
    for finding in study.findings:
        assert any(finding.statement in text for text in shown)
    assert {"✓ held", "✗ not held", "? undecided"} <= set(shown)


def test_samples_come_through_unchanged(study):
    image = contact_sheet(study.sheets, WIDE).axes[0].images[0].get_array()
    first = study.sheets[0].images[0]
    rows = np.arange(64) * first.shape[0] // 64
    assert np.array_equal(image[:64, :64, 0], first[rows][:, rows, 0])
    assert image[:64, :64, 3].min() == 255
    assert image[0, 66, 3] == 0  # transparent between two samples
