"""The decision maps of a federation's rounds, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commonweal.records import Chronicle, ChronicleRound
from commonweal.report import decision_map
from commonweal.report.panels import NARROW, new_figure
from commonweal.report.shown_names import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAPS_SHOWN = 15


def mapped_rounds(chronicle: Chronicle) -> list[ChronicleRound]:
    """The rounds with a decision map."""
    return [held for held in chronicle.rounds if held.decision_map is not None]


def decision_maps(chronicle: Chronicle, width: float) -> Figure:
    """A panel a round; of more than fifteen rounds those with eliminations first, then the earliest."""
    rounds = mapped_rounds(chronicle)
    telling = sorted(rounds, key=lambda held: (not held.record.decision.eliminated, held.number))[:_MAPS_SHOWN]
    shown = sorted(telling, key=lambda held: held.number)
    columns = min(len(shown), max(1, round(width / NARROW)))
    lines = [shown[start : start + columns] for start in range(0, len(shown), columns)]
    heights = [max(_map_height(held) for held in line) for line in lines]
    figure = new_figure(NARROW * columns, sum(heights))
    grid = figure.subplots(len(lines), columns, squeeze=False, height_ratios=heights)
    for place, axes in enumerate(grid.flat):
        if place < len(shown):
            _map_panel(axes, shown[place])
        else:
            axes.set_axis_off()
    return figure


def decision_map_of(held: ChronicleRound) -> Figure:
    """One round's map, as wide as a phone."""
    figure = new_figure(NARROW, _map_height(held))
    _map_panel(figure.subplots(), held)
    return figure


def _map_height(held: ChronicleRound) -> float:
    return 17.0 * len(held.clients) + 74


def _map_panel(axes: Axes, held: ChronicleRound) -> None:
    assert held.decision_map is not None
    gone = held.record.decision.eliminated
    leaving = f"{shortened(gone[0])} leaves" if len(gone) == 1 else f"{len(gone)} clients leave"
    decision_map.panel(axes, held.decision_map, title=f"Round {held.number}: {leaving if gone else 'everybody stays'}")
