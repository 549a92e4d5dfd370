"""The decision map, read back from the drawn bars."""

from __future__ import annotations

import math

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import commonweal as cw
from commonweal.errors import StorageError
from commonweal.records import DecisionMap
from commonweal.report import decision_map
from commonweal.report.palette import ELIMINATED, RETAINED


def drawn_map(mu, **figures):
    path = cw.mu_path(**figures)
    return DecisionMap(
        title="Round 1", clients=path.clients, pieces=path.pieces(), breakpoints=path.breakpoints, mu=mu
    ), path


def panel_of(map_):
    axes = Figure().subplots()
    decision_map.panel(axes, map_, decision_map.MuScale.of([map_]), title="Round 1")
    return axes


@pytest.mark.parametrize(
    "figures",
    [
        {"profits": {"a": -0.05, "b": -0.05, "c": 0.15}, "contributions": {"a": 0.5, "b": 0.1, "c": 0.4}},
        {"profits": {"a": -1.0, "b": -2.0, "z": -0.1}, "contributions": {"a": 1.0, "b": 50.0, "z": 0.0}},
    ],
)
def test_bars_show_who_is_retained_at_each_mu(figures):
    map_, path = drawn_map(0.05, **figures)
    axes = panel_of(map_)
    scale = decision_map.MuScale.of([map_])
    to_axis, end = scale.to_axis, scale.end
    probes = [b * factor for b in path.breakpoints for factor in (0.97, 1.03) if b > 0]

    def colours_at(row, x):
        """Colours of all bars that cover the point."""
        return [
            to_hex(bars.get_facecolor()[0])
            for bars in axes.collections
            for corners in (p.vertices for p in bars.get_paths())
            if corners[:, 0].min() <= x < corners[:, 0].max() and corners[:, 1].min() < row < corners[:, 1].max()
        ]

    for row, client in enumerate(map_.clients):
        for mu in probes:
            expected = RETAINED if client in path.at(mu).retained else ELIMINATED
            assert colours_at(row, to_axis(mu)) == [expected], (client, mu)
        assert colours_at(row, end * 1.05) == [RETAINED]


@pytest.mark.parametrize("mu", [0.0, 0.05, 1e6, math.inf, None])
def test_any_mu_can_be_marked(mu, tmp_path):
    map_, _ = drawn_map(mu, profits={"a": -0.05, "b": 0.15}, contributions={"a": 0.5, "b": 0.4})
    assert decision_map.draw([map_], tmp_path / "map.png") == 1


def test_a_failed_drawing_leaves_nothing(tmp_path):
    map_, _ = drawn_map(0.05, profits={"a": -0.05, "b": 0.15}, contributions={"a": 0.5, "b": 0.4})
    (tmp_path / "map.png").mkdir()
    with pytest.raises(StorageError, match=r"map\.png"):
        decision_map.draw([map_], tmp_path / "map.png")
    assert [path.name for path in tmp_path.iterdir()] == ["map.png"]


def test_names_are_drawn_unchanged(tmp_path):
    profits = {"$\\frac$": -0.05, "a$x$": 0.15, "病院": 0.1}
    map_, _ = drawn_map(0.05, profits=profits, contributions=dict.fromkeys(profits, 1.0))
    assert [label.get_text() for label in panel_of(map_).get_yticklabels()] == list(profits)
    assert decision_map.draw([map_], tmp_path / "map.svg") == 1


def test_links_are_followed_and_long_names_work(tmp_path):
    map_, _ = drawn_map(0.05, profits={"a": -0.05, "b": 0.15}, contributions={"a": 0.5, "b": 0.4})
    (tmp_path / "link.png").symlink_to(tmp_path / "map.png")
    decision_map.draw([map_], tmp_path / "link.png")
    assert (tmp_path / "link.png").is_symlink()
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    decision_map.draw([map_], tmp_path / f"{'a' * 240}.png")


def test_all_maps_of_a_page_share_one_axis():
    """Linear only if all of them could be; both ends reach every breakpoint."""
    near, _ = drawn_map(0.05, profits={"a": -0.05, "b": 0.15}, contributions={"a": 0.5, "b": 0.4})
    far, _ = drawn_map(0.05, profits={"a": -5.0, "b": 0.15}, contributions={"a": 0.05, "b": 0.4})
    alone, together = decision_map.MuScale.of([near]), decision_map.MuScale.of([near, far])
    assert alone.to_axis(0.05) == 0.05
    assert together.to_axis(0.1) - together.to_axis(0.01) == pytest.approx(1)  # a decade
    for map_ in (near, far):
        axes = Figure().subplots()
        decision_map.panel(axes, map_, together, title="")
        assert axes.get_xlim() == (-0.005 * together.end, 1.085 * together.end)
        assert all(0 < together.to_axis(mu) < together.end for mu in map_.breakpoints)
    labels = [f"{tick:g}" for tick in together.ticks]
    assert labels[0] == "0"
    assert len(labels) <= 9
