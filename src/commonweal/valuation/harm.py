"""Whether a client harms the federation beyond doubt: a t test on what its updates did to the scores of all others.

E_t[k, n] is the effect of client n's updates on the score of scorer k in round t (see `valuation.scorers`). A scorer's
validation samples persist, so its errors in successive rounds are not independent; its effects are summed first:

    S_kn = Σ_t E_t[k, n]                 over the rounds in which n took part, for all other clients k of this round
    s_kn = S_kn · c / Σ_{m ≠ k} |S_km|   c = mean over k of Σ_{m ≠ k} |S_km|: every scorer weighs the same

    n is harmful if   mean(s_n) + t(1 − α/(T N); K − 1) · sd(s_n)/√K < −δ c/(N − 1)      over its K scorers

c/(N − 1) is the mean size of what a client does to another one, and δ a tenth: what a small client does may be bad
beyond doubt and yet not matter.

T is the number of planned rounds, without those of grace, and N that of clients: α bounds the chance that any honest
client of the federation is ever found harmful, if its effects on scorers are a sample of what it does to clients of
this kind. The client's own score does not count, since the client could make it up. A single scorer that lies can hide
harm, but cannot feign it: however large the effects that it states, it weighs as much as any other.

A scorer may have missed a round. Such a round counts for it with the mean of the others, and their deviations from
that mean count K/K_t-fold, K_t being their number: this gives the mean over rounds of means over scorers, and its
variance as if each scorer were a cluster of observations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from commonweal.records.harm import HarmEvidence
from commonweal.valuation.scorers import Effects
from commonweal.valuation.student_t import upper_quantile

ERROR = 0.05
"""α: the chance that an honest client of the whole federation is ever found harmful."""

MARGIN = 0.1
"""δ: as a part of the mean size of the effects of all clients on one another."""

VERSION = "harm/2"
"""In ledgers; a test that judges the same effects differently needs a new one. harm/1 had no margin."""

FEWEST_SCORERS = 3
"""So that a federation needs four clients, as guarded scorers do."""

_SMALLEST_LEVEL = 1e-12
_quantile = cache(upper_quantile)  # the same for all clients of a round


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRound:
    """The effects of a round. Rows are scorers and columns are clients, both `clients` in order; NaN: did not score."""

    number: int
    clients: Sequence[str]
    effects: Effects


def find_harm(rounds: Sequence[ScoredRound], *, test_count: int) -> tuple[HarmEvidence, ...]:
    """The evidence against each client of the last round that is harmful beyond doubt; `rounds` are all so far."""
    last = rounds[-1]
    can_score = _can_score(last.effects)
    is_other = can_score[:, None] & ~np.eye(len(last.clients), dtype=np.bool_)
    counts = is_other.sum(axis=0)  # K of each client
    totals, deviations = np.zeros(len(last.clients)), np.zeros(last.effects.shape)
    numbers: list[list[int]] = [[] for _ in last.clients]
    for each in rounds:
        effects, there = _arranged(each, last.clients)
        counted = is_other & there
        present = counted.sum(axis=0)  # K_t
        is_enough = present >= FEWEST_SCORERS
        present = np.maximum(present, 1)
        means = np.where(counted, effects, 0.0).sum(axis=0) / present
        totals += np.where(is_enough, means, 0.0)
        deviations += np.where(counted & is_enough, (effects - means) * (counts / present), 0.0)
        for position in np.flatnonzero(is_enough).tolist():
            numbers[position].append(each.number)
    sums = _weighing_the_same(np.where(is_other, totals + deviations, 0.0))
    margin = -MARGIN * float(np.abs(sums).sum() / max(is_other.sum(), 1))
    found = [
        harm_evidence(
            last.clients[n],
            numbers[n],
            {last.clients[k]: float(sums[k, n]) for k in np.flatnonzero(is_other[:, n]).tolist()},
            test_count,
            margin,
        )
        for n in np.flatnonzero((sums.sum(axis=0) < 0) & (counts >= FEWEST_SCORERS)).tolist()
    ]
    return tuple(one for one in found if one.is_beyond_doubt)


def margin_at_least(found: Sequence[HarmEvidence], client_count: int) -> float:
    """The margin nearest to 0 that the effects of the harmful clients allow, without those of the others.

    After weighing, the effects of every scorer that has any are of the same total size, which is at least that of its
    effects by the harmful clients. A client that is the only harmful one may be a scorer of others itself.
    """
    sizes: dict[str, float] = {}
    for one in found:
        for scorer, effect in one.by_scorer.items():
            sizes[scorer] = sizes.get(scorer, 0.0) + abs(effect)
    scorer_count = len({*sizes, *(one.client for one in found)})
    total = sum(size > 0 for size in sizes.values()) * max(sizes.values(), default=0.0)
    return -MARGIN * total / max(scorer_count * (client_count - 1), 1)


def is_minority(harmful_count: int, client_count: int) -> bool:
    """Whether so few come out harmful that they are eliminated: otherwise it may be the scores that are wrong."""
    return 2 * harmful_count < client_count


def harm_evidence(
    client: str, round_numbers: Sequence[int], by_scorer: Mapping[str, float], test_count: int, margin: float
) -> HarmEvidence:
    """The test of one client from the sums at each scorer, of which there are at least three."""
    sums = list(by_scorer.values())
    count = len(sums)
    mean = math.fsum(sums) / count
    error = math.sqrt(math.fsum((effect - mean) ** 2 for effect in sums) / (count * (count - 1)))
    quantile = _quantile(max(ERROR / test_count, _SMALLEST_LEVEL), count - 1)
    return HarmEvidence(
        client=client,
        round_numbers=tuple(round_numbers),
        by_scorer=dict(by_scorer),
        test_count=test_count,
        mean=mean,
        standard_error=error,
        bound=mean + quantile * error,
        margin=margin,
    )


def _weighing_the_same(sums: Effects) -> Effects:
    """Rows divided by the sum of their sizes, times the mean of these; a row of zeros stays."""
    sizes = np.abs(sums).sum(axis=1, keepdims=True)
    return np.asarray(sums * np.divide(sizes.mean(), sizes, out=np.zeros_like(sizes), where=sizes > 0))


def _can_score(effects: Effects) -> NDArray[np.bool_]:
    return np.asarray(~np.isnan(effects).any(axis=1))


def _arranged(scored: ScoredRound, clients: Sequence[str]) -> tuple[Effects, NDArray[np.bool_]]:
    """The effects of a round in the rows and columns of these clients, and which of them are known."""
    places = {client: place for place, client in enumerate(scored.clients)}
    here = [place for place, client in enumerate(clients) if client in places]
    then = [places[clients[place]] for place in here]
    effects, known = np.zeros((len(clients),) * 2), np.zeros((len(clients),) * 2, np.bool_)
    rows = _can_score(scored.effects)[then]
    effects[np.ix_(here, here)] = np.where(rows[:, None], scored.effects[np.ix_(then, then)], 0.0)
    known[np.ix_(here, here)] = rows[:, None]
    return effects, known
