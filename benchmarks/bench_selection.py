"""How fast is a decision, and how well is it proven?

Prints, for 10 to 1,000,000 candidates and six families, the time of `commonweal.select` as a multiple of `np.argsort`
of the profits in the same run, the number of states searched, and the proven gap relative to the sum of absolute
profits; then the time of plain-Python brute force at 20 candidates as a multiple of the solver's; then the solves per
breakpoint of complete μ paths. Exits with an error if a promise below is broken.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from commonweal.decision.decide import select
from commonweal.decision.envelope import trace
from commonweal.decision.problem import choose
from commonweal.decision.raw import make_problem
from commonweal.decision.reference import best_eliminated

Floats = NDArray[np.float64]
SIZES = (10, 20, 30, 50, 100, 300, 1000, 10_000, 100_000, 1_000_000)
SORTS_AT_A_MILLION = 4.0
GAP = 1e-9
BRUTE_FORCE_FACTOR = 1000.0
SOLVES_PER_BREAKPOINT = 3.0


def independent(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    return rng.random(n) + 1e-9, rng.random(n) + 1e-9


def weakly_correlated(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    contributions = rng.random(n) + 1e-9
    return np.abs(contributions + rng.uniform(-0.1, 0.1, n)) + 1e-6, contributions


def strongly_correlated(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    contributions = rng.random(n) + 1e-9
    return contributions + 0.1, contributions


def equal_ratios(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    contributions = rng.random(n) + 1e-9
    return 0.3 * contributions, contributions


def nearly_equal_ratios(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    losses, contributions = equal_ratios(rng, n)
    return losses * (1 + 1e-6 * rng.standard_normal(n)), contributions


def heavy_tails(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    return rng.pareto(1.1, n) + 1e-3, rng.pareto(1.1, n) + 1e-3


FAMILIES = (independent, weakly_correlated, strongly_correlated, equal_ratios, nearly_equal_ratios, heavy_tails)
TIED = (equal_ratios, nearly_equal_ratios)  # sets by the million within rounding: a proven gap of 1e-12 is good enough
Family = Callable[[np.random.Generator, int], tuple[Floats, Floats]]


def round_of(family: Family, n: int, seed: int) -> tuple[Floats, Floats, float]:
    """n loss-makers, a quarter as many others, and a μ at which about half of the contribution is at stake."""
    rng = np.random.default_rng([seed, n])
    losses, contributions = family(rng, n)
    others = max(1, n // 4)
    profits = np.concatenate([-losses, rng.random(others)])
    contributions = np.concatenate([contributions, rng.random(others) * contributions.mean()])
    total = float(contributions.sum())
    mu = float(np.median(losses / contributions[:n])) * (total * rng.uniform(0.4, 0.8)) ** 2 / total
    return profits, contributions, mu


def fastest(action: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def selection(broken: list[str]) -> None:
    print("time of a decision in sorts; the largest of several rounds")
    print(f"{'family':20s} {'candidates':>10s} {'sorts':>9s} {'ms':>9s} {'states':>9s} {'gap':>8s}")
    for family in FAMILIES:
        for n in SIZES:
            sorts = milliseconds = gap = 0.0
            states = 0
            for seed in range(6 if n <= 1000 else 2):
                profits, contributions, mu = round_of(family, n, seed)
                sort_time = fastest(lambda p=profits: np.argsort(p), 5)  # type: ignore[misc]
                solve_time = fastest(lambda p=profits, q=contributions, m=mu: select(p, q, mu=m), 3)  # type: ignore[misc]
                choice = choose(make_problem(profits, contributions, "clip"), len(profits), mu)
                sorts = max(sorts, solve_time / sort_time)
                milliseconds = max(milliseconds, 1e3 * solve_time)
                states = max(states, choice.node_count)
                gap = max(gap, choice.proven_gap / float(np.abs(profits).sum()))
                if choice.limit_reached:
                    broken.append(f"{family.__name__}, {n} candidates: node limit reached")
            print(
                f"{family.__name__:20s} {n:10,d} {sorts:9.2f} {milliseconds:9.2f} {states:9,d} {gap:8.1e}", flush=True
            )
            if n == 1_000_000 and sorts > SORTS_AT_A_MILLION:
                broken.append(f"{family.__name__}: a million candidates took {sorts:.1f} sorts")
            if gap > GAP or (gap > 0 and n <= 1000 and family not in TIED):
                broken.append(f"{family.__name__}, {n} candidates: gap {gap:.1e}")


def brute_force(broken: list[str]) -> None:
    print("\nplain-Python brute force at 20 candidates, as a multiple of the solver")
    for family in FAMILIES:
        profits, contributions, mu = round_of(family, 20, seed=0)
        solve_time = fastest(lambda p=profits, q=contributions, m=mu: select(p, q, mu=m), 5)  # type: ignore[misc]
        start = time.perf_counter()
        width = 1e-12 * float(np.abs(profits).sum())
        expected, _ = best_eliminated(profits.tolist(), contributions.tolist(), mu, width=width)
        brute_time = time.perf_counter() - start
        same = tuple(np.flatnonzero(~select(profits, contributions, mu=mu)).tolist()) == expected
        print(f"{family.__name__:20s} {brute_time / solve_time:10,.0f} times  {'same set' if same else 'OTHER SET'}")
        if brute_time < BRUTE_FORCE_FACTOR * solve_time:
            broken.append(f"{family.__name__}: brute force only {brute_time / solve_time:.0f} times slower")
        if not same:
            broken.append(f"{family.__name__}: brute force chose another set")


def paths(broken: list[str]) -> None:
    print("\ncomplete mu path of 1,000 candidates")
    print(f"{'family':20s} {'breakpoints':>11s} {'solves':>7s} {'each':>5s} {'seconds':>8s} {'gap':>8s}")
    for family in (independent, weakly_correlated, strongly_correlated):
        profits, contributions, _ = round_of(family, 1000, seed=0)
        start = time.perf_counter()
        path = trace(make_problem(profits, contributions, "clip"), len(profits))
        seconds = time.perf_counter() - start
        count = len(path.breakpoints)
        each = path.solve_count / count
        figures = f"{count:11,d} {path.solve_count:7,d} {each:5.2f} {seconds:8.2f} {path.proven_gap:8.1e}"
        print(f"{family.__name__:20s} {figures}")
        if not path.complete or path.proven_gap > 0 or each > SOLVES_PER_BREAKPOINT:
            broken.append(f"{family.__name__}: mu path {path.complete=}, {path.proven_gap=}, {each:.2f} solves each")


def main() -> int:
    broken: list[str] = []
    selection(broken)
    brute_force(broken)
    paths(broken)
    print("\nall promises hold" if not broken else "\nBROKEN:\n  " + "\n  ".join(broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
