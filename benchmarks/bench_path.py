"""Do contributions by path say what they should, and what do they cost?

On the built-in MNIST samples, for learning rates of 0.1 and 0.01:

sum          20 equal clients: the sum of all contributions, of the round's gain in v
negative     the share of those equal, honest clients whose contribution is negative; leave-one-out beside it
mislabelled  20 clients, 5 of which have half of their labels wrong, in training and validation: how well guarded
             contributions tell them from the others (AUC), in every round from a mean accuracy of 0.5 on
Shapley      5 unequal clients: rank correlation with exact Shapley values of the same smooth score

And how long: valuing a round, in forward and backward passes over all validation rows with PyTorch's modules; and 1,000
clients through `commonweal run`, in memory, and in processor time per client and round of that with 100 clients.

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
from dataclasses import dataclass, replace
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import torch
from benchmarks.promises import Promise, conclude
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from commonweal.data.built_in import mnist_5k
from commonweal.data.federated_dataset import FederatedDataset
from commonweal.federation.client_set import Coalition, ScorerEffects
from commonweal.federation.measuring import measure_round
from commonweal.federation.round_valuation import value_round
from commonweal.learning.models import ARCHITECTURES, Layout
from commonweal.learning.plain import PlainLearner
from commonweal.records import Rules
from commonweal.scenario.spec import ClientSpec, LabelNoise, LearningSpec, MechanismSpec, Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import image_task
from commonweal.valuation import shapley
from commonweal.valuation.scorers import ScorersRule

RATES = (0.1, 0.01)
SEEDS = (1, 2, 3)
PATH = MechanismSpec(rules=Rules(mu=float("inf")), measure="path")
SMOOTH = replace(PATH, measure="marginal", contribution_score="smooth")

Floats = NDArray[np.float64]


def scenario(clients: Sequence[ClientSpec], rate: float, seed: int, scorers: ScorersRule = "all") -> Scenario:
    """Nobody is eliminated."""
    return Scenario(
        name="path",
        description="",
        round_count=3,
        seed=seed,
        clients=tuple(clients),
        mechanism=replace(PATH, scorers=scorers),
        learning=LearningSpec(learning_rate=rate),
    )


def equal_clients(count: int, samples: float) -> list[ClientSpec]:
    return [ClientSpec(name=f"client-{n}", source="mnist-5k", samples_per_round=samples) for n in range(count)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One round: its contributions, and what the same models are worth by coalitions."""

    accuracy: float  # mean over clients
    contributions: Floats
    values: Mapping[Coalition, float]  # in the smooth score
    accuracies: Mapping[Coalition, float]

    def gain(self, clients: Sequence[str]) -> float:
        return self.values[frozenset(clients)] - self.values[frozenset()]

    def left_out(self, clients: Sequence[str], values: Mapping[Coalition, float]) -> Floats:
        """The marginal contribution of every client."""
        everyone = frozenset(clients)
        return np.array([values[everyone] - values[everyone - {client}] for client in clients])


class ObservedClients(InProcessClients):
    """Clients that score coalitions on the smooth score as well, beside being valued by path."""

    def __init__(self, plan: Scenario, coalitions: Sequence[Coalition]) -> None:
        dataset = FederatedDataset.for_scenario(plan, None)
        super().__init__(plan, image_task(replace(plan, mechanism=SMOOTH), dataset))
        self._work = replace(self._work, is_smooth=True)
        self._wanted = coalitions
        self.values: dict[Coalition, float] = {}
        self.accuracies: dict[Coalition, float] = {}

    def path_effects(self, round_number: int, clients: Sequence[str]) -> Mapping[str, ScorerEffects]:
        found = self.evaluate(round_number, self._wanted, clients)
        for coalition in self._wanted:
            measured = [found[client][coalition] for client in clients]
            self.values[coalition] = float(np.mean([one.smooth_score.value for one in measured]))
            self.accuracies[coalition] = float(np.mean([one.value for one in measured]))
        return super().path_effects(round_number, clients)


def rounds_of(plan: Scenario, coalitions: Sequence[Coalition]) -> list[Observed]:
    observed = []
    with ObservedClients(plan, coalitions) as clients:
        for number in range(1, plan.round_count + 1):
            measured = measure_round(clients, plan, number, plan.client_names)
            observed.append(
                Observed(
                    accuracy=statistics.mean(measured.iteration_accuracies[-1].values()),
                    contributions=np.array(list(measured.figures.contributions.values())),
                    values=dict(clients.values),
                    accuracies=dict(clients.accuracies),
                )
            )
    return observed


