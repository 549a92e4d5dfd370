"""Which Shapley estimator is nearest to the exact values at an equal number of coalition evaluations?

Three games of twelve clients: a noisy saturating accuracy, weighted voting, and real models (logistic regressions on
scikit-learn's digits, trained by clients of different size and label noise, averaged by sample count). Every
estimator may evaluate the same number of distinct coalitions, the empty and the full one included. The error of a cell
is the root mean square over clients and seeds, relative to the root mean square of the exact values.

The games are not those on which the estimator was developed, only of the same kinds.

The rule: the package's default fails when its mean log error over all cells exceeds that of the best other
estimator by more than two standard errors of their difference over the cells.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import shapiq
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from commonweal.valuation import estimate_shapley, shapley, shapley_gtg

Floats = NDArray[np.float64]
Table = Floats
"""v of every coalition; coalition number c contains client i if bit i of c is set."""

Estimator = Callable[[Table, int, int], Floats]
"""From the game, the evaluation limit and the seed to one value per client."""

CLIENT_COUNT = 12
CLIENTS = [f"client-{i:02}" for i in range(CLIENT_COUNT)]
BITS = {name: 1 << i for i, name in enumerate(CLIENTS)}
EVALUATIONS_PER_CLIENT = (2, 5, 10, 25, 50)
SEED_COUNT = 20
DEFAULT = "adaptive"


def memberships() -> Floats:
    numbers = np.arange(1 << CLIENT_COUNT)
    return ((numbers[:, None] >> np.arange(CLIENT_COUNT)) & 1).astype(np.float64)


def saturating_game() -> Table:
    """Accuracy that saturates in the amount of good data; two clients do harm; measured with noise."""
    rng = np.random.default_rng(101)
    amounts = np.exp(rng.normal(4.5, 0.8, CLIENT_COUNT))
    quality = rng.uniform(0.3, 1.0, CLIENT_COUNT)
    quality[:2] = -0.2
    members = memberships()
    good = np.maximum(members @ (amounts * quality), 0.0)
    dirt = members @ (amounts * (1.0 - quality)) / (members @ amounts + 50.0)
    noise = rng.normal(scale=0.004, size=len(members))
    table: Table = 0.1 + 0.85 * (1.0 - np.exp(-((good / 200.0) ** 0.7))) - 0.05 * dirt + noise
    return table


def voting_game() -> Table:
    """1 for a majority of the votes, otherwise 0."""
    votes = np.random.default_rng(102).integers(1, 20, CLIENT_COUNT)
    table: Table = (memberships() @ votes > votes.sum() / 2).astype(np.float64)
    return table


def digits_game() -> Table:
    """Held-out accuracy of averaged local models; v(∅) is the untrained model's, which always says 0."""
    rng = np.random.default_rng(103)
    pixels, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(labels))
    pixels = np.column_stack([pixels[order] / 16.0, np.ones(len(labels))])
    labels = labels[order]
    held_out, held_out_labels = pixels[1000:], labels[1000:]
    sizes = 5 + np.floor(900 * rng.dirichlet(np.full(CLIENT_COUNT, 3.0))).astype(int)
    flip_rates = [0.0, 0.0, 0.0, 0.3, 0.0, 0.6, 0.0, 0.0, 1.0, 0.0, 0.2, 0.0]
    scores, start = [], 0
    for size, flip_rate in zip(sizes, flip_rates, strict=True):
        own, own_labels = pixels[start : start + size], labels[start : start + size].copy()
        start += size
        is_flipped = rng.random(size) < flip_rate
        own_labels[is_flipped] = (own_labels[is_flipped] + rng.integers(1, 10, is_flipped.sum())) % 10
        scores.append(held_out @ trained_model(own, own_labels))
    stacked = np.array(scores).reshape(CLIENT_COUNT, -1)
    weights = memberships() * sizes
    table = np.empty(len(weights))
    for number, weight in enumerate(weights):
        averaged = (weight @ stacked / max(weight.sum(), 1.0)).reshape(len(held_out), 10)
        table[number] = np.mean(averaged.argmax(axis=1) == held_out_labels)
    return table


def trained_model(pixels: Floats, labels: NDArray[np.int_]) -> Floats:
    """Softmax regression, sixty steps of gradient descent."""
    weights = np.zeros((pixels.shape[1], 10))
    targets = np.eye(10)[labels]
    for _ in range(60):
        scores = pixels @ weights
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights -= 0.5 * pixels.T @ (odds / odds.sum(axis=1, keepdims=True) - targets) / len(labels)
    return weights


def value_of(table: Table, coalition: frozenset[str]) -> float:
    return float(table[sum(BITS[name] for name in coalition)])


def ours(method: str, table: Table, evaluation_limit: int, seed: int) -> Floats:
    value = partial(value_of, table)
    if method == "gtg":  # to the end of the evaluations, as all others
        result = shapley_gtg(CLIENTS, value, evaluation_limit=evaluation_limit, seed=seed, convergence_tolerance=0.0)
    else:
        result = estimate_shapley(
            CLIENTS,
            value,
            evaluation_limit=evaluation_limit,
            seed=seed,
            method=method,  # type: ignore[arg-type]
        )
    assert result.evaluation_count <= evaluation_limit
    return np.array(list(result.values.values()))


