"""The decision maps of a federation's rounds, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commonweal.records import RoundReport, RunReport
from commonweal.report import decision_map
from commonweal.report.panels import NARROW, TEXT_SIZE, blank_figure, new_figure
from commonweal.report.shown_names import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAPS_SHOWN = 15


def telling_rounds(chronicle: RunReport) -> list[RoundReport]:
    """The rounds whose map shows something: at some μ somebody would have left."""
    return [
        held
        for held in chronicle.rounds
        if held.decision_map is not None
        and any(len(retained) < len(held.decision_map.clients) for _, retained in held.decision_map.pieces)
    ]


def decision_maps(chronicle: RunReport, width: float) -> Figure:
    """A panel a telling round; of more than fifteen those with eliminations first, then the earliest."""
    by_weight = sorted(telling_rounds(chronicle), key=lambda held: (not held.record.decision.eliminated, held.number))
    shown = sorted(by_weight[:MAPS_SHOWN], key=lambda held: held.number)
    if not shown:
        return blank_figure(width, "Nobody would have left at any mu.")
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


def decision_map_of(held: RoundReport) -> Figure:
    """One round's map, as wide as a phone."""
    figure = new_figure(NARROW, _map_height(held))
    _map_panel(figure.subplots(), held)
    return figure


def _map_height(held: RoundReport) -> float:
    return 19.0 * min(len(held.clients), decision_map.CLIENTS_SHOWN) + 82


def _map_panel(axes: Axes, held: RoundReport) -> None:
    assert held.decision_map is not None
    gone = held.record.decision.eliminated
    leaving = f"{shortened(gone[0], 14)} leaves" if len(gone) == 1 else f"{len(gone)} clients leave"
    title = f"Round {held.number}: {leaving if gone else 'everybody stays'}"
    decision_map.panel(axes, held.decision_map, title=title, text_size=TEXT_SIZE - 0.5)
