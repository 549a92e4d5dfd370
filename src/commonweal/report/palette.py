"""One look for every picture: inks, and for each client a colour, a dash and a marker that stay its own.

Six colours can be told apart by colour-blind readers on white and on near-black; from the seventh client on they
come again with another dash and marker. `DARK` gives each colour's counterpart on a dark page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

INK, MUTED, GRID, PAPER = "#22313a", "#5b6b75", "#dde3e6", "#fefefe"
STAYS, LEAVES = "#2a7f8e", "#e9c9bd"
ZERO = "#97a3ab"  # where gain turns into loss

_CLIENT_COLOURS = ("#0a55b0", "#dd6500", "#00916a", "#b8499a", "#7a5212", "#4c4650")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 2)))
_MARKERS = ("o", "s", "^", "D", "v", "P")

DARK = {
    INK: "#e4eaed", MUTED: "#9fb0ba", GRID: "#2c373e", PAPER: "#12181c", STAYS: "#48a9b9", LEAVES: "#5e4138",
    ZERO: "#6c7b85",
    "#0a55b0": "#5b9dfa", "#dd6500": "#e07d38", "#00916a": "#2bd48c", "#b8499a": "#cf8dc5", "#7a5212": "#ecd03f",
    "#4c4650": "#d8e2e0",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStyle:
    """How one client is drawn, wherever it is drawn."""

    colour: str
    dash: Any  # as matplotlib takes it
    marker: str


def client_styles(clients: Sequence[str]) -> dict[str, ClientStyle]:
    """By place among all clients that ever were members, so that no picture gives a client another colour."""
    styles = {}
    for place, client in enumerate(clients):
        turn, colour = divmod(place, len(_CLIENT_COLOURS))
        styles[client] = ClientStyle(
            colour=_CLIENT_COLOURS[colour],
            dash=_DASHES[turn % len(_DASHES)],
            marker=_MARKERS[(colour + turn) % len(_MARKERS)],
        )
    return styles