def equal_and_honest(rate: float) -> list[Promise]:
    ratios: list[float] = []
    below: dict[str, list[bool]] = {"path": [], "leave-one-out, smooth": [], "leave-one-out, hits": []}
    for seed in SEEDS:
        plan = scenario(equal_clients(20, 80), rate, seed)
        names = plan.client_names
        everyone = frozenset(names)
        coalitions = [frozenset[str](), everyone, *(everyone - {name} for name in names)]
        for observed in rounds_of(plan, coalitions):
            ratios.append(float(observed.contributions.sum()) / observed.gain(names))
            below["path"] += (observed.contributions < 0).tolist()
            below["leave-one-out, smooth"] += (observed.left_out(names, observed.values) < 0).tolist()
            below["leave-one-out, hits"] += (observed.left_out(names, observed.accuracies) < 0).tolist()
    print(f"learning rate {rate:g}, 20 equal, honest clients, {len(ratios)} rounds of {len(SEEDS)} seeds")
    print(f"  sum of contributions, of the gain in v: {min(ratios):.3f} to {max(ratios):.3f}")
    for name, is_below in below.items():
        print(f"  negative by {name}: {np.mean(is_below):.1%}")
    return [
        Promise(
            text=f"largest miss of the gain by the sum, learning rate {rate:g}",
            found=max(abs(ratio - 1) for ratio in ratios),
            less_than=0.1,
        ),
        Promise(
            text=f"equal, honest clients with a negative contribution, {rate:g}",
            found=float(np.mean(below["path"])),
            less_than=0.05,
        ),
    ]


def mislabelled(rate: float) -> Promise:
    found: list[list[float]] = []
    print(f"learning rate {rate:g}, 5 of 20 clients with half of their labels wrong, guarded scorers")
    for seed in SEEDS:
        bad = [replace(one, defect=LabelNoise(probability=0.5)) for one in equal_clients(20, 80)[:5]]
        plan = scenario([*bad, *equal_clients(20, 80)[5:]], rate, seed, "guarded")
        is_good = [client.defect is None for client in plan.clients]
        aucs = [(one.accuracy, float(roc_auc_score(is_good, one.contributions))) for one in rounds_of(plan, [])]
        print(f"  seed {seed}: " + ", ".join(f"{auc:.2f} at accuracy {accuracy:.2f}" for accuracy, auc in aucs))
        found.append([auc for accuracy, auc in aucs if accuracy >= 0.5])
    return Promise(
        text=f"AUC of mislabelling clients from accuracy 0.5 on, {rate:g}",
        found=min(statistics.mean(aucs) for aucs in zip(*(one[::-1] for one in found), strict=False)),
        at_least=0.9,
    )


def against_shapley(rate: float) -> Promise:
    """Clients with 30 to 120 samples per round, one of them with wrong labels."""
    correlations: list[float] = []
    for seed in SEEDS:
        clients = [
            replace(client, samples_per_round=samples, defect=LabelNoise(probability=0.5) if n == 3 else None)
            for n, (client, samples) in enumerate(zip(equal_clients(5, 30), (30, 50, 80, 80, 120), strict=True))
        ]
        plan = scenario(clients, rate, seed)
        names = plan.client_names
        every = [frozenset(some) for some in chain(*(combinations(names, size) for size in range(len(names) + 1)))]
        for observed in rounds_of(plan, every):
            exact = np.array(list(shapley(names, observed.values.__getitem__).values.values()))
            correlations.append(float(spearmanr(observed.contributions, exact).statistic))
    print(
        f"learning rate {rate:g}, 5 clients: rank correlation with exact Shapley values, mean "
        f"{statistics.mean(correlations):.2f}, from {min(correlations):.2f} to {max(correlations):.2f}"
    )
    return Promise(
        text=f"rank correlation with Shapley values, learning rate {rate:g}",
        found=statistics.mean(correlations),
        at_least=0.7,
    )


def passes(count: int) -> Promise:
    """The median over rounds of the processor time of valuing, of that of one pass with autograd over all rows."""
    plan = replace(scenario(equal_clients(count, 40), 0.1, 1, "guarded"), round_count=2)
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
        seconds, gigabytes = {}, {}
        for count in (100, 1000):
            terms = 'mu = 0.05\ncontribution = "path"\nscorers = "guarded"'
            each = "".join(f'[[clients]]\nname = "client-{n}"\n' for n in range(count))
            (at / f"{count}.toml").write_text(
                f'name = "many"\nrounds = 2\n[mechanism]\n{terms}\n[learning]\niteration_limit = 2\nstop_below = 0.0\n'
                f'[defaults]\nsource = "shifted"\nsamples_per_round = 18\ncost_per_sample = 2e-4\n{each}'
            )
            run = ("run", f"{count}.toml", "--data", "data", "--keys", "keys", "--out")
            # What starting takes is that of a run that has nothing to do but start.
            started = _commonweal(at, "data", "list", "--data", "data")[0]
            used, peak = _commonweal(at, *run, f"out-{count}")
            seconds[count] = (used - started) / (2 * count)
            gigabytes[count] = peak
            print(f"{count} clients: {1000 * seconds[count]:.0f} ms per client and round, at most {peak:.2f} GiB")
    return [
        Promise(text="memory of 1,000 clients, GiB", found=gigabytes[1000], less_than=4.0),
        Promise(
            text="time per client and round with 1,000 clients, of that with 100",
            found=seconds[1000] / seconds[100],
            less_than=1.5,
        ),
    ]


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
    promises: list[Promise] = []
    for rate in RATES:
        promises += equal_and_honest(rate)
    promises += [mislabelled(rate) for rate in RATES]
    promises += [against_shapley(rate) for rate in RATES]
    promises += [passes(count) for count in (20, 100)]
    promises += many_clients()
    return conclude(promises)


if __name__ == "__main__":
    sys.exit(main())
