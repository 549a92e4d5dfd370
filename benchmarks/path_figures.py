"""Do contributions by path say what they should? Three federations on the original MNIST, nobody eliminated.

    python -m benchmarks.path_figures [--seeds 5] [--rows FILE] [SETTING ...]

equal        20 equal, honest clients: the share of them whose contribution is negative, leave-one-out beside it
mislabelled  20 clients, five of which have half of their labels wrong, in training and in validation: how well guarded
             contributions tell them from the others (AUC)
unequal      five clients with 40 to 160 samples per round, one of which has half of its labels wrong: rank
             correlation with exact Shapley values of the same smooth score

Each for learning rates of 0.1 and 0.01; and in all of them the sum of contributions, compared with the gain in v. Needs
the original data (COMMONWEAL_DATA). With a file, runs that are in it are not repeated, and new ones are added to it;
`benchmarks.path_tables` writes the tables of docs/results/path.md.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from benchmarks.path_tables import MISLABELLING, RATES, Row, read_rows, tables, write_rows
from numpy.typing import NDArray

from commonweal.federation.client_set import Coalition, ScorerEffects
from commonweal.federation.measuring import measure_round
from commonweal.records import Rules
from commonweal.scenario.spec import ClientSpec, LabelNoise, LearningSpec, MechanismSpec, Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import image_task
from commonweal.study.replication import loaded_dataset
from commonweal.valuation import shapley

SOURCE = "mnist"
ROUNDS = 6
PATH = MechanismSpec(rules=Rules(mu=math.inf), measure="path", scorers="guarded")

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A federation, apart from its learning rate and seed."""

    samples: tuple[float, ...] = (100.0,) * 20  # per round, of each client
    mislabelling: tuple[int, ...] = ()  # clients with half of their labels wrong
    coalitions: Literal["all", "leave-one-out", "none"] = "none"  # whose models are scored, too

    def scenario(self, rate: float, seed: int) -> Scenario:
        return Scenario(
            name="path",
            description="",
            round_count=ROUNDS,
            seed=seed,
            clients=tuple(
                ClientSpec(
                    name=f"client-{n}",
                    source=SOURCE,
                    samples_per_round=samples,
                    defect=LabelNoise(probability=0.5) if n in self.mislabelling else None,
                )
                for n, samples in enumerate(self.samples)
            ),
            mechanism=PATH,
            learning=LearningSpec(learning_rate=rate),
        )

    def scored(self, clients: Sequence[str]) -> list[Coalition]:
        """The coalitions whose models are scored."""
        everyone = frozenset(clients)
        if self.coalitions == "all":
            sizes = range(len(clients) + 1)
            return [frozenset(some) for some in chain(*(combinations(clients, size) for size in sizes))]
        left_out = [everyone - {client} for client in clients] if self.coalitions == "leave-one-out" else []
        return [frozenset(), everyone, *left_out]


SETTINGS = {
    "equal": Setting(coalitions="leave-one-out"),
    "mislabelled": Setting(mislabelling=tuple(MISLABELLING)),
    "unequal": Setting(samples=(40.0, 70.0, 100.0, 100.0, 160.0), mislabelling=(3,), coalitions="all"),
}


class ObservedClients(InProcessClients):
    """Clients that are valued by path, and score coalition models on the smooth score as well."""

    def __init__(self, plan: Scenario, wanted: Sequence[Coalition]) -> None:
        smooth = replace(plan.mechanism, measure="marginal", contribution_score="smooth")
        dataset = loaded_dataset(plan, Path(os.environ["COMMONWEAL_DATA"]))
        super().__init__(plan, image_task(replace(plan, mechanism=smooth), dataset), worker_count=1)
        self._work = replace(self._work, is_smooth=True)
        self._wanted = wanted
        self.values: dict[Coalition, float] = {}  # v, the mean smooth score
        self.accuracies: dict[Coalition, float] = {}
        self.effects: Floats = np.empty(0)

    def path_effects(self, round_number: int, clients: Sequence[str]) -> Mapping[str, ScorerEffects]:
        found = self.evaluate(round_number, self._wanted, clients)
        for coalition in self._wanted:
            measured = [found[client][coalition] for client in clients]
            self.values[coalition] = float(np.mean([one.smooth_score.value for one in measured]))
            self.accuracies[coalition] = float(np.mean([one.value for one in measured]))
        answers = super().path_effects(round_number, clients)
        self.effects = np.array([answers[client].effects for client in clients])
        return answers


def rounds_of(name: str, rate: float, seed: int) -> Iterator[Row]:
    setting = SETTINGS[name]
    plan = setting.scenario(rate, seed)
    names = plan.client_names
    clients = ObservedClients(plan, setting.scored(names))
    with clients:
        for number in range(1, plan.round_count + 1):
            measured = measure_round(clients, plan, number, names)
            values = clients.values
            has_left_out = setting.coalitions != "none"
            exact = shapley(names, values.__getitem__).values if setting.coalitions == "all" else None
            yield Row(
                setting=name,
                rate=rate,
                seed=seed,
                round=number,
                iterations=len(measured.iteration_accuracies) - 1,
                accuracy=statistics.mean(measured.iteration_accuracies[-1].values()),
                gain=values[frozenset(names)] - values[frozenset()],
                all=tuple(clients.effects.mean(axis=0).tolist()),
                guarded=tuple(measured.figures.contributions[client] for client in names),
                left_out=_left_out(names, values) if has_left_out else None,
                left_out_hits=_left_out(names, clients.accuracies) if has_left_out else None,
                shapley=None if exact is None else tuple(exact[client] for client in names),
                halves=_halves(clients.effects),
            )


def _halves(effects: Floats) -> float:
    half = len(effects) // 2
    return float(np.corrcoef(effects[:half].mean(axis=0), effects[half:].mean(axis=0))[0, 1])


def _left_out(clients: Sequence[str], values: Mapping[Coalition, float]) -> tuple[float, ...]:
    everyone = frozenset(clients)
    return tuple(values[everyone] - values[everyone - {client}] for client in clients)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="SETTING")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=Path)
    options = parser.parse_args()
    if unknown := set(options.settings) - set(SETTINGS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(SETTINGS)}")
    torch.set_num_threads(1)
    rows = read_rows(options.rows) if options.rows and options.rows.exists() else []
    done = {(row.setting, row.rate, row.seed) for row in rows}
    for seed in range(1, options.seeds + 1):
        for name in options.settings or SETTINGS:
            for rate in RATES:
                if (name, rate, seed) in done:
                    continue
                rows += rounds_of(name, rate, seed)
                if options.rows:
                    write_rows(options.rows, rows)
    for title, table in tables(rows).items():
        print(f"\n{title}\n{table}")


if __name__ == "__main__":
    main()
