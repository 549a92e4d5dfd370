"""The decision map: what is dark where, read back from the drawn bars."""

from __future__ import annotations

import math

import pytest
from matplotlib.figure import Figure

import commonweal as cw
from commonweal.records import DecisionMap
from commonweal.report import decision_map


def drawn_map(mu, **figures):
    path = cw.mu_path(**figures)
    return DecisionMap(
        title="Round 1", clients=path.clients, pieces=path.pieces(), breakpoints=path.breakpoints, mu=mu
    ), path


def panel_of(map_):
    axes = Figure().subplots()
    decision_map._panel(axes, map_)
    return axes


@pytest.mark.parametrize(
    "figures",
    [
        {"profits": {"a": -0.05, "b": -0.05, "c": 0.15}, "contributions": {"a": 0.5, "b": 0.1, "c": 0.4}},
        {"profits": {"a": -1.0, "b": -2.0, "z": -0.1}, "contributions": {"a": 1.0, "b": 50.0, "z": 0.0}},
    ],
)
def test_bars_tell_who_stays_at_each_mu(figures):
    map_, path = drawn_map(0.05, **figures)
    axes = panel_of(map_)
    to_axis, _, end = decision_map._scale(map_)
    dark = tuple(int(decision_map._STAYS[i : i + 2], 16) / 255 for i in (1, 3, 5))
    probes = [b * factor for b in path.breakpoints for factor in (0.97, 1.03) if b > 0]
    for row, client in enumerate(map_.clients):
        for mu in probes:
            at = to_axis(mu)
            colours = [
                bar.get_facecolor()[:3] == pytest.approx(dark)
                for bar in axes.patches
                if bar.get_y() < row < bar.get_y() + bar.get_height()
                and bar.get_x() <= at < bar.get_x() + bar.get_width()
            ]
            assert colours[-1:] == [client in path.at(mu).retained], (client, mu)
        at_infinity = [bar for bar in axes.patches if bar.get_x() > end and bar.get_y() < row < bar.get_y() + 1]
        assert len(at_infinity) == 1
        assert at_infinity[0].get_facecolor()[:3] == pytest.approx(dark)


@pytest.mark.parametrize("mu", [0.0, 0.05, 1e6, math.inf, None])
def test_any_mu_can_be_marked(mu, tmp_path):
    map_, _ = drawn_map(mu, profits={"a": -0.05, "b": 0.15}, contributions={"a": 0.5, "b": 0.4})
    assert decision_map.draw([map_], tmp_path / "map.png") == 1


def test_a_failed_drawing_leaves_nothing(tmp_path):
    map_, _ = drawn_map(0.05, profits={"a": -0.05, "b": 0.15}, contributions={"a": 0.5, "b": 0.4})
    (tmp_path / "map.png").mkdir()
    with pytest.raises(cw.InputError, match="must be writable"):
        decision_map.draw([map_], tmp_path / "map.png")
    assert [path.name for path in tmp_path.iterdir()] == ["map.png"]
