"""Shapley values from random orders of joining: TMC and GTG-Shapley.

In a walk the clients join one by one in random order, and each is credited with the gain in value when it
joins; the Shapley value is the mean credit over all orders. A walk is cut short when the value has come close to
v(A): the clients that have not joined then share the remaining gain equally, so that the values still sum to
v(A) − v(∅). (In both papers they get nothing, which loses up to the tolerance.) Values that were skipped in this
way are not remembered as if they had been evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.valuation.coalition import CoalitionValue, Game
from commonweal.valuation.measure import Contributions
from commonweal.valuation.sampled import exact_if_affordable, generator, limited_game, shapley_measure

WALKS_PER_EVALUATION = 10
GTG_WALK_MINIMUM = 30
GTG_WINDOW = 10
ERROR_WALK_MINIMUM = 5
"""Fewer walks may agree by chance, so no standard error is estimated from them."""


def evaluation_minimum(client_count: int) -> int:
    return client_count + 1


def shapley_tmc(
    clients: Sequence[str],
    coalition_value: CoalitionValue,
    *,
    evaluation_limit: int,
    seed: int | np.random.Generator,
    truncation_tolerance: float = 0.01,
) -> Contributions:
    """Truncated Monte Carlo (Ghorbani and Zou 2019): the mean credit over uniformly random walks.

    A walk is cut as soon as |v(A) − v(joined)| < truncation_tolerance · |v(A)|; the authors wait for six
    such steps in a row, which never happens in a federation of a few silos. Walks are made until the evaluations
    are used up. With few clients, walks over known coalitions cost nothing, so there are at most ten per evaluation.
    """
    _check_tolerance("truncation tolerance", truncation_tolerance)
    game = limited_game(clients, coalition_value, evaluation_limit, minimum=evaluation_minimum(len(clients)))
    exact = exact_if_affordable(game, measure="shapley_tmc")
    if exact is not None:
        return exact
    rng = generator(seed)
    tolerance = truncation_tolerance * abs(game(frozenset(game.clients)))
    walks: list[NDArray[np.float64]] = []
    while len(walks) < WALKS_PER_EVALUATION * evaluation_limit:
        credit = _walk(game, rng.permutation(len(game.clients)), tolerance)
        if credit is None:
            break
        walks.append(credit)
    return _mean_credit(game, np.array(walks), measure="shapley_tmc")


def shapley_gtg(
    clients: Sequence[str],
    coalition_value: CoalitionValue,
    *,
    evaluation_limit: int,
    seed: int | np.random.Generator,
    round_tolerance: float = 0.01,
    walk_tolerance: float = 0.001,
    convergence_tolerance: float = 0.05,
) -> Contributions:
    """GTG-Shapley (Liu et al. 2022): guided, truncated walks; tolerances are absolute, in units of v.

    - Between rounds: if |v(A) − v(∅)| <= round_tolerance, all values are 0, after 2 evaluations (and their errors
      are infinite, since they are not known).
    - Guided: in a sweep each client joins first in exactly one walk; the order of these leaders is random, so
      that a sweep cut short by the limit favours nobody.
    - Within a round: a walk is cut as soon as |v(A) − v(joined)| < walk_tolerance.
    - End: walks stop after a sweep, with more than 30 walks done, if none of the last 10 running means differs
      from the newest by more than convergence_tolerance (mean relative difference over the clients);
      with a tolerance of 0 they never stop early.
    """
    _check_tolerance("round tolerance", round_tolerance)
    _check_tolerance("walk tolerance", walk_tolerance)
    _check_tolerance("convergence tolerance", convergence_tolerance)
    game = limited_game(clients, coalition_value, evaluation_limit, minimum=evaluation_minimum(len(clients)))
    if abs(game(frozenset(game.clients)) - game(frozenset())) <= round_tolerance:
        return Contributions(
            measure="shapley_gtg",
            values=dict.fromkeys(game.clients, 0.0),
            standard_errors=dict.fromkeys(game.clients, math.inf),
            evaluation_count=game.evaluation_count,
        )
    exact = exact_if_affordable(game, measure="shapley_gtg")
    if exact is not None:
        return exact
    client_count = len(game.clients)
    walks: list[NDArray[np.float64]] = []
    leaders: list[int] = []
    for order in _guided_orders(client_count, generator(seed)):
        credit = _walk(game, order, walk_tolerance)
        if credit is None:
            break
        walks.append(credit)
        leaders.append(int(order[0]))
        is_sweep_done = len(walks) % client_count == 0
        if is_sweep_done and _has_converged(walks, convergence_tolerance):
            break
        if len(walks) >= WALKS_PER_EVALUATION * evaluation_limit:
            break
    return _mean_credit(game, np.array(walks), leaders, measure="shapley_gtg")


def _guided_orders(client_count: int, rng: np.random.Generator) -> Iterator[NDArray[np.intp]]:
    while True:
        for leader in rng.permutation(client_count):
            followers = rng.permutation(np.delete(np.arange(client_count), leader))
            yield np.concatenate(([leader], followers))


def _walk(game: Game, order: NDArray[np.intp], tolerance: float) -> NDArray[np.float64] | None:
    """Each client's credit in one walk; None if there are not enough evaluations left for it."""
    total, value = game(frozenset(game.clients)), game(frozenset())
    credit = np.zeros(len(order))
    joined: frozenset[str] = frozenset()
    for place, i in enumerate(order):
        if place > 0 and abs(total - value) < tolerance:
            credit[order[place:]] = (total - value) / (len(order) - place)
            break
        joined = joined | {game.clients[i]}
        if not game.is_affordable(joined):
            return None
        previous, value = value, game(joined)
        credit[i] = value - previous
    return credit


