"""From what every scorer says of every client to contributions.

A scorer is a client whose validation samples measure the others. `effects[k, n]` is what client n contributed by the
samples of scorer k; a row of NaN is a client whose samples cannot measure anything. Rows and columns are the same
clients in the same order. With N scorers:

    all       q_n = mean over k of effects[k, n]                                                       (the paper's)
    guarded   q_n = [(N − 1) · trimmed mean over k ≠ n of e_kn + min(e_nn, lower quartile over k of e_kk)] / N

The trimmed mean leaves out the max(1, ⌊0.2 (N − 1)⌋) lowest and as many of the highest effects, so that no single
scorer can raise a friend or ruin a rival. The minimum keeps a client from raising itself above what is usual: three in
four honest clients reach the quartile anyway, so that there is little left to add by a lie.

e are the effects with all scorers at the same level. Scorers differ far more in how much a round gave them than in how
they compare clients. Were the levels left as they are, a scorer that puts all others low would move each of their
trimmed means to the next lower level; now it can lower one of them only by raising another. With w_n the usual effect
of client n, the median over k ≠ n of |effects[k, n]|:

    level of k   l_k minimises Σ_{n ≠ k} |effects[k, n] − l_k w_n|
    level of all l = trimmed mean of the l_k
    e_kn = effects[k, n] · l / l_k         if l_k > l > 0: what is stated at a higher level counts in proportion
    e_kn = effects[k, n] + w_n (l − l_k)   else: small effects are not enlarged, since their noise would be, too

With fewer than four scorers there is nothing to trim, and `guarded` is the same as `all`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.valuation.bootstrap import DRAW_COUNT, Draws

Effects = NDArray[np.float64]
ScorersRule = Literal["all", "guarded"]

FEWEST_GUARDED = 4
TRIMMED_ONE_IN = 5  # of the other scorers, at each end: a fifth
LEAST_EFFECT = 1e-15
"""Less counts as 0: it is rounding, and contributions made of it could be too small for a decision."""
_ROUNDING = 1e-9  # of sums of weights, so that halves are halves on every machine


def is_guarded(rule: ScorersRule, scorer_count: int) -> bool:
    """Whether the rule protects against scorers that lie."""
    return rule == "guarded" and scorer_count >= FEWEST_GUARDED


def combine(effects: Effects, rule: ScorersRule) -> NDArray[np.float64]:
    """The contribution of each client. Further axes, such as bootstrap draws, are combined entry by entry."""
    scorers = _scorers(effects)
    if not is_guarded(rule, len(scorers)):
        return np.asarray(effects[scorers].mean(axis=0))
    effects = _at_one_level(effects, scorers).effects
    contributions = np.empty(effects.shape[1:])
    usual = _usual_of_own(effects[scorers, scorers])
    for client in range(len(contributions)):
        others = scorers[scorers != client]
        mean = _trimmed_mean(effects[others, client])
        if client in scorers:
            own = np.minimum(effects[client, client], usual)
            mean = (len(others) * mean + own) / (len(others) + 1)
        contributions[client] = mean
    return contributions


def without_each_scorer(effects: Effects, rule: ScorersRule) -> Effects:
    """The contributions as they would be without one of the scorers: one row for each that is left out.

    Under `guarded` the same share of the scorers is trimmed, which may then cut a scorer in parts: with three others,
    one third at each end; without one of them, a third of two, so that both count in equal parts. The level of all
    scorers is that without the one, and contributions follow it by w_n for each unit.
    """
    scorers = _scorers(effects)
    count = len(scorers)
    if count < 2:
        raise InputError(f"leaving out a scorer needs at least two, got {count}; ask more clients")
    if not is_guarded(rule, count):
        given = effects[scorers]
        return np.asarray((given.sum(axis=0) - given) / (count - 1))
    at_one_level = _at_one_level(effects, scorers)
    effects, levels = at_one_level.effects, at_one_level.levels
    own = effects[scorers, scorers]
    usual_without = np.array([_usual_of_own(np.delete(own, k)) for k in range(count)])
    left = np.empty((count, effects.shape[1]))
    for client in range(effects.shape[1]):
        is_other = scorers != client
        left[is_other, client] = _trimmed_means_without_each(effects[scorers[is_other], client])
        if client in scorers:
            left[~is_other, client] = _trimmed_mean(effects[scorers[is_other], client])
            capped = np.minimum(effects[client, client], usual_without[is_other])
            left[is_other, client] = ((count - 2) * left[is_other, client] + capped) / (count - 1)
    return left + np.outer(_trimmed_means_without_each(levels) - _trimmed_mean(levels), at_one_level.usual)


def jackknife_errors(effects: Effects, rule: ScorersRule) -> NDArray[np.float64]:
    """The standard error of each contribution, √((N − 1)/N Σ_k (q_n without k − their mean)²).

    It treats the scorers as a sample of all clients that might have measured the round, since a mean over samples
    cannot be resampled by sample. It has N − 1 degrees of freedom: intervals need quantiles of Student's t. With one
    scorer it is infinite.
    """
    count = len(_scorers(effects))
    if count < 2:
        return np.full(effects.shape[1], math.inf)
    left = without_each_scorer(effects, rule)
    return np.asarray(np.sqrt((count - 1) / count * ((left - left.mean(axis=0)) ** 2).sum(axis=0)))


def scorer_draws(
    clients: Sequence[str], effects: Effects, rule: ScorersRule, stream_of: Callable[[str], np.random.Generator]
) -> dict[str, Draws]:
    """Draws of the contributions whose standard deviations are the jackknife errors.

    Every scorer has a normal variate in each draw, by which its influence on all contributions is multiplied: clients
    that the same scorers favour vary together. `stream_of(scorer)` gives a scorer's variates; if they are the same in
    every round, sums over rounds have the right error too. Drawing scorers with replacement would do the same for many
    scorers, but spread too little for few, and could draw the same scorer every time.
    """
    scorers = _scorers(effects)
    contributions = combine(effects, rule)
    if len(scorers) < 2:
        return {client: np.full(DRAW_COUNT, contributions[n]) for n, client in enumerate(clients)}
    left = without_each_scorer(effects, rule)
    variates = np.array([stream_of(clients[k]).standard_normal(DRAW_COUNT) for k in scorers])
    spread = (left - left.mean(axis=0)).T @ variates  # one row per client
    spread -= spread.mean(axis=1, keepdims=True)
    deviations = spread.std(axis=1, ddof=1)
    errors = jackknife_errors(effects, rule)
    scale = np.divide(errors, deviations, out=np.zeros_like(errors), where=deviations > 0)
    return {client: contributions[n] + scale[n] * spread[n] for n, client in enumerate(clients)}


def _scorers(effects: Effects) -> NDArray[np.intp]:
    """The rows that measure something."""
    found = np.flatnonzero(~np.isnan(effects).reshape(len(effects), -1).any(axis=1))
    if not found.size:
        raise InputError("at least one client must be able to score, got none; give clients more validation samples")
    return found


@dataclass(frozen=True, slots=True)
class _AtOneLevel:
    effects: Effects
    levels: NDArray[np.float64]  # l_k of each scorer, as stated
    usual: NDArray[np.float64]  # w_n of each client


def _at_one_level(effects: Effects, scorers: NDArray[np.intp]) -> _AtOneLevel:
    clients = range(effects.shape[1])
    usual = np.array([np.median(np.abs(effects[scorers[scorers != n], n]), axis=0) for n in clients])
    usual[usual < LEAST_EFFECT] = 0.0
    levels = np.array([_level(np.delete(effects[k], k, axis=0), np.delete(usual, k, axis=0)) for k in scorers])
    common = _trimmed_mean(levels)
    is_above = (levels > common) & (common > 0)
    share = np.divide(common, levels, out=np.ones_like(levels), where=is_above)
    lift = np.where(is_above, 0.0, common - levels)
    found = np.full_like(effects, np.nan)
    found[scorers] = effects[scorers] * share[:, None] + lift[:, None] * usual
    return _AtOneLevel(found, levels, usual)


def _level(effects: NDArray[np.float64], usual: NDArray[np.float64]) -> NDArray[np.float64]:
    """The l that minimises Σ |effects − l · usual|: the median of their ratios, each with the weight of the usual.

    If all between two ratios do, it is the middle.
    """
    ratios = np.divide(effects, usual, out=np.zeros_like(effects), where=usual > 0)
    order = np.argsort(ratios, axis=0)
    ratios = np.take_along_axis(ratios, order, axis=0)
    weights = np.cumsum(np.take_along_axis(usual, order, axis=0), axis=0)
    half = weights[-1] / 2
    lowest = np.expand_dims((weights >= half * (1 - _ROUNDING)).argmax(axis=0), 0)
    highest = np.expand_dims((weights > half * (1 + _ROUNDING)).argmax(axis=0), 0)
    return np.asarray((np.take_along_axis(ratios, lowest, axis=0) + np.take_along_axis(ratios, highest, axis=0))[0] / 2)


def _usual_of_own(own: NDArray[np.float64]) -> NDArray[np.float64]:
    """What three in four clients say of themselves at least; along the first axis."""
    return np.asarray(np.quantile(own, 0.25, axis=0))


def _trimmed_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Along the first axis."""
    cut = _trimmed_count(len(values))
    return np.asarray(np.sort(values, axis=0)[cut : len(values) - cut].mean(axis=0))


def _trimmed_count(other_count: int) -> int:
    return max(1, other_count // TRIMMED_ONE_IN)


def _trimmed_means_without_each(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The trimmed mean without each of the values, by sums of the sorted ones: as quick for a thousand as for ten."""
    order = np.argsort(values, kind="stable")
    x = values[order]
    count = len(x) - 1  # that are left
    cut = _trimmed_count(len(x)) / len(x) * count  # at each end, in values: may end within one
    first = int(cut)
    last = count - 1 - first
    place = np.arange(len(x))  # of the one left out
    kept = x[first : last + 2].sum() - x[np.clip(place, first, last + 1)]
    lowest = np.where(place > first, x[first], x[first + 1])
    highest = np.where(place > last, x[last], x[last + 1])
    means = np.empty(len(x))
    means[order] = (kept - (cut - first) * (lowest + highest)) / (count - 2 * cut)
    return means
