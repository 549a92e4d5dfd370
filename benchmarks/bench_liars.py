"""What does a member gain that lies about contributions?

    python -m benchmarks.bench_liars [--seeds 5] [--all]

Five members, equal and honest but for the liar, learn MNIST (built in) under the mechanism that `commonweal init`
writes, through their real ClientApps on Flower's in-process grid. The liar's answers are well-formed and signed; it
trains and reports honestly. Each federation runs with and without the lie. The gain is what the lie adds to the liar's
payoff, true profit and transfers of all rounds, as a share of its true profit in the honest run.

By path no coalitions are scored, so scores become gradients: "1 with it, 0 without" is a gradient along the liar's own
update, "three samples" adds as much to its own effect as three samples would, and the saboteur's gradient points
against the sum of the others' updates. The crafted gradient is the best that a liar can do with what it knows: along
its own update and against all others. The worst gradients are refused, and the liar then misses the round.

Under the default measure each of the five lies in turn, elsewhere the first. `make bench` runs one seed. `--all` adds
exact Shapley values, and members with four kinds of images.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from benchmarks.liars.federation import NEW_SCENARIOS, Digits, Run, run
from benchmarks.liars.lies import (
    Knowledge,
    Tell,
    Vector,
    against_others,
    along_own_update,
    crafted,
    gradients,
    more_training_samples,
    one_with_it_zero_without,
    others_low,
    scores,
    three_flipped,
    three_samples_more,
    times,
)
from benchmarks.promises import Promise, conclude

MOST_GAINED = 0.05
LIAR, FRIEND = "liar", "friend"
FIVE = (LIAR, FRIEND, "north", "south", "east")
THREE = (LIAR, "north", "south")
IMAGES = ("mnist-5k", "mnist5k-photo", "rendered-digits", "uci-digits")


def _not_a_number(knows: Knowledge, true: Vector, ours: Vector, others: Vector) -> Vector:
    return np.full_like(true, np.nan)


GRADIENTS: Mapping[str, Tell] = {
    "1 with it, 0 without": gradients(along_own_update),
    "three samples": gradients(three_samples_more),
    "saboteur": gradients(against_others),
    "crafted gradient": gradients(crafted),
}
LONGER: Mapping[str, Tell] = {
    "crafted gradient, times 1000": gradients(times(1000, crafted)),
    "not a number": gradients(_not_a_number),
    "gradient, times 10^9": gradients(times(1e9, crafted)),
}
COUNT: Mapping[str, Tell] = {"twice its training samples": more_training_samples(2)}
SCORES: Mapping[str, Tell] = {
    "1 with it, 0 without": scores(one_with_it_zero_without),
    "three samples": scores(three_flipped),
    "saboteur": scores(others_low),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Lies under one mechanism, each in a federation of its own."""

    measure: str
    scorers: str
    lies: Mapping[str, Tell]
    members: tuple[str, ...] = FIVE
    groups: tuple[tuple[str, ...], ...] = ((LIAR,),)  # who lies together, one group in each federation
    sources: tuple[str, ...] = ("mnist-5k",)
    is_promised: bool = False
    is_long: bool = False

    @property
    def mechanism(self) -> str:
        replaced = NEW_SCENARIOS.replace('"path"', f'"{self.measure}"')
        return replaced.replace('"guarded"', f'"{self.scorers}"')

    @property
    def label(self) -> str:
        who = f"{len(self.members)} members" + (", two of them lie" if len(self.groups[0]) > 1 else "")
        return f"{self.measure}, {self.scorers}: {who}" + (", four kinds of images" if len(self.sources) > 1 else "")


_CRAFTED = {"crafted gradient": GRADIENTS["crafted gradient"]}
CASES = (
    Case(measure="path", scorers="guarded", lies=GRADIENTS, groups=tuple((one,) for one in FIVE), is_promised=True),
    Case(measure="path", scorers="guarded", lies={**LONGER, **COUNT}),
    Case(measure="path", scorers="guarded", lies=_CRAFTED, groups=((LIAR, FRIEND),)),
    Case(measure="path", scorers="guarded", lies=_CRAFTED, members=THREE),
    Case(measure="path", scorers="guarded", lies=GRADIENTS, sources=IMAGES, is_long=True),
    Case(measure="path", scorers="all", lies=_CRAFTED),
    Case(measure="marginal", scorers="guarded", lies=SCORES),
    Case(measure="marginal", scorers="all", lies=SCORES),
    Case(measure="shapley", scorers="guarded", lies=SCORES, is_long=True),
    Case(measure="shapley", scorers="all", lies=SCORES, is_long=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a lie gained, one figure per seed and liar."""

    case: Case
    lie: str
    gains: tuple[float, ...]
    refusal: str = ""

    @property
    def mean(self) -> float:
        return statistics.mean(self.gains)

    def line(self) -> str:
        """A row of a Markdown table."""
        if self.refusal:
            return f"| {self.case.label} | {self.lie} | refused | |"
        low, high = min(self.gains), max(self.gains)
        return f"| {self.case.label} | {self.lie} | {self.mean:+.1%} | {low:+.0%} to {high:+.0%} |"


class Federations:
    """The seeds' data, and honest runs, which cases share."""

    def __init__(self) -> None:
        self._digits: dict[tuple[tuple[str, ...], int, tuple[str, ...]], Digits] = {}
        self._honest: dict[tuple[int, str], Run] = {}

    def digits(self, case: Case, seed: int) -> Digits:
        key = (case.members, seed, case.sources)
        if key not in self._digits:
            self._digits[key] = Digits(case.members, seed, case.sources)
        return self._digits[key]

    def honest(self, case: Case, seed: int) -> Run:
        digits = self.digits(case, seed)
        key = (id(digits), case.mechanism)
        if key not in self._honest:
            self._honest[key] = run(digits, case.mechanism, {})
        return self._honest[key]


def rows_of(case: Case, seeds: range, federations: Federations) -> Iterator[Row]:
    for lie, tell in case.lies.items():
        gains, refusal = [], ""
        for seed in seeds:
            for liars in case.groups:
                honest = federations.honest(case, seed).outcome(liars[0])
                lied = run(federations.digits(case, seed), case.mechanism, dict.fromkeys(liars, tell))
                found = lied.outcome(liars[0])
                gains.append((found.payoff - honest.payoff) / honest.true_profit)
                refusal = found.refusals[0] if found.refusals else refusal
        yield Row(case=case, lie=lie, gains=tuple(gains), refusal=refusal)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="exact Shapley values and four kinds of images, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    federations = Federations()
    print(f"gain, as a share of true profit; seeds 1 to {options.seeds}\n")
    print("| measure, scorers | lie | mean gain | from, to |\n|---|---|---:|---:|")
    promises, refusals = [], []
    for case in CASES:
        if case.is_long and not options.all:
            continue
        for row in rows_of(case, range(1, options.seeds + 1), federations):
            print(row.line(), flush=True)
            if row.refusal:
                refusals.append(row.refusal)
            elif case.is_promised:
                text = f"{row.lie}: mean gain under the default measure"
                promises.append(Promise(text=text, found=row.mean, less_than=MOST_GAINED))
    print("\n" + "\n".join(refusals))
    return conclude(promises)


if __name__ == "__main__":
    sys.exit(main())
