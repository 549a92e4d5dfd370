"""How much of a core's arithmetic does local training use, and what do other widths of the compact model cost?

The rate is floating point operations per second, relative to a 1024 × 1024 matrix product in single precision on the
same thread. The two alternate, and the result is the median ratio of neighbours, in processor time. Only convolutions
and fully connected layers count as operations: two per multiply-add forward, twice as many backward, without the
gradient of the images. Everything else (normalisation, pooling, loss, steps) counts only as time.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from benchmarks.promises import Promise, conclude
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from commonweal.learning.fast import FastLearner
from commonweal.learning.models import ARCHITECTURES, Architecture, Layout
from commonweal.learning.plain import Network
from commonweal.scenario.spec import ModelName

IMAGE_SHAPE = (28, 28, 1)
CLASS_COUNT = 10
BATCH_SIZE = 32
MATRIX_SIZE = 1024
PAIR_COUNT = 15
TARGETS: dict[ModelName, float] = {"compact": 0.30, "fedbn-digits": 0.45}
BATCH_COUNTS: dict[ModelName, int] = {"compact": 20, "fedbn-digits": 2}
WIDTHS = (
    ((8, 16, 32), (64, 32)),
    ((16, 32, 64), (64, 32)),
    ((16, 32, 64), (128, 64)),
    ((32, 32, 64), (128, 64)),
    ((32, 64, 128), (128, 64)),
    ((32, 64, 128), (256, 128)),
)


def operations_per_sample(layout: Layout) -> int:
    """Of training, by PyTorch's formulas for each convolution and product that a step of the plain network does."""
    network = Network(layout)
    height, width, channel_count = layout.image_shape
    images, labels = torch.rand(BATCH_SIZE, channel_count, height, width), torch.zeros(BATCH_SIZE, dtype=torch.int64)
    counter = FlopCounterMode(display=False)
    with counter:
        functional.cross_entropy(network(images), labels).backward()  # type: ignore[no-untyped-call]
    return counter.get_total_flops() // BATCH_SIZE


def seconds_of(action: Callable[[], object]) -> float:
    started = time.thread_time()
    action()
    return time.thread_time() - started


class Work:
    """Local training and scoring of one architecture on made-up images: the values do not change the speed."""

    def __init__(self, architecture: Architecture, batch_count: int) -> None:
        self.layout = Layout(architecture, IMAGE_SHAPE, CLASS_COUNT)
        self.sample_count = batch_count * BATCH_SIZE
        generator = torch.Generator().manual_seed(1)
        self.vector = self.layout.initial(generator, torch.float32)
        self.images = torch.rand((self.sample_count, *IMAGE_SHAPE), generator=generator)
        self.labels = torch.randint(0, CLASS_COUNT, (self.sample_count,), generator=generator)
        self.epoch = list(torch.randperm(self.sample_count, generator=generator).tensor_split(batch_count))
        self.learner = FastLearner(self.layout)

    def train(self) -> None:
        self.learner.train(self.vector, self.images, self.labels, [self.epoch], 0.01)

    def score(self) -> None:
        self.learner.score(self.vector, self.images, self.labels, "hit")


def rates() -> list[Promise]:
    matrix = torch.rand(MATRIX_SIZE, MATRIX_SIZE)
    product = torch.empty_like(matrix)
    print(f"{'model':14s} {'operations per sample':>20s} {'training':>10s} {'product':>10s} {'ratio':>6s}   (GFLOP/s)")
    promises = []
    for model, target in TARGETS.items():
        work = Work(ARCHITECTURES[model], BATCH_COUNTS[model])
        operations = operations_per_sample(work.layout)
        work.train()
        training_rates, product_rates = [], []
        for _ in range(PAIR_COUNT):
            seconds = seconds_of(lambda: [torch.mm(matrix, matrix, out=product) for _ in range(5)])
            product_rates.append(5 * 2 * MATRIX_SIZE**3 / seconds)
            training_rates.append(operations * work.sample_count / seconds_of(work.train))
        ratio = statistics.median(t / p for t, p in zip(training_rates, product_rates, strict=True))
        shown = [statistics.median(found) / 1e9 for found in (training_rates, product_rates)]
        print(f"{model:14s} {operations:20,d} {shown[0]:10.1f} {shown[1]:10.1f} {ratio:6.2f}")
        promises.append(
            Promise(text=f"rate of local training over that of torch.mm, {model}", found=ratio, at_least=target)
        )
    return promises


def widths() -> None:
    compact = ARCHITECTURES["compact"]
    candidates = [Work(replace(compact, channels=c, hidden=h), 10) for c, h in WIDTHS]
    baseline = Work(compact, 10)
    print("\nwidths of the compact model; time per sample relative to the current widths, median of ratios")
    print(f"{'channels':>14s} {'hidden':>10s} {'entries':>9s} {'training':>9s} {'scoring':>9s} {'operations':>11s}")
    for work in (baseline, *candidates):
        work.train()
    of_baseline = operations_per_sample(baseline.layout)
    for work in candidates:
        training, scoring = [], []
        for _ in range(PAIR_COUNT):
            training.append(seconds_of(work.train) / seconds_of(baseline.train))
            scoring.append(seconds_of(work.score) / seconds_of(baseline.score))
        architecture = work.layout.architecture
        channels, hidden = ("-".join(map(str, sizes)) for sizes in (architecture.channels, architecture.hidden))
        ratios = f"{statistics.median(training):9.2f} {statistics.median(scoring):9.2f}"
        operations = operations_per_sample(work.layout) / of_baseline
        in_use = "  in use" if architecture == compact else ""
        print(f"{channels:>14s} {hidden:>10s} {work.layout.size:9,d} {ratios} {operations:11.2f}{in_use}")


def main() -> int:
    torch.set_num_threads(1)
    promises = rates()
    widths()
    return conclude(promises)


if __name__ == "__main__":
    sys.exit(main())
