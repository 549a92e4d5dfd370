"""Plots of a run: for one client or thirty, the same bytes every time, true to the figures."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex

from commonweal.records import Estimate, MetricName
from commonweal.report.alone_or_together import differences, over_rounds
from commonweal.report.drawing import NARROW, WIDE, rendered
from commonweal.report.metric_text import MetricText
from commonweal.report.palette import MUTED, client_styles
from commonweal.report.plots import (
    contributions,
    durations,
    expected_profits,
    fate_with_stability,
    in_all_rounds,
    mean,
    metric,
    payment_totals,
    plots,
    profits,
    tsw,
)
from commonweal.report.run_page.page import to_page
from tests.report import run_reports


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_a_single_client_can_be_drawn():
    alone = run_reports.make_run_report(clients=("only",), round_count=2, mu=0.1)
    for plot in plots(alone):
        rendered(lambda drawn=plot: drawn.draw(WIDE), "png")


def test_of_many_clients_the_first_sixty_are_drawn_and_the_page_says_so(words_only):
    names = tuple(f"client-{n}" for n in range(70))
    many = run_reports.make_run_report(clients=names, round_count=1, mu=math.inf, with_maps=False)
    by_name = {plot.name: plot for plot in plots(many)}
    of_each = {"durations", "accuracy", "profits", "contributions", "payments", "transfers"}
    assert {name for name, plot in by_name.items() if plot.title.endswith("(first 60 of 70 clients)")} == of_each
    (axes,) = durations(many, WIDE).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(names[:60])
    page = to_page(many)
    assert "show the first 60 of 70 clients" in page
    assert all(f">{name}<" in page for name in names), "tables have all of them"
    few = run_reports.make_run_report(clients=names[:60], round_count=1, mu=math.inf, with_maps=False)
    assert not any("first" in plot.title for plot in plots(few))


def test_a_hundred_rounds_can_be_drawn():
    long = run_reports.make_run_report(clients=("a", "b"), round_count=100, mu=math.inf, with_maps=False)
    assert len(long.rounds) == 100
    for plot in plots(long):
        rendered(lambda drawn=plot: drawn.draw(NARROW), "svg")


def test_bars_are_durations_and_pale_for_eliminated_clients(hospitals):
    bars = [bar for bar in durations(hospitals, WIDE).axes[0].patches if bar.get_alpha() is not None]
    assert [bar.get_width() for bar in bars] == list(hospitals.durations.values())
    for bar, left in zip(bars, hospitals.eliminated_after.values(), strict=True):
        assert (bar.get_alpha() == 1.0) == (left is None)


def test_lines_are_accuracies_in_the_clients_colours(hospitals):
    axes = metric(hospitals, WIDE).axes[0]
    lines = {to_hex(line.get_color()): line for line in axes.lines if len(line.get_xdata()) > 1}
    for client, style in client_styles(hospitals.clients).items():
        points = {
            each.number: each.clients[client].accuracy.value for each in hospitals.rounds if client in each.clients
        }
        assert list(lines[style.colour].get_xdata()) == list(points)
        assert list(lines[style.colour].get_ydata()) == list(points.values())
    crosses = [line for line in axes.lines if line.get_marker() == "X"]
    assert sorted(int(line.get_xdata()[0]) for line in crosses) == sorted(
        left for left in hospitals.eliminated_after.values() if left
    )


def test_a_line_has_gaps_where_the_metric_cannot_be_measured():
    clinics = run_reports.clinics()
    axes = metric(clinics, WIDE).axes[0]
    assert sum(len(line.get_xdata()) > 1 and not np.isnan(line.get_ydata()).any() for line in axes.lines) == 3
    assert axes.get_title(loc="left") == "not measurable: single-class"
    second = clinics.rounds[1]
    hidden = replace(second.clients["gains"], accuracy=run_reports.UNKNOWN)
    gapped = replace(
        clinics,
        rounds=(clinics.rounds[0], replace(second, clients={**second.clients, "gains": hidden}), clinics.rounds[2]),
    )
    colour = client_styles(clinics.clients)["gains"].colour
    (line,) = (line for line in metric(gapped, WIDE).axes[0].lines if to_hex(line.get_color()) == colour)
    assert np.isnan(line.get_ydata()).tolist() == [False, True, False]


def test_differences_are_drawn_with_the_intervals_of_the_advice():
    clinics = run_reports.clinics()
    drawn = differences(clinics, WIDE).axes[0]
    intervals = {line.get_ydata()[0]: tuple(line.get_xdata()) for line in drawn.lines[1:] if len(line.get_xdata()) == 2}
    for row, told in enumerate(clinics.advice.clients.values()):
        if told.improvement is not None:
            assert intervals.pop(row) == (told.improvement.low, told.improvement.high)
    assert not intervals
    assert [text.get_text() for text in drawn.texts] == ["not measurable"]


def test_a_very_wide_interval_ends_in_an_arrow():
    clients = ("a", "b", "c", "d", "e")
    report = run_reports.make_run_report(
        clients=clients, round_count=1, mu=0.1, alone={**dict.fromkeys(clients, 0.01), "e": 0.9}
    )
    drawn = differences(report, WIDE).axes[0]
    assert [line.get_ydata()[0] for line in drawn.lines if line.get_marker() == ">"] == [4]
    assert drawn.get_xlim()[1] < 0.5


def test_a_smaller_error_is_drawn_on_the_left():
    errors = MetricName(name="mean-absolute-error", label="error", higher_is_better=False, is_share=False)
    report = run_reports.make_run_report(clients=("a", "b"), round_count=2, mu=0.1, metric=errors,
                                         alone={"a": -0.2, "b": 0.2})  # fmt: skip
    points = [line for line in differences(report, WIDE).axes[0].lines if line.get_marker() in ("o", "X")]
    assert [(point.get_marker(), point.get_xdata()[0] < 0) for point in points] == [("o", True), ("X", False)]


def test_both_models_are_drawn_over_rounds():
    clinics = run_reports.clinics()
    for width in (WIDE, NARROW):
        axes = over_rounds(clinics, width).axes[0]
        assert set(clinics.clients) <= set(texts(axes.figure))
        dashed = [line for line in axes.lines if to_hex(line.get_color()) == MUTED]
        assert len(dashed) == len(clinics.clients)


def test_many_clients_have_a_panel_even_if_unmeasurable():
    many = tuple(f"clinic {place}" for place in range(12))
    report = run_reports.make_run_report(clients=many, round_count=2, mu=0.1, unmeasurable=many[:3])
    for width in (WIDE, NARROW):
        assert texts(metric(report, width)).count("not measurable") == 3


def test_nothing_measurable_is_said():
    nothing = run_reports.make_run_report(clients=("a", "b"), round_count=2, mu=0.1, unmeasurable=("a", "b"))
    assert "cannot be measured at any client" in metric(nothing, WIDE).texts[0].get_text()


def test_thirty_clients_get_a_panel_each():
    crowd = run_reports.crowd(round_count=2)
    for width in (WIDE, NARROW):
        assert set(crowd.clients) <= set(texts(metric(crowd, width)))


def test_the_welfare_line_is_tsw(hospitals):
    line = next(line for line in tsw(hospitals, WIDE).axes[0].lines if len(line.get_xdata()) == 8)
    assert list(line.get_ydata()) == [total.value for total in hospitals.tsw]


@pytest.mark.parametrize(("draw", "kind"), [(profits, "profit"), (contributions, "contribution")])
def test_profits_and_contributions_are_drawn_with_their_errors(hospitals, draw, kind):
    axes = draw(hospitals, WIDE).axes[0]
    lines = {to_hex(line.get_color()): line for line in axes.lines if len(line.get_xdata()) > 1}
    for client, style in client_styles(hospitals.clients).items():
        figures = [getattr(each.clients[client], kind) for each in hospitals.rounds if client in each.clients]
        assert lines[style.colour].get_ydata() == pytest.approx([one.value for one in figures])
        bands = [band for band in axes.collections if to_hex(band.get_facecolor()[0]) == style.colour]
        heights = bands[0].get_paths()[0].vertices[:, 1]
        assert heights.max() == pytest.approx(max(one.value + one.standard_error for one in figures))


def test_expected_profits_are_drawn_where_selection_goes_by_them(hospitals):
    forecast = run_reports.with_forecasts(hospitals)
    axes = expected_profits(forecast, WIDE).axes[0]
    lines = {to_hex(line.get_color()): line for line in axes.lines if len(line.get_xdata()) > 1}
    for client, style in client_styles(hospitals.clients).items():
        used = [each.clients[client].used for each in forecast.rounds if client in each.clients]
        assert lines[style.colour].get_ydata() == pytest.approx([one.expected_profit.value for one in used])
    assert "expected-profits" in [plot.name for plot in plots(forecast)]
    assert "expected-profits" not in [plot.name for plot in plots(hospitals)]


@pytest.mark.parametrize("client_count", [5, 8])
def test_a_first_round_that_hides_the_others_is_stated_in_words(client_count):
    """An untrained model gains most in round 1; what decides later rounds must still be seen."""

    def with_first(value):
        report = run_reports.make_run_report(clients=tuple("abcdefgh"[:client_count]), round_count=4, mu=math.inf)
        return replace(
            report,
            rounds=tuple(
                replace(
                    each,
                    clients={
                        client: replace(
                            one, profit=replace(one.profit, value=value if each.number == 1 else 0.01 * place)
                        )
                        for place, (client, one) in enumerate(each.clients.items())
                    },
                )
                for each in report.rounds
            ),
        )

    hidden, seen = (profits(with_first(value), WIDE).axes[0] for value in (5.0, 0.02))
    assert hidden.get_title(loc="left") == "Round 1 is not drawn: +5 to +5"
    assert seen.get_title(loc="left") == ""
    points = [{len(line.get_xdata()) for line in axes.lines} for axes in (hidden, seen)]
    assert (max(points[0]), max(points[1])) == (3, 4)


def test_seven_clients_have_a_panel_each_because_there_are_six_colours():
    six, seven = (
        run_reports.make_run_report(clients=tuple(names), round_count=2, mu=9.0) for names in ("abcdef", "abcdefg")
    )
    assert contributions(six, WIDE).axes[0].axison
    assert not contributions(seven, WIDE).axes[0].axison  # panels have no common axis
    assert len({style.colour for style in client_styles(six.clients).values()}) == 6


def test_the_mean_has_the_axis_of_all_clients_and_its_ticks_are_not_rounded(hospitals):
    together, alone = metric(hospitals, WIDE).axes[0].get_ylim(), mean(hospitals, WIDE).axes[0].get_ylim()
    assert alone == pytest.approx(together, abs=0.02)
    tick = MetricText.of(hospitals).tick
    assert [tick(value) for value in (0.8, 0.825, 0.85)] == ["80 %", "82.5 %", "85 %"]


def test_bars_say_how_stable_each_fate_is(hospitals):
    said = texts(durations(hospitals, WIDE))
    for client in hospitals.clients:
        assert any(fate_with_stability(hospitals, client) in text for text in said)
    assert sum("(stability " in text for text in said) == len(hospitals.clients)


def test_an_infinite_error_is_not_drawn():
    pair = run_reports.pair()
    (only,) = pair.rounds
    unknown = Estimate(value=0.1, standard_error=math.inf)
    clients = {client: replace(figures, contribution=unknown) for client, figures in only.clients.items()}
    report = replace(pair, rounds=(replace(only, clients=clients),))
    assert rendered(lambda: contributions(report, WIDE), "svg").startswith(b"<?xml")


def test_the_mean_is_that_of_the_clients_of_all_rounds(hospitals):
    """By hand: a client that left or was absent does not count in any round."""
    same = in_all_rounds(hospitals)
    assert 0 < len(same) < len(hospitals.clients)
    assert all(hospitals.durations[client] == len(hospitals.rounds) for client in same)
    line = next(line for line in mean(hospitals, WIDE).axes[0].lines if len(line.get_xdata()) > 1)
    by_hand = [np.mean([each.clients[client].accuracy.value for client in same]) for each in hospitals.rounds]
    assert line.get_ydata() == pytest.approx(by_hand)
    nobody = replace(hospitals, rounds=(*hospitals.rounds, replace(hospitals.rounds[-1], clients={})))
    assert in_all_rounds(nobody) == ()
    assert "mean" not in [plot.name for plot in plots(nobody)]


def test_payments_add_up_to_the_transfers(hospitals):
    totals = payment_totals(hospitals)
    for client in hospitals.clients:
        received = math.fsum(amount for (_, receiver), amount in totals.items() if receiver == client)
        paid = math.fsum(amount for (payer, _), amount in totals.items() if payer == client)
        assert received - paid == pytest.approx(hospitals.total_transfers[client].value)


def test_names_are_drawn_unchanged(hospitals):
    rude = run_reports.rude()
    svg = rendered(lambda: durations(rude, WIDE), "svg").decode()
    assert "<script" not in svg
    assert "&lt;script&gt;" in svg
