"""What does a task of one's own cost in the simulator, compared with a plain PyTorch loop on the same model and data?

Five clients, four rounds of three iterations, an MLP on generated rows. The plain loop trains, averages and evaluates
the same models, and computes nothing else. Both run in one thread. The two alternate, and the result is the median
ratio of neighbours, in processor time.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from benchmarks.promises import Promise, conclude
from torch import nn

from commonweal.federation.session import run_rounds
from commonweal.scenario.toml_file import read_scenario
from commonweal.seeds import stream
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import task_of

PAIR_COUNT = 7
CLIENT_COUNT, ROUND_COUNT, ITERATION_COUNT = 5, 4, 3
ROW_COUNT, FEATURE_COUNT, BATCH_SIZE, LEARNING_RATE = 400, 30, 32, 0.1  # rows per client and round

TASK = """
import numpy as np
import torch
from torch import nn

from commonweal.task import NewData, Trained, load_model, model_of
from benchmarks.bench_task import BATCH_SIZE, LEARNING_RATE, make_module, rows_of


def initial_model(plan):
    torch.manual_seed(plan.seed)
    return model_of(make_module())


def load(round_number, member):
    training, validation = rows_of(member.name, round_number)
    return NewData(training=training, validation=validation)


def train(model, training, context):
    features, targets = (torch.from_numpy(array) for array in training)
    module = make_module()
    load_model(module, model)
    optimiser = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
    order = context.rng.permutation(len(targets))
    steps = 0
    for start in range(0, len(order), BATCH_SIZE):
        batch = order[start : start + BATCH_SIZE]
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(features[batch]), targets[batch]).backward()
        optimiser.step()
        steps += 1
    return Trained(model=model_of(module), step_count=steps)


def evaluate(model, validation, context):
    module = make_module()
    load_model(module, model)
    with torch.no_grad():
        guesses = module(torch.from_numpy(validation[0])).argmax(1).numpy()
    return (guesses == validation[1]).astype(np.float64)
"""


def make_module() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURE_COUNT, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))


Rows = tuple[np.ndarray, np.ndarray]


def rows_of(client: str, round_number: int) -> tuple[Rows, Rows]:
    """New rows: three classes around centres of their own."""
    rng = stream(1, "rows", client, round_number)
    targets = rng.integers(0, 3, ROW_COUNT)
    features = (rng.normal(0, 1, (ROW_COUNT, FEATURE_COUNT)) + 0.3 * targets[:, None]).astype(np.float32)
    kept = ROW_COUNT * 3 // 10
    return (features[kept:], targets[kept:]), (features[:kept], targets[:kept])


def run_task(scenario_file: Path) -> list[float]:
    """The mean accuracy after each round, by the simulator."""
    scenario = read_scenario(scenario_file)
    with InProcessClients(scenario, task_of(scenario, None), worker_count=1) as clients:
        return [
            float(np.mean(list(result.iteration_accuracies[-1].values()))) for result in run_rounds(clients, scenario)
        ]


def accuracies(
    module: nn.Module, shared: dict[str, torch.Tensor], rows: dict[str, list[tuple[torch.Tensor, ...]]]
) -> list[float]:
    module.load_state_dict(shared)
    with torch.no_grad():
        return [float((module(x).argmax(1) == y).double().mean()) for _, (x, y) in rows.values()]


def run_plainly() -> list[float]:
    """The same federation as a loop."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    shared = {name: tensor.clone() for name, tensor in make_module().state_dict().items()}
    names = [f"c{number}" for number in range(CLIENT_COUNT)]
    held: dict[str, list[tuple[Rows, Rows]]] = {name: [] for name in names}
    found = []
    module = make_module()
    for round_number in range(1, ROUND_COUNT + 1):
        rows = {}
        for name in names:
            held[name].append(rows_of(name, round_number))
            rows[name] = [
                tuple(torch.from_numpy(np.concatenate([part[kind][place] for part in held[name]])) for place in (0, 1))
                for kind in (0, 1)
            ]

        last = accuracies(module, shared, rows)
        for iteration in range(1, ITERATION_COUNT + 1):
            states = []
            for name in names:
                module.load_state_dict(shared)
                optimiser = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
                features, targets = rows[name][0]
                order = stream(1, "work", name, round_number, iteration).permutation(len(targets))
                for start in range(0, len(order), BATCH_SIZE):
                    batch = order[start : start + BATCH_SIZE]
                    optimiser.zero_grad()
                    nn.functional.cross_entropy(module(features[batch]), targets[batch]).backward()  # type: ignore[no-untyped-call]
                    optimiser.step()
                states.append({key: tensor.clone() for key, tensor in module.state_dict().items()})
            shared = {key: torch.stack([state[key] for state in states]).mean(0) for key in shared}
            last = accuracies(module, shared, rows)
        found.append(float(np.mean(last)))
    return found


def processor_seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "task.py").write_text(TASK)
        file = Path(folder) / "scenario.toml"
        clients = "".join(f'[[clients]]\nname = "c{number}"\n' for number in range(CLIENT_COUNT))
        file.write_text(
            f'name = "generic"\nrounds = {ROUND_COUNT}\nseed = 1\n[mechanism]\nmu = "inf"\ncontribution = "quantity"\n'
            f'[learning]\niteration_limit = {ITERATION_COUNT}\nstop_below = 0.0\n[task]\nfile = "task.py"\n{clients}'
        )
        assert np.allclose(run_task(file), run_plainly(), atol=0.02), "both learn the same"
        ratios = [processor_seconds(lambda: run_task(file)) / processor_seconds(run_plainly) for _ in range(PAIR_COUNT)]
    return conclude(
        [
            Promise(
                text="a task of one's own, compared with a plain loop", found=statistics.median(ratios), less_than=1.3
            )
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
