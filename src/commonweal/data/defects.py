"""What can be wrong with a client's data: wrong labels, and copies declared as new.

A client that does not train has nothing wrong with its data; that is a matter of learning.
"""

from __future__ import annotations

import numpy as np

from commonweal.data.arrival import Arrivals
from commonweal.data.samples import CLASS_COUNT, Indices, Labels
from commonweal.scenario.spec import Defect, Duplicates, LabelNoise
from commonweal.seeds import stream


def copied_share(defect: Defect | None) -> float:
    """The share of the samples a client declares that are copies."""
    return defect.fraction if isinstance(defect, Duplicates) else 0.0


def noisy_labels(
    training: Labels, validation: Labels, noise: LabelNoise, *, seed: int, client: str, round_number: int
) -> tuple[Labels, Labels]:
    """Training and validation labels, each replaced with the noise's probability by one of the other nine classes."""
    generator = stream(seed, "label-noise", client, round_number)
    # Training first, so that its labels are the same in both variants of the noise.
    wrong_training = _noised(training, noise.probability, generator)
    return wrong_training, validation if noise.training_only else _noised(validation, noise.probability, generator)


def _noised(labels: Labels, probability: float, generator: np.random.Generator) -> Labels:
    is_wrong = generator.random(len(labels)) < probability
    step = generator.integers(1, CLASS_COUNT, size=len(labels))  # 1..9 classes on: never back to the true one
    return np.where(is_wrong, (labels + step) % CLASS_COUNT, labels)


def copies(arrivals: Arrivals, round_number: int) -> Indices:
    """The copies that a client passes off as new training samples in this round, as indices into its source.

    Each is a copy of a training sample that it held before or got in this round, all equally likely. Validation samples
    are not copied: training on them would make the client's accuracy look better than it is. When the pool runs dry
    copies shrink with the fresh samples, so their share of what is declared stays what it was.
    """
    wanted = arrivals.declared_count(round_number) - arrivals.fresh_count(round_number)
    if wanted == 0:
        return np.empty(0, dtype=np.intp)
    history = [arrivals.in_round(number) for number in range(1, round_number + 1)]
    held = np.concatenate([arrival.training for arrival in history])
    fresh = history[-1]
    count = (
        wanted if fresh.drawn_count == fresh.wanted_count else round(wanted * fresh.drawn_count / fresh.wanted_count)
    )
    if len(held) == 0:
        return np.empty(0, dtype=np.intp)
    return stream(arrivals.seed, "copies", arrivals.client, round_number).choice(held, size=count)
