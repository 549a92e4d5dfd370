"""What a history of rounds amounts to: welfare, fairness, durations and rationality.

Let A(t) be the clients retained after round t and q(n,t) the contributions that the decisions used:

    TSW(t')  = Σ_{t≤t'} B(t)
    TSFI(t') = Σ_{t≤t'} Q(A(t), t) / Σ_{t≤t'} Q(everybody, t)

`tsfi` is that formula; `tsfi_final_set` counts the final set A(t') in the numerator of every round. Contributions of
clients that have left are not measured: in the denominator, each counts with the share that it had when it left,
relative to the clients retained then (or with 0, if `departed` says so). A denominator of 0 gives 1.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from commonweal.errors import InputError
from commonweal.records import Decision, History

Departed = Literal["share", "zero"]


def tsw(history: History, *, round_count: int | None = None) -> tuple[float, ...]:
    """Total social welfare after each round, in units of utility; held at its last value up to `round_count`."""
    sums: list[float] = []
    for record in history.rounds:
        sums.append((sums[-1] if sums else 0.0) + record.decision.budget)
    return _held(sums, round_count)


def tsfi(history: History, *, departed: Departed = "share", round_count: int | None = None) -> tuple[float, ...]:
    """Total selection fairness index after each round, as the paper prints it."""
    return _tsfi(history, departed, round_count, final_set=False)


def tsfi_final_set(
    history: History, *, departed: Departed = "share", round_count: int | None = None
) -> tuple[float, ...]:
    """Total selection fairness index after each round, as the paper's worked example computes it."""
    return _tsfi(history, departed, round_count, final_set=True)


def durations(history: History) -> dict[str, int]:
    """Rounds in which each client took part: up to its elimination or the federation's end, less its absences."""
    taken_part = Counter(client for record in history.rounds for client in record.decision.figures.profits)
    return {client: taken_part[client] for client in history.clients}


def total_payoffs(history: History) -> dict[str, float]:
    """Σ payoff of each client over the rounds in which it was retained."""
    totals = dict.fromkeys(history.clients, 0.0)
    for record in history.rounds:
        for client, payoff in record.decision.payoffs.items():
            totals[client] += payoff
    return totals


def total_contributions(history: History) -> dict[str, float]:
    """Σ contribution, as used, of each client over the rounds in which it was retained."""
    totals = dict.fromkeys(history.clients, 0.0)
    for record in history.rounds:
        for client in record.decision.retained:
            totals[client] += record.decision.used_contributions[client]
    return totals


def jain(values: Sequence[float]) -> float | None:
    """Jain's index (Σx)² / (N Σx²): 1 if all are equal, 1/N if one has all. None if one is negative."""
    x = np.asarray(values, dtype=np.float64)
    if not len(x) or x.min() < 0:
        return None
    squares = float((x * x).sum())
    return float(x.sum()) ** 2 / (len(x) * squares) if squares else 1.0


def gini(values: Sequence[float]) -> float | None:
    """Gini coefficient Σ|x−y| / (2 N Σx): 0 if all are equal, towards 1 if one has all. None as for `jain`."""
    x = np.sort(np.asarray(values, dtype=np.float64))
    if not len(x) or x[0] < 0:
        return None
    total = float(x.sum())
    ranks = np.arange(1, len(x) + 1)
    return float(((2 * ranks - len(x) - 1) * x).sum()) / (len(x) * total) if total else 0.0


def payoff_contribution_correlation(history: History) -> float | None:
    """Pearson correlation over clients of total payoff with total contribution; None where one of them is constant."""
    payoffs, contributions = total_payoffs(history), total_contributions(history)  # in the same order
    x = np.array(list(payoffs.values()))
    y = np.array(list(contributions.values()))
    if len(x) < 2 or (x == x[0]).all() or (y == y[0]).all():
        return None
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip((x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()), -1.0, 1.0))


def irrational_rounds(history: History) -> dict[int, dict[str, float]]:
    """Rounds in which individual rationality failed: by round, for whom and by how much."""
    violations = {record.round_number: record.decision.irrational for record in history.rounds}
    return {round_number: by_client for round_number, by_client in violations.items() if by_client}


def _tsfi(history: History, departed: Departed, round_count: int | None, *, final_set: bool) -> tuple[float, ...]:
    if departed not in ("share", "zero"):
        raise InputError(f"departed must be 'share' or 'zero', got {departed!r}; choose one of those")
    so_far: dict[str, float] = defaultdict(float)  # contribution of each client up to now
    retained_sum = everybody_sum = 0.0
    departures: list[Decision] = []
    values: list[float] = []
    for record in history.rounds:
        decision = record.decision
        used = decision.used_contributions
        retained_sum += math.fsum(used[client] for client in decision.retained)
        everybody_sum += math.fsum(_with_departed(used, departures).values())
        if final_set:
            for client, contribution in used.items():
                so_far[client] += contribution
            for client in decision.eliminated:
                del so_far[client]
        if departed == "share" and decision.eliminated:
            departures.append(decision)
        numerator = math.fsum(so_far.values()) if final_set else retained_sum
        values.append(numerator / everybody_sum if everybody_sum else 1.0)
    return _held(values, round_count)


def _with_departed(used: Mapping[str, float], departures: list[Decision]) -> Mapping[str, float]:
    """A round's contributions, with estimates for clients that left earlier, from the latest departure to the first.

    q̂ = share/(1 − share) · Q(those retained then, now) = q/Q(retained then) · Q(those retained then, now); if those
    retained then contributed nothing, it is the contribution itself.
    """
    if not departures:
        return used
    estimates = dict(used)
    for decision in reversed(departures):
        then = decision.used_contributions
        retained_then = math.fsum(then[client] for client in decision.retained)
        retained_now = math.fsum(estimates.get(client, 0.0) for client in decision.retained)
        for client in decision.eliminated:
            share_of = retained_now / retained_then if retained_then else 1.0
            estimates[client] = then[client] * share_of if then[client] else 0.0
    return estimates


def _held(values: list[float], round_count: int | None) -> tuple[float, ...]:
    """The values, the last one repeated up to `round_count`: a federation that ended early keeps what it reached."""
    if round_count is not None and values:
        values = values + values[-1:] * (round_count - len(values))
    return tuple(values)
