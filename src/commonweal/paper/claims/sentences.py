"""Sentences that explain several claims: why durations, welfare and contributions come out as they do."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from commonweal.paper.claims.sample import FINITE, NEVER, Sample


def mu_text(mu: float) -> str:
    return f"{mu:g}"


def joined(*sentences: str) -> str:
    """The sentences that are not empty, as one text."""
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


def by_mu(sample: Sample, values: Iterable[float], digits: int = 2) -> str:
    """One number for each μ of the grid, as far as there are numbers."""
    pairs = list(zip(sample.mus, values, strict=False))
    numbers = ", ".join(f"{value:.{digits}f}" for _, value in pairs)
    return f"{numbers} at μ = {', '.join(mu_text(mu) for mu, _ in pairs)}"


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def saturation(sample: Sample) -> str:
    """From which round on costs exceed utility, at μ = inf."""
    figures = [[record.decision.figures for record in row[NEVER].rounds] for row in sample.histories]
    profits = np.array([[list(f.profits.values()) for f in rounds] for rounds in figures])
    costs = np.array([[list((f.costs or {}).values()) for f in rounds] for rounds in figures])
    earning = np.flatnonzero(profits.mean(axis=(0, 2)) >= 0)
    first = int(earning[-1]) + 1 if len(earning) else 0  # counted from 0
    if first == sample.round_count:
        return f"If nobody is eliminated, a client still earns {profits[:, -1].mean():.4f} in the last round"
    utility, cost = (profits + costs)[:, first:].mean(), costs[:, first:].mean()
    return (
        f"If nobody is eliminated, a client's mean utility is below its mean cost from round {first + 1} on "
        f"({utility:.4f} against {cost:.4f} per round)"
    )


def loss_makers_without_contribution(sample: Sample) -> str:
    """How many loss-making clients no finite μ can retain."""
    at_a_loss = without = 0
    for decision in sample.decisions(FINITE):
        used = [decision.used_contributions[client] for client in decision.candidates]
        at_a_loss += len(used)
        without += sum(q <= 0 for q in used)
    if not without:
        return ""
    return (
        f"Of the clients at a loss, {percent(without / at_a_loss)} have no positive contribution in that round, so "
        "eliminating them costs nothing at any finite μ"
    )


def client_0_beside_others(sample: Sample) -> str:
    """How often client 0 and the others make a loss, and how much they contribute then."""
    first = sample.clients[0]
    rounds, losses, contributions = [0, 0], [0, 0], [0.0, 0.0]
    for decision in sample.decisions(FINITE):
        for client, profit in decision.figures.profits.items():
            which = int(client != first)
            rounds[which] += 1
            if profit < 0:
                losses[which] += 1
                contributions[which] += decision.used_contributions[client]
    own, other = (loss / max(count, 1) for loss, count in zip(losses, rounds, strict=True))
    own_q, other_q = (q / max(loss, 1) for q, loss in zip(contributions, losses, strict=True))
    return (
        f"On average {first} makes a loss in {percent(own)} of its rounds, and another client in {percent(other)}; in "
        f"those rounds they contribute {own_q:.4f} and {other_q:.4f}"
    )
