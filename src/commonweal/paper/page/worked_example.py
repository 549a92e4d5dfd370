"""The paper's worked example, computed again."""

from __future__ import annotations

import math
from dataclasses import dataclass

from commonweal import metrics
from commonweal.decision.decide import decision_with, mu_path
from commonweal.records import Figures, History, RoundRecord, Rules

CLIENTS = ("C1", "C2", "C3")
_FIRST = Figures(
    profits=dict(zip(CLIENTS, (0.1, 0.05, 0.25), strict=True)),
    contributions=dict(zip(CLIENTS, (0.4, 0.2, 0.4), strict=True)),
)
_SECOND = Figures(
    profits=dict(zip(CLIENTS, (-0.05, -0.05, 0.15), strict=True)),
    contributions=dict(zip(CLIENTS, (0.5, 0.1, 0.4), strict=True)),
)

PRINTED = {
    ("C1",): (0.5, 0.55),
    ("C2",): (0.5, 0.85),
    ("C1", "C2"): (0.55, 0.4),
    (): (0.45, 1.0),
}
"""What the paper prints for each set that may be eliminated after round 2: TSW and TSFI."""

PRINTED_THRESHOLDS = (0.033, 0.45)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One set eliminated after round 2, as printed and as computed."""

    eliminated: tuple[str, ...]
    printed_tsw: float
    printed_tsfi: float
    tsw: float
    tsfi: float  # by the printed formula
    tsfi_final_set: float  # counting the final set in every round


def cases() -> tuple[Case, ...]:
    """Everybody stays in round 1; in round 2 one of the four sets is eliminated."""
    rules = Rules(mu=0.0)
    found = []
    for eliminated, (tsw, tsfi) in PRINTED.items():
        retained = [client for client in CLIENTS if client not in eliminated]
        rounds = (
            RoundRecord(round_number=1, decision=decision_with(_FIRST, rules, CLIENTS)),
            RoundRecord(round_number=2, decision=decision_with(_SECOND, rules, retained)),
        )
        history = History(clients=CLIENTS, rounds=rounds)
        found.append(
            Case(
                eliminated=eliminated,
                printed_tsw=tsw,
                printed_tsfi=tsfi,
                tsw=metrics.tsw(history)[-1],
                tsfi=metrics.tsfi(history)[-1],
                tsfi_final_set=metrics.tsfi_final_set(history)[-1],
            )
        )
    return tuple(found)


def agreements() -> dict[str, bool]:
    """Whether what the paper prints follows from its own formulas."""
    found = cases()
    return {
        "TSW": all(math.isclose(case.tsw, case.printed_tsw) for case in found),
        "TSFI by the printed formula": all(math.isclose(case.tsfi, case.printed_tsfi) for case in found),
        "thresholds": all(
            math.isclose(ours, printed) for ours, printed in zip(thresholds(), PRINTED_THRESHOLDS, strict=True)
        ),
    }


def thresholds() -> tuple[float, ...]:
    """The μ at which the decision on round 2 changes."""
    return mu_path(profits=_SECOND.profits, contributions=_SECOND.contributions).breakpoints
