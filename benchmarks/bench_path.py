"""What do contributions by path cost?

Valuing a round, in forward and backward passes over all validation rows with PyTorch's modules, with 20 and with 100
clients; and 1,000 clients through `commonweal run`: memory, and processor time per client and round compared with 100
clients. Whether the contributions say what they should is measured by `benchmarks.path_figures`.

    python -m benchmarks.bench_path
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from benchmarks.promises import Promise, conclude

from commonweal.data.built_in import mnist_5k
from commonweal.data.federated_dataset import FederatedDataset
from commonweal.federation.client_set import ScorerEffects
from commonweal.federation.measuring import measure_round
from commonweal.federation.round_valuation import value_round
from commonweal.federation.session import run_rounds
from commonweal.learning.models import ARCHITECTURES, Layout
from commonweal.learning.plain import PlainLearner
from commonweal.records import Rules
from commonweal.scenario.spec import ClientSpec, LearningSpec, MechanismSpec, Scenario
from commonweal.scenario.toml_file import parse_scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import image_task


def scenario(count: int, samples_per_round: float) -> Scenario:
    """Two rounds in which nobody is eliminated."""
    return Scenario(
        name="path",
        description="",
        round_count=2,
        seed=1,
        clients=tuple(
            ClientSpec(name=f"client-{n}", source="mnist-5k", samples_per_round=samples_per_round) for n in range(count)
        ),
        mechanism=MechanismSpec(rules=Rules(mu=float("inf")), measure="path", scorers="guarded"),
        learning=LearningSpec(learning_rate=0.1),
    )


def passes(count: int) -> Promise:
    """The median over rounds of the processor time of valuing, of that of one pass with autograd over all rows."""
    plan = scenario(count, 40)
    dataset = FederatedDataset.for_scenario(plan, None)
    layout = Layout(ARCHITECTURES[plan.learning.model], dataset.image_shape, dataset.class_count)
    plain = PlainLearner(layout)
    ratios: list[float] = []

    class TimedClients(InProcessClients):
        """Valued again and again, and compared."""

        def path_effects(self, round_number: int, clients: Sequence[str]) -> Mapping[str, ScorerEffects]:
            network = plain.to_network(self._common_model())
            network.eval()
            asked = super().path_effects
            for _ in range(3):
                started = time.process_time()
                for client in clients:
                    network.zero_grad()
                    images, labels = (torch.from_numpy(array) for array in self._simulated[client].validation)
                    logits = network(images.permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format))
                    logits.softmax(1).gather(1, labels[:, None]).mean().backward()
                one_pass = time.process_time() - started
                value_seconds = time.process_time()
                value_round(
                    clients,
                    plan,
                    round_number=round_number,
                    measures=lambda coalitions: {
                        c: {name: by[c] for name, by in self.evaluate(round_number, coalitions, clients).items()}
                        for c in coalitions
                    },
                    sample_counts=dict.fromkeys(clients, 1),
                    path_effects=lambda: asked(round_number, clients),
                )
                ratios.append((time.process_time() - value_seconds) / one_pass)
            return asked(round_number, clients)

    with TimedClients(plan, image_task(plan, dataset), worker_count=1) as clients:
        for number in (1, 2):
            measure_round(clients, plan, number, plan.client_names)
    return Promise(
        text=f"valuing a round by path, in passes over all rows ({count} clients)",
        found=statistics.median(ratios),
        less_than=1.2,
    )


def many_clients() -> list[Promise]:
    """Each with about 18 samples per round, of the built-in ones shifted by a pixel or two."""
    images, labels = mnist_5k()
    shifts = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (2, 0)]
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        np.savez(
            at / "shifted.npz",
            images=np.concatenate([np.roll(images[..., 0], shift, (1, 2)) for shift in shifts]),
            labels=np.concatenate([labels] * len(shifts)),
        )
        _commonweal(at, "data", "import", "shifted", "shifted.npz", "--data", "data")
        seconds, of_rounds, gigabytes = {}, {}, {}
        for count in (100, 1000):
            terms = 'mu = 0.05\ncontribution = "path"\nscorers = "guarded"'
            each = "".join(f'[[clients]]\nname = "client-{n}"\n' for n in range(count))
            text = (
                f'name = "many"\nrounds = 2\n[mechanism]\n{terms}\n[learning]\niteration_limit = 2\nstop_below = 0.0\n'
                f'[defaults]\nsource = "shifted"\nsamples_per_round = 18\ncost_per_sample = 2e-4\n{each}'
            )
            (at / f"{count}.toml").write_text(text)
            run = ("run", f"{count}.toml", "--data", "data", "--keys", "keys", "--out")
            # What starting takes is that of a run that has nothing to do but start.
            started = _commonweal(at, "data", "list", "--data", "data")[0]
            used, peak = _commonweal(at, *run, f"out-{count}")
            seconds[count] = (used - started) / (2 * count)
            gigabytes[count] = peak
            of_rounds[count] = _seconds_of_rounds(parse_scenario(text, "the benchmark"), at / "data") / (2 * count)
            print(
                f"{count} clients: {1000 * seconds[count]:.0f} ms per client and round, of which "
                f"{1000 * of_rounds[count]:.0f} for the rounds themselves; at most {peak:.2f} GiB"
            )
    return [
        Promise(text="memory of 1,000 clients, GiB", found=gigabytes[1000], less_than=4.0),
        Promise(
            text="time per client and round with 1,000 clients, of that with 100",
            found=seconds[1000] / seconds[100],
            less_than=1.5,
        ),
        Promise(
            text="the same, of the rounds themselves, without report and ledger",
            found=of_rounds[1000] / of_rounds[100],
            less_than=1.5,
        ),
    ]


def _seconds_of_rounds(plan: Scenario, data: Path) -> float:
    """Processor seconds of learning, valuing and deciding."""
    dataset = FederatedDataset.for_scenario(plan, data)
    with InProcessClients(plan, image_task(plan, dataset), worker_count=1) as clients:
        started = time.process_time()
        completed = list(run_rounds(clients, plan))
        assert len(completed) == plan.round_count
        return time.process_time() - started


def _commonweal(folder: Path, *words: str) -> tuple[float, float]:
    """Processor seconds and peak memory in GiB of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(Path(sys.executable).with_name("commonweal")), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, after.ru_maxrss / 2**20  # the largest of all commands so far, which is this one


def main() -> int:
    return conclude([*(passes(count) for count in (20, 100)), *many_clients()])


if __name__ == "__main__":
    sys.exit(main())
