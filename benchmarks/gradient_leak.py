"""What can be read from a gradient of the mean smooth score of m samples?

A unit of the first layer that is active for one sample only has a gradient of δ x for its weights and δ for its bias:
their ratio is the sample itself. So whoever sees the gradient reads every sample that has such a unit of its own, with
a division, if the layer gets the samples as they are and has no batch normalisation. The gradient of the last layer's
biases is (n_c / m − 1/C) / C for class c of C as long as the model is untrained: the number of samples n_c of each
class. Here both are tried on handwritten digits (64 numbers each, ten classes), with perceptrons of one hidden layer.

    python benchmarks/gradient_leak.py
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import nn

SAMPLE_COUNTS = (1, 2, 5, 10, 20, 30, 50, 100)
WIDTHS = (16, 64)
STEPS = (0, 500)
TRIALS = 100
TRAINING = 1200  # the rest is for validation
CLASSES = 10


def trained(width: int, step_count: int, images: NDArray[np.float32], labels: NDArray[np.int64]) -> nn.Sequential:
    torch.manual_seed(1)
    random = np.random.default_rng(1)
    module = nn.Sequential(nn.Linear(images.shape[1], width), nn.ReLU(), nn.Linear(width, CLASSES))
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(step_count):
        batch = random.permutation(TRAINING)[:32]
        optimiser.zero_grad()
        logits = module(torch.from_numpy(images[batch]))
        torch.autograd.backward(nn.functional.cross_entropy(logits, torch.from_numpy(labels[batch])))
        optimiser.step()
    return module


def read(module: nn.Sequential, images: NDArray[np.float32], labels: NDArray[np.int64]) -> tuple[float, bool]:
    """The share of the samples that can be read from their gradient, and whether the count of every class can."""
    chosen = torch.from_numpy(labels)[:, None]
    score = module(torch.from_numpy(images)).softmax(1).gather(1, chosen).mean()
    weights, biases, _, last = (part.numpy() for part in torch.autograd.grad(score, list(module.parameters())))
    is_used = np.abs(biases) > 1e-12
    ratios = weights[is_used] / biases[is_used, None]
    distances = ((ratios[:, None] - images) ** 2).mean(axis=2) if len(ratios) else np.ones((1, len(images)))
    counts = np.round(len(labels) * (CLASSES * last + 1 / CLASSES))
    return float((distances.min(axis=0) < 1e-3).mean()), bool((counts == np.bincount(labels, minlength=CLASSES)).all())


def main() -> None:
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 8 - 1).astype(np.float32)
    print("share of m samples that can be read, and how often the number of samples of every class can")
    print(f"{'':28s}" + "".join(f"{f'm = {count}':>14s}" for count in SAMPLE_COUNTS))
    for width in WIDTHS:
        for step_count in STEPS:
            module = trained(width, step_count, images, labels)
            random = np.random.default_rng(2)
            line = f"{width} units, {step_count} steps of training"
            for count in SAMPLE_COUNTS:
                trials = []
                for _ in range(TRIALS):
                    some = TRAINING + random.permutation(len(labels) - TRAINING)[:count]
                    trials.append(read(module, images[some], labels[some]))
                samples, classes = np.mean(trials, axis=0)
                line += f"{samples:8.0%} {classes:5.0%}"
            print(line)


if __name__ == "__main__":
    main()
