"""How a verdict is shown, wherever it is shown: by symbol and word, so that colour is never all there is."""

from __future__ import annotations

from collections.abc import Mapping

from commonweal.records.study import VERDICTS, Verdict

SYMBOLS: Mapping[Verdict, str] = dict(zip(VERDICTS, "✓✗?", strict=True))
MEANINGS: Mapping[Verdict, str] = dict(
    zip(VERDICTS, ("above the threshold", "at or below it", "too uncertain to tell"), strict=True)
)


def verdict_text(verdict: Verdict) -> str:
    """ "✓ held"."""
    return f"{SYMBOLS[verdict]} {verdict}"


def verdict_of(shown: str) -> Verdict:
    """The verdict that a text shows."""
    return next(verdict for verdict in VERDICTS if shown == verdict_text(verdict))


def legend() -> str:
    """ "✓ held, ✗ not held, ? undecided"."""
    return ", ".join(map(verdict_text, VERDICTS))
