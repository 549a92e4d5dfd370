"""The range within which clients may report, where nobody has agreed on one."""

from __future__ import annotations

from collections.abc import Sequence

from commonweal.audit.game import AuditedRound, Bounds


def observed_bounds(rounds: Sequence[AuditedRound]) -> Bounds:
    """From the lowest profit that any client made in any round to the highest; 0 is always within."""
    profits = [profit for audited in rounds for profit in audited.figures.profits.values()]
    return Bounds(low=min([*profits, 0.0]), high=max([*profits, 0.0]))
