"""The look of every plot: shared colours, and a colour, dash and marker for each client or mu.

Colour-blind readers can tell the six client colours apart, on white and on near-black; from the seventh client on, the
colours repeat with another dash and marker. The larger mu is, the more its colour contrasts with the page. `DARK` gives
each colour's counterpart on a dark page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

INK, MUTED, GRID, PAPER = "#22313a", "#5b6b75", "#dde3e6", "#fefefe"
RETAINED, ELIMINATED = "#2a7f8e", "#e9c9bd"
ZERO = "#97a3ab"  # where gain turns into loss
HELD, NOT_HELD, UNDECIDED = "#0b6f86", "#c2410c", "#57524a"  # verdicts on a claim

_CLIENT_COLOURS = ("#0a55b0", "#dd6500", "#00916a", "#b8499a", "#7a5212", "#4c4650")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)), (0, (9, 2)))
_MU_COLOURS = ("#d97a1a", "#c2473f", "#93317f", "#54278f", "#17174f")
_MARKERS = ("o", "s", "^", "D", "v", "P")

DARK = {
    INK: "#e4eaed", MUTED: "#9fb0ba", GRID: "#2c373e", PAPER: "#12181c", RETAINED: "#48a9b9", ELIMINATED: "#5e4138",
    ZERO: "#6c7b85",
    "#0a55b0": "#5b9dfa", "#dd6500": "#e07d38", "#00916a": "#2bd48c", "#b8499a": "#cf8dc5", "#7a5212": "#ecd03f",
    "#4c4650": "#d8e2e0",
    HELD: "#4fb9d0", NOT_HELD: "#f58a4b", UNDECIDED: "#b7b2a8",
    "#d97a1a": "#a35a1e", "#c2473f": "#d66e68", "#93317f": "#d490c8", "#54278f": "#b3c0f8", "#17174f": "#f2f8ff",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LineStyle:
    """How one client or one mu is drawn in all plots."""

    colour: str
    dash: Any  # as matplotlib takes it
    marker: str | None


def client_styles(clients: Sequence[str]) -> dict[str, LineStyle]:
    """By position among all clients that were ever members, so that a client has the same colour in all plots."""
    styles = {}
    for place, client in enumerate(clients):
        turn, colour = divmod(place, len(_CLIENT_COLOURS))
        styles[client] = LineStyle(
            colour=_CLIENT_COLOURS[colour],
            dash=_DASHES[turn % len(_DASHES)],
            marker=_MARKERS[(colour + turn) % len(_MARKERS)],
        )
    return styles


def mu_styles(mus: Sequence[float]) -> dict[float, LineStyle]:
    """By position among all μ of a grid; the baselines 0 and inf are outside the scale and drawn dashed and dotted."""
    styles = {
        0.0: LineStyle(colour=INK, dash=(0, (5, 2)), marker=None),
        math.inf: LineStyle(colour=INK, dash=(0, (1, 1.3)), marker=None),
    }
    scale = sorted(mu for mu in mus if mu not in styles)
    count, last = len(_MU_COLOURS), len(_MU_COLOURS) - 1
    used: list[int] = []
    for place, mu in enumerate(scale):
        few = len(scale) <= count  # then spread over the whole scale
        colour = round(place * last / max(len(scale) - 1, 1)) if few else place * count // len(scale)
        dash = _DASHES[used.count(colour) % len(_DASHES)]
        styles[mu] = LineStyle(colour=_MU_COLOURS[colour], dash=dash, marker=_MARKERS[place % len(_MARKERS)])
        used.append(colour)
    return {mu: styles[mu] for mu in mus}