def _has_converged(walks: list[NDArray[np.float64]], tolerance: float) -> bool:
    if len(walks) <= GTG_WALK_MINIMUM or tolerance == 0.0:
        return False
    means = np.cumsum(walks, axis=0) / np.arange(1, len(walks) + 1)[:, None]
    newest = means[-1]
    differences = np.abs(means[-GTG_WINDOW:] - newest) / (np.abs(newest) + 1e-12)
    return bool(differences.mean(axis=1).max() <= tolerance)


def _mean_credit(game: Game, walks: NDArray[np.float64], leaders: Sequence[int] = (), *, measure: str) -> Contributions:
    """Mean credit and its standard error; a leader's credit is known, so only that of followers varies.

    The error does not include the bias of walks that were cut, nor that of reaching the limit (after which only walks
    over known coalitions are made).
    """
    walk_count, client_count = walks.shape
    varies = np.ones(walks.shape)
    if client_count <= len(leaders) and client_count > 2:
        varies[np.arange(walk_count), leaders] = 0.0
    errors = np.full(client_count, np.inf)
    if walk_count >= ERROR_WALK_MINIMUM:
        counts = varies.sum(axis=0)
        deviations = varies * (walks - (varies * walks).sum(axis=0) / counts)
        errors = np.sqrt((deviations**2).sum(axis=0) * counts / (counts - 1)) / walk_count
    return Contributions(
        measure=measure,
        values=dict(zip(game.clients, walks.mean(axis=0).tolist(), strict=True)),
        standard_errors=dict(zip(game.clients, errors.tolist(), strict=True)),
        evaluation_count=game.evaluation_count,
    )


def _check_tolerance(name: str, tolerance: float) -> None:
    if not 0.0 <= tolerance < math.inf:
        raise InputError(f"{name} must be finite and >= 0, got {tolerance}; give 0 to switch it off")


TMC = shapley_measure("tmc", shapley_tmc, evaluation_minimum)
GTG = shapley_measure("gtg", shapley_gtg, evaluation_minimum)
