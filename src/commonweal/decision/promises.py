"""What the mechanism promises about a decision, as checks that anyone can run.

Budget balance, proportionality and feasibility hold by construction (proportionality not under another loss rule or
a liability cap). Individual rationality does not: it is measured in every round, as `Decision.irrational`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from commonweal.decision.reasons import in_figures
from commonweal.records import Decision


def imbalance(decision: Decision) -> float:
    """Σ transfers: money that appeared (+) or vanished (−). Promise: zero."""
    return math.fsum(decision.transfers.values())


def disproportion(decision: Decision) -> float:
    """max |payoff − share · B|. Promise: zero, unless another loss rule or a liability cap applies."""
    return max(
        (abs(payoff - decision.shares[client] * decision.budget) for client, payoff in decision.payoffs.items()),
        default=0.0,
    )


def infeasible(decision: Decision) -> tuple[str, ...]:
    """Clients whose treatment no feasible decision allows: missing, counted twice, or eliminated without a loss."""
    times_placed = Counter(decision.retained + decision.eliminated)
    may_go = set(decision.candidates) if not decision.spares_losses else set()
    wrongly_gone = set(decision.eliminated) - may_go - set(decision.harmful)
    clients = dict.fromkeys(decision.figures.clients + tuple(times_placed))
    return tuple(c for c in clients if c not in decision.figures.profits or times_placed[c] != 1 or c in wrongly_gone)


def shares_outside(decision: Decision) -> dict[str, float]:
    """Shares that are not within 0..1: possible only under the raw contribution rule."""
    return {client: share for client, share in decision.shares.items() if not -1e-12 <= share <= 1 + 1e-12}


def warnings_of(decision: Decision, where: str, payoff_errors: Mapping[str, float | None] | None = None) -> list[str]:
    """What a reader of the decision must know: a promise that failed, or a set that is not proven to be best.

    `payoff_errors` are the standard errors of payoffs, where known.
    """
    errors = payoff_errors or {}
    warnings: list[str] = []
    below = decision.irrational
    if below:
        worst = sorted(below.items(), key=lambda item: -item[1])
        told = ", ".join(f"{client} {in_figures(amount, errors.get(client))}" for client, amount in worst[:5])
        more = f" and {len(worst) - 5} more" if len(worst) > 5 else ""
        warnings.append(f"individual rationality fails in {where}: after transfers, these clients lose: {told}{more}")
    outside = shares_outside(decision)
    if outside:
        told = ", ".join(f"{client} {share:.6g}" for client, share in list(outside.items())[:5])
        warnings.append(f"raw contributions give shares outside 0..1 in {where}: {told}")
    if decision.limit_reached:
        warnings.append(
            f"{where} is not proven to be optimal: the solver stopped at its node limit; "
            f"no other set scores better by more than {decision.proven_gap:.3g}"
        )
    return warnings
