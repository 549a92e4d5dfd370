"""How many replications per minute: the fast path, the plain loop, and Flower's simulation engine?

All three run the same federation, seeds and schedule on all cores: the first two as one process per core, each with its
own replication, Flower with all cores on one replication. Repetitions alternate, so that other load affects all alike;
the results are medians of ratios of neighbours. "Core for core" compares processor time of a single process, because
the "cores" of many machines are threads that share one core's arithmetic units. Start-up is left out: imports, Ray, and
a first replication (of one round without Flower).

Flower's engine passes messages on ten times per second, so with small models and few samples it waits much of the time.
Therefore the working time of its clients is printed too.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from benchmarks.federation_case import Outcome, make_case, mean_difference, run_fast, run_plain
from benchmarks.promises import Promise, conclude

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.scenario.spec import ModelName

Way = Literal["fast path", "plain loop"]

CORE_COUNT = os.cpu_count() or 1
REPETITION_COUNT = 3
PLAIN_FACTORS: dict[ModelName, float] = {"compact": 2.0, "fedbn-digits": 1.2}
FLOWER_FACTOR = 10.0
SAME_WORK = 0.03  # the most by which a round's mean accuracy may differ: single precision, other orders of summation


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """One replication on each core."""

    outcome: Outcome  # of seed 1
    seconds_each: float  # until all were done, per replication
    processor_seconds: float  # of a replication


@lru_cache
def dataset_of(model: ModelName, seed: int) -> FederatedDataset:
    return FederatedDataset.for_scenario(make_case(model, seed), None)


def replicate(way: Way, model: ModelName, seed: int, round_limit: int | None = None) -> tuple[Outcome, float]:
    """In a process of its own; the second figure is its processor time."""
    scenario, dataset = make_case(model, seed), dataset_of(model, seed)
    if round_limit is not None:
        scenario = replace(scenario, round_count=round_limit)
    run = run_fast if way == "fast path" else run_plain
    started = time.process_time()
    return run(scenario, dataset), time.process_time() - started


def on_all_cores(
    processes: list[ProcessPoolExecutor], way: Way, model: ModelName, round_limit: int | None = None
) -> Repetition:
    started = time.perf_counter()
    running = [
        process.submit(replicate, way, model, seed, round_limit) for seed, process in enumerate(processes, start=1)
    ]
    found = [future.result() for future in running]
    return Repetition(
        outcome=found[0][0],
        seconds_each=(time.perf_counter() - started) / len(processes),
        processor_seconds=statistics.mean(seconds for _, seconds in found),
    )


def compare(processes: list[ProcessPoolExecutor], model: ModelName, *, with_flower: bool) -> list[Promise]:
    fast: list[Repetition] = []
    plain: list[Repetition] = []
    alone: list[float] = []  # ratios of one process's time while the other cores rest
    flower: list[tuple[Outcome, float, float]] = []
    for way in ("fast path", "plain loop"):
        on_all_cores(processes, way, model, round_limit=1)
    for _ in range(REPETITION_COUNT):  # before Flower's engine is up, whose processes are never quite at rest
        quick_alone, slow_alone = (on_all_cores(processes[:1], way, model) for way in ("fast path", "plain loop"))
        alone.append(slow_alone.processor_seconds / quick_alone.processor_seconds)
    with ExitStack() as stack:
        if with_flower:
            from benchmarks.flower_federation import FlowerEngine

            engine = stack.enter_context(FlowerEngine(CORE_COUNT))
            engine.replicate(model, 1)
        for _ in range(REPETITION_COUNT):
            fast.append(on_all_cores(processes, "fast path", model))
            plain.append(on_all_cores(processes, "plain loop", model))
            if with_flower:
                flower.append(engine.replicate(model, 1))

    core_for_core = statistics.median(alone)
    all_busy = statistics.median(
        slow.processor_seconds / quick.processor_seconds for quick, slow in zip(fast, plain, strict=True)
    )
    fast_seconds = statistics.median(each.seconds_each for each in fast)
    plain_seconds = statistics.median(each.seconds_each for each in plain)
    print(f"\n{model}: {CORE_COUNT} cores, {REPETITION_COUNT} repetitions")
    print(f"{'':12s} {'replications per minute':>22s} {'fast path is':>16s}")
    print(f"{'fast path':12s} {60 / fast_seconds:22.2f}")
    print(f"{'plain loop':12s} {60 / plain_seconds:22.2f} {plain_seconds / fast_seconds:10.2f} times", end="")
    print(f"; core for core, in processor time, {core_for_core:.2f} times alone, {all_busy:.2f} with all cores busy")
    differences = {"plain loop": max(mean_difference(a.outcome, b.outcome) for a, b in zip(fast, plain, strict=True))}
    promises = [
        Promise(
            text=f"fast path over plain loop, core for core, {model}",
            found=core_for_core,
            at_least=PLAIN_FACTORS[model],
        )
    ]
    if flower:
        flower_seconds = statistics.median(seconds for _, seconds, _ in flower)
        ratio = statistics.median(
            seconds / quick.seconds_each for quick, (_, seconds, _) in zip(fast, flower, strict=True)
        )
        at_work = statistics.median(busy / (CORE_COUNT * seconds) for _, seconds, busy in flower)
        print(f"{'Flower':12s} {60 / flower_seconds:22.2f} {ratio:10.2f} times", end="")
        print(f"; its clients were at work {at_work:.0%} of all cores' time")
        differences["Flower"] = max(mean_difference(fast[0].outcome, outcome) for outcome, _, _ in flower)
        promises.append(
            Promise(
                text=f"fast path over Flower, replications per minute, {model}",
                found=ratio,
                at_least=FLOWER_FACTOR,
                known_miss="its clients compute most of the time, so the ratio is near (plain / fast) / (time at work)",
            )
        )
    for way_compared, difference in differences.items():
        text = f"mean accuracy of a round, fast path against {way_compared}, {model}"
        promises.append(Promise(text=text, found=difference, less_than=SAME_WORK))
    return promises


def main() -> int:
    has_flower = all(importlib.util.find_spec(package) for package in ("flwr", "ray"))
    if not has_flower:
        print("Flower is left out: it is not installed; pip install -c constraints.txt -e '.[bench]'")
    promises: list[Promise] = []
    with ExitStack() as stack:
        spawn = multiprocessing.get_context("spawn")
        processes = [stack.enter_context(ProcessPoolExecutor(1, mp_context=spawn)) for _ in range(CORE_COUNT)]
        promises += compare(processes, "compact", with_flower=has_flower)
        promises += compare(processes, "fedbn-digits", with_flower=False)
    return conclude(promises)


if __name__ == "__main__":
    sys.exit(main())