def theirs(make: Callable[[int], Any], table: Table, limit: int, seed: int) -> Floats:
    """A shapiq approximator with the budget at which it sees as many distinct coalitions as allowed."""
    best, budget = None, limit
    for _ in range(6):
        seen: set[int] = {0}

        def game(rows: NDArray[np.bool_], seen: set[int] = seen) -> Floats:
            numbers = np.atleast_2d(rows).astype(int) @ (1 << np.arange(CLIENT_COUNT))
            seen.update(numbers.tolist())
            gains: Floats = table[numbers] - table[0]
            return gains

        values = make(seed).approximate(budget, game)
        if len(seen) <= limit:
            best = np.array([values[(i,)] for i in range(CLIENT_COUNT)])
            if len(seen) > 0.95 * limit:
                break
            budget = int(np.ceil(budget * limit / len(seen)))
        elif best is None:
            budget -= len(seen) - limit
        else:
            break
    assert best is not None, "no budget kept the approximator within the limit"
    return best


def rivals() -> dict[str, Estimator]:
    sizes = np.zeros(CLIENT_COUNT + 1)
    sizes[1:-1] = 1.0
    n, approximator = CLIENT_COUNT, shapiq.approximator
    makers: dict[str, Callable[[int], Any]] = {
        "KernelSHAP": lambda s: approximator.KernelSHAP(n, pairing_trick=True, random_state=s),
        "KernelSHAP, even sizes": lambda s: approximator.KernelSHAP(
            n, pairing_trick=True, sampling_weights=sizes, random_state=s
        ),
        "UnbiasedKernelSHAP": lambda s: approximator.UnbiasedKernelSHAP(n, pairing_trick=True, random_state=s),
        "SVARM": lambda s: approximator.SVARM(n, random_state=s),
        "SVARM, paired": lambda s: approximator.SVARM(n, pairing_trick=True, sampling_weights=sizes, random_state=s),
        "SVARMIQ": lambda s: approximator.SVARMIQ(n, max_order=1, index="SII", pairing_trick=True, random_state=s),
        "PermutationSamplingSV": lambda s: approximator.PermutationSamplingSV(n, random_state=s),
        "StratifiedSamplingSV": lambda s: approximator.StratifiedSamplingSV(n, random_state=s),
        "OwenSamplingSV": lambda s: approximator.OwenSamplingSV(n, random_state=s),
        "kADDSHAP 2": lambda s: approximator.kADDSHAP(n, max_order=2, pairing_trick=True, random_state=s),
        "kADDSHAP 3": lambda s: approximator.kADDSHAP(n, max_order=3, pairing_trick=True, random_state=s),
    }
    return {name: partial(theirs, make) for name, make in makers.items()}


def relative_error(estimator: Estimator, table: Table, exact: Floats, evaluation_limit: int) -> float:
    errors = [estimator(table, evaluation_limit, seed) - exact for seed in range(SEED_COUNT)]
    return float(np.sqrt(np.mean(np.square(errors)) / np.mean(exact**2)))


def main() -> int:
    warnings.simplefilter("ignore")
    games = {"saturating": saturating_game(), "voting": voting_game(), "digits": digits_game()}
    own = {method: partial(ours, method) for method in ("adaptive", "leverage", "tmc", "gtg")}
    estimators: dict[str, Estimator] = {**own, **rivals()}
    errors: dict[str, dict[str, list[float]]] = {name: {} for name in estimators}
    for game, table in games.items():
        exact = np.array(list(shapley(CLIENTS, partial(value_of, table)).values.values()))
        equal_split_error = np.std(exact) / np.sqrt(np.mean(exact**2))
        print(f"\n{game}: error relative to the exact values, {SEED_COUNT} seeds; ", end="")
        print(f"an equal split errs by {equal_split_error:.3f}")
        print(f"{'evaluations':>12}" + "".join(f"{name:>10}" for name in own) + "   best of shapiq")
        for multiple in EVALUATIONS_PER_CLIENT:
            limit = multiple * CLIENT_COUNT
            cells = {name: relative_error(run, table, exact, limit) for name, run in estimators.items()}
            for name, error in cells.items():
                errors[name].setdefault(game, []).append(error)
            best = min((name for name in cells if name not in own), key=cells.__getitem__)
            row = "".join(f"{cells[name]:>10.3f}" for name in own)
            print(f"{f'{multiple}n = {limit}':>12}{row}{cells[best]:>10.3f} {best}", flush=True)
    return verdict(errors)


def verdict(errors: dict[str, dict[str, list[float]]]) -> int:
    logs = {name: {game: np.log(cells) for game, cells in by_game.items()} for name, by_game in errors.items()}
    print()
    for game in next(iter(errors.values())):
        means = {name: float(by_game[game].mean()) for name, by_game in logs.items()}
        print(f"best on {game}: {min(means, key=means.__getitem__)}")
    overall = {name: np.concatenate(list(by_game.values())) for name, by_game in logs.items()}
    other = min((name for name in overall if name != DEFAULT), key=lambda name: float(overall[name].mean()))
    difference = overall[DEFAULT] - overall[other]
    margin = 2.0 * difference.std(ddof=1) / np.sqrt(len(difference))
    is_best = bool(difference.mean() <= margin)
    print(
        f"verdict: {'the default is best' if is_best else 'THE DEFAULT IS BEATEN'}: error of {DEFAULT} "
        f"{np.exp(difference.mean()):.2f} times that of {other}, the best other, over all cells"
    )
    return 0 if is_best else 1


if __name__ == "__main__":
    sys.exit(main())
