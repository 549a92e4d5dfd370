"""Data structures of the search: groups of equal candidates, partial decisions about them, and how they were made."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Candidates with equal figures in one group: later ones go first, so only the number that go is open."""

    members: list[list[int]]
    sizes: IntArray
    losses: FloatArray  # of one member
    contributions: FloatArray  # of one member
    ratios: FloatArray
    candidate_count: int

    @classmethod
    def gather(cls, losses: FloatArray, contributions: FloatArray) -> Groups:
        same: dict[tuple[float, float], list[int]] = defaultdict(list)
        for candidate, figures in enumerate(zip(losses.tolist(), contributions.tolist(), strict=True)):
            same[figures].append(candidate)
        group_losses, group_contributions = np.array(list(same)).T
        with np.errstate(over="ignore", divide="ignore"):
            ratios = np.minimum(group_losses / group_contributions, 1e300)
        return cls(
            members=list(same.values()),
            sizes=np.array([len(members) for members in same.values()]),
            losses=group_losses,
            contributions=group_contributions,
            ratios=ratios,
            candidate_count=len(losses),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """One entry per state: losses, contributions and number of those that go, and the contributions that stay."""

    lost: FloatArray
    gone: FloatArray
    stays: FloatArray
    going: IntArray

    @classmethod
    def undecided(cls) -> States:
        return cls(lost=np.zeros(1), gone=np.zeros(1), stays=np.zeros(1), going=np.zeros(1, np.int64))

    @property
    def count(self) -> int:
        return len(self.lost)

    def pick(self, which: BoolArray | IntArray) -> States:
        return States(lost=self.lost[which], gone=self.gone[which], stays=self.stays[which], going=self.going[which])

    def branch(self, groups: Groups, group: int) -> tuple[IntArray, IntArray, States]:
        """Copy each state for each number of members that can go: (parent state, that number, new states)."""
        size = int(groups.sizes[group])
        counts = np.tile(np.arange(size + 1), self.count)
        parents = np.repeat(np.arange(self.count), size + 1)
        states = self.pick(parents)
        return (
            parents,
            counts,
            States(
                lost=states.lost + groups.losses[group] * counts,
                gone=states.gone + groups.contributions[group] * counts,
                stays=states.stays + groups.contributions[group] * (size - counts),
                going=states.going + counts,
            ),
        )


class Trail:
    """What each step chose, so that a state can be traced back to its set."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._steps: list[tuple[int, IntArray, IntArray]] = []

    def add(self, group: int, parents: IntArray, counts: IntArray) -> None:
        self._steps.append((group, parents, counts))

    def sets(self, step_count: int, states: IntArray) -> BoolArray:
        """One row for each of the given states after that many steps: True = goes."""
        rows = np.zeros((len(states), self._groups.candidate_count), dtype=np.bool_)
        for group, parents, counts in reversed(self._steps[:step_count]):
            for rank, member in enumerate(reversed(self._groups.members[group])):
                rows[:, member] = counts[states] > rank
            states = parents[states]
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The groups still open, in order of falling ratio, with sums for "the first j go, the others stay"."""

    groups: IntArray
    ratios: FloatArray
    losses: FloatArray  # of the whole group
    loss_sums: FloatArray
    gone_sums: FloatArray
    stays_sums: FloatArray
    x_alone: FloatArray  # √(μT/r): the group goes only while X is above this
    needed: FloatArray  # what else must stay for the first j + 1 to go: x_alone − (sum of those after j)

    @classmethod
    def of(cls, groups: Groups, still_open: IntArray, mu_total: float) -> Rest:
        """Of the given groups, which must be in order of falling ratio."""
        sizes = groups.sizes[still_open]
        ratios = groups.ratios[still_open]
        losses = groups.losses[still_open] * sizes
        contributions = groups.contributions[still_open] * sizes
        with np.errstate(divide="ignore", over="ignore"):
            x_alone = np.sqrt(mu_total / ratios)
        stays_sums = np.concatenate((contributions[::-1].cumsum()[::-1], [0.0]))
        return cls(
            groups=still_open,
            ratios=ratios,
            losses=losses,
            loss_sums=np.concatenate(([0.0], losses.cumsum())),
            gone_sums=np.concatenate(([0.0], contributions.cumsum())),
            stays_sums=stays_sums,
            x_alone=x_alone,
            needed=x_alone - stays_sums[1:],
        )
