"""How fast is a metric in all bootstrap draws, compared with scikit-learn's called draw by draw?

Each metric of 50 to 10,000 validation samples in 400 draws. The baseline calls scikit-learn with each draw's weights;
to keep it short it does so for some of the draws and is scaled up. Both run in one thread. The two alternate, and the
result is the median ratio of neighbours, in processor time.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from benchmarks.promises import Promise, conclude
from numpy.typing import NDArray
from sklearn import metrics as sklearn_metrics

from commonweal.task.metrics import METRICS
from commonweal.valuation.bootstrap import DRAW_COUNT, resampling_weights

SAMPLE_COUNTS = (50, 300, 1000, 10_000)
BASELINE_DRAWS = 20
PAIR_COUNT = 7
ROC_AUC_FACTORS = {300: 300.0, 1000: 100.0, 10_000: 10.0}  # at least so many times as fast as the loop, by samples

Floats = NDArray[np.float64]
PREDICTED_CLASSES = ("accuracy", "balanced-accuracy", "f1")  # scikit-learn takes classes for these
IN_SCIKIT_LEARN: dict[str, Callable[..., Any]] = {
    "accuracy": sklearn_metrics.accuracy_score,
    "balanced-accuracy": sklearn_metrics.balanced_accuracy_score,
    "roc-auc": sklearn_metrics.roc_auc_score,
    "average-precision": sklearn_metrics.average_precision_score,
    "f1": sklearn_metrics.f1_score,
    "r2": sklearn_metrics.r2_score,
    "mean-absolute-error": sklearn_metrics.mean_absolute_error,
}


def predictions(sample_count: int) -> tuple[NDArray[np.int64], Floats]:
    """Three in ten are of class 1; probabilities have three digits, so some are tied."""
    rng = np.random.default_rng(sample_count)
    targets = (np.arange(sample_count) < 0.3 * sample_count).astype(np.int64)
    return targets, np.round(rng.beta(2 + targets, 3), 3)


def seconds_of(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def loop(function: Callable[..., Any], targets: NDArray[Any], values: NDArray[Any], weights: Floats) -> list[float]:
    return [function(targets, values, sample_weight=weights[:, draw]) for draw in range(BASELINE_DRAWS)]


def ratio_of(name: str, sample_count: int) -> tuple[float, float]:
    """Times as fast as the loop, and milliseconds of all draws."""
    targets, values = predictions(sample_count)
    weights = resampling_weights(1, "ann", sample_count)
    given: NDArray[Any] = (values > 0.5).astype(np.int64) if name in PREDICTED_CLASSES else values
    baseline = partial(loop, IN_SCIKIT_LEARN[name], targets, given, weights)
    vectorised = partial(METRICS[name].compute, targets, values, weights)
    np.testing.assert_allclose(vectorised()[:BASELINE_DRAWS], baseline(), rtol=1e-12, atol=1e-12)
    repeats = max(1, 3000 // sample_count)  # a single call of few samples is shorter than the clock can tell
    ratios, milliseconds = [], []
    for _ in range(PAIR_COUNT):
        of_loop = seconds_of(baseline) * DRAW_COUNT / BASELINE_DRAWS
        of_all_draws = seconds_of(lambda: [vectorised() for _ in range(repeats)]) / repeats
        ratios.append(of_loop / of_all_draws)
        milliseconds.append(1e3 * of_all_draws)
    return statistics.median(ratios), statistics.median(milliseconds)


def main() -> int:
    print(f"{'metric':20s} {'samples':>8s} {'ms':>9s} {'times as fast':>14s}")
    promises = []
    for name in METRICS:
        for sample_count in SAMPLE_COUNTS:
            ratio, milliseconds = ratio_of(name, sample_count)
            print(f"{name:20s} {sample_count:8,d} {milliseconds:9.2f} {ratio:14.1f}", flush=True)
            if name == "roc-auc" and sample_count in ROC_AUC_FACTORS:
                text = f"ROC AUC of {sample_count:,} samples in {DRAW_COUNT} draws, times as fast"
                promises.append(Promise(text=text, found=ratio, at_least=ROC_AUC_FACTORS[sample_count]))
    return conclude(promises)


if __name__ == "__main__":
    sys.exit(main())
