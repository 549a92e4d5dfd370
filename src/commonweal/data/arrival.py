"""Which samples of its pool reach a client in a round, and what is wrong with them.

s(n,t) ~ Poisson(λ_n): the next s samples of the pool, or fewer when the pool runs out. A round depends only on the pool
and (seed, client, round), so any round can be computed at any time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from commonweal.data.samples import Indices, Labels
from commonweal.scenario.spec import Defect, Duplicates, LabelFlip, LabelNoise
from commonweal.seeds import stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """The fresh samples of one round, as indices into the source."""

    training: Indices
    validation: Indices
    drawn_count: int  # fresh samples that arrived: training and validation together
    wanted_count: int  # fresh samples that would have arrived from an endless pool

    @property
    def is_dry(self) -> bool:
        return self.drawn_count < self.wanted_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """A client's pool and how samples are drawn from it."""

    client: str
    pool: Indices
    samples_per_round: float  # λ
    validation_share: float
    seed: int
    copied_share: float = 0.0  # of the declared samples; copies are not drawn from the pool

    def declared_count(self, round_number: int) -> int:
        """s(n,t): the samples that the client would declare as new if its pool were endless."""
        return int(stream(self.seed, "arrival", self.client, round_number).poisson(self.samples_per_round))

    def fresh_count(self, round_number: int) -> int:
        """The samples of s(n,t) that are not copies; the number of copies is rounded, ties to even."""
        declared = self.declared_count(round_number)
        return declared - round(declared * self.copied_share)

    def in_round(self, round_number: int) -> Arrival:
        """The fresh samples of the round; rounds count from 1."""
        if round_number < 1:
            raise ValueError(f"round_number must be at least 1, got {round_number}.")
        start = sum(self.fresh_count(earlier) for earlier in range(1, round_number))
        wanted = self.fresh_count(round_number)
        drawn = self.pool[start : start + wanted]
        training, validation = self._split(drawn, round_number)
        return Arrival(training=training, validation=validation, drawn_count=len(drawn), wanted_count=wanted)

    def _split(self, drawn: Indices, round_number: int) -> tuple[Indices, Indices]:
        """⌊share · s + U⌋ samples go to validation, U uniform on [0, 1): share · s on average, for every s.

        A keyed shuffle decides which ones.
        """
        generator = stream(self.seed, "split", self.client, round_number)
        validation_count = int(self.validation_share * len(drawn) + generator.random())
        order = generator.permutation(len(drawn))
        return drawn[order[validation_count:]], drawn[order[:validation_count]]


def copied_share(defect: Defect | None) -> float:
    """The share of copies among the samples that a client declares."""
    return defect.fraction if isinstance(defect, Duplicates) else 0.0


def wrong_labels(
    training: Labels,
    validation: Labels,
    defect: LabelNoise | LabelFlip,
    *,
    class_count: int,
    seed: int,
    client: str,
    round_number: int,
) -> tuple[Labels, Labels]:
    """Training and validation labels with those that the defect makes wrong.

    Noise replaces each label, with its probability, by one of the other classes. Flipping makes C − 1 − c of class c in
    a fraction of the labels; their number is rounded, ties to even.
    """
    kind = "label-noise" if isinstance(defect, LabelNoise) else "label-flip"
    generator = stream(seed, kind, client, round_number)

    def wrong(labels: Labels) -> Labels:
        if isinstance(defect, LabelNoise):
            return _noised(labels, defect.probability, class_count, generator)
        return _flipped(labels, defect.fraction, class_count, generator)

    # Training comes first, so that its labels do not depend on whether validation labels stay true.
    wrong_training = wrong(training)
    return wrong_training, validation if defect.training_only else wrong(validation)


def _noised(labels: Labels, probability: float, class_count: int, generator: np.random.Generator) -> Labels:
    is_wrong = generator.random(len(labels)) < probability
    step = generator.integers(1, class_count, size=len(labels))  # never a multiple of the class count, so never true
    return np.where(is_wrong, (labels + step) % class_count, labels)


def _flipped(labels: Labels, fraction: float, class_count: int, generator: np.random.Generator) -> Labels:
    chosen = generator.permutation(len(labels))[: round(fraction * len(labels))]
    wrong = labels.copy()
    wrong[chosen] = class_count - 1 - labels[chosen]
    return wrong


def copies(arrivals: Arrivals, round_number: int) -> Indices:
    """The copies that a client passes off as new training samples in this round, as indices into its source.

    Each is a copy of a training sample that it had before or got in this round, all equally likely. Validation samples
    are not copied: training on them would make the client's accuracy look better than it is. When the pool runs out,
    the number of copies shrinks with that of fresh samples, so their share of the declared samples stays the same.
    """
    wanted = arrivals.declared_count(round_number) - arrivals.fresh_count(round_number)
    if wanted == 0:
        return np.empty(0, dtype=np.intp)
    history = [arrivals.in_round(number) for number in range(1, round_number + 1)]
    earlier = np.concatenate([arrival.training for arrival in history])
    fresh = history[-1]
    count = (
        wanted if fresh.drawn_count == fresh.wanted_count else round(wanted * fresh.drawn_count / fresh.wanted_count)
    )
    if len(earlier) == 0:
        return np.empty(0, dtype=np.intp)
    return stream(arrivals.seed, "copies", arrivals.client, round_number).choice(earlier, size=count)
