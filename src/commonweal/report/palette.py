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

_CLIENT_COLOURS = ("#0067a5", "#d35400", "#008a68", "#b0428c", "#8f7000", "#56616b")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 2)))
_MARKERS = ("o", "s", "^", "D", "v", "P")

DARK = {
    INK: "#e4eaed", MUTED: "#9fb0ba", GRID: "#2c373e", PAPER: "#171e23", STAYS: "#48a9b9", LEAVES: "#5e4138",
    ZERO: "#6c7b85",
    "#0067a5": "#5cb3f0", "#d35400": "#f58b4c", "#008a68": "#34c79c", "#b0428c": "#e58cc6", "#8f7000": "#d6b545",
    "#56616b": "#b3bfc8",
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
