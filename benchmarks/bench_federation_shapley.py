"""What do exact Shapley values of five clients add to a round?

Times a federation whose rounds end with all 32 coalition models against the same one with no coalition model beyond
the average (contribution by quantity), both on one core. The two take turns; the figure is the median ratio of
neighbours, in processor time.
"""

from __future__ import annotations

import statistics
import sys
import time

from benchmarks.federation_case import make_case, run_fast
from benchmarks.promises import Promise, conclude

from commonweal.data.federated_dataset import FederatedDataset

REPETITION_COUNT = 3
FACTOR = 2.0


def main() -> int:
    dataset = FederatedDataset.for_scenario(make_case("compact", seed=1), None)

    def seconds_of(measure: str) -> float:
        scenario = make_case("compact", seed=1, measure=measure)
        started = time.process_time()
        run_fast(scenario, dataset)
        return (time.process_time() - started) / scenario.round_count

    seconds_of("shapley")
    times = [(seconds_of("shapley"), seconds_of("quantity")) for _ in range(REPETITION_COUNT)]
    exact, without = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(a / b for a, b in times)
    print(f"A round of five iterations: {1e3 * exact:.0f} ms with exact Shapley values, {1e3 * without:.0f} ms without")
    return conclude(
        [Promise(text="round with exact Shapley values over one without, compact", found=ratio, less_than=FACTOR)]
    )


if __name__ == "__main__":
    sys.exit(main())
