"""What it means for the figures of a run that clients reported other profits than they made, where that is known."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from commonweal.records import RoundReport

_CLIENTS_SHOWN = 5


def misreport_warnings(rounds: Sequence[RoundReport]) -> tuple[str, ...]:
    """One warning for all clients together; none if nobody is known to have reported another profit than it made.

    Total social welfare is the sum of the retained clients' profits, so with actual profits it differs by their sum of
    actual − reported.
    """
    reported, made = defaultdict[str, float](float), defaultdict[str, float](float)
    difference = 0.0
    for each in rounds:
        for client, figures in each.clients.items():
            if figures.actual_profit is not None:
                reported[client] += figures.profit.value
                made[client] += figures.actual_profit.value
                if client in each.record.decision.retained:
                    difference += figures.actual_profit.value - figures.profit.value
    if not made:
        return ()
    told = ", ".join(f"{c} reported {reported[c]:+.4g} and made {made[c]:+.4g}" for c in list(made)[:_CLIENTS_SHOWN])
    more = f" and {len(made) - _CLIENTS_SHOWN} more" if len(made) > _CLIENTS_SHOWN else ""
    welfare = math.fsum(each.budget.value for each in rounds)
    return (
        f"not every reported profit is true: {told}{more}. Decisions, budgets, welfare and payoffs use the reported "
        f"profits; with the actual ones, the same decisions have a total social welfare of {welfare + difference:+.4g} "
        f"instead of {welfare:+.4g}",
    )
