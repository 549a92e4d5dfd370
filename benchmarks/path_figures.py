"""Do contributions by path say what they should? Four federations on original data, nobody eliminated.

    python -m benchmarks.path_figures [--seeds 5] [--rows FILE] [SETTING ...]

equal        20 equal, honest clients, on MNIST and on CIFAR-10: the sum of contributions, compared with the round's
             gain in v; and the share of clients whose contribution is negative, leave-one-out beside it
mislabelled  20 clients on MNIST, five of which have half of their labels wrong, in training and in validation: how well
             guarded contributions tell them from the others (AUC)
unequal      five clients on MNIST with 40 to 160 samples per round, one of which has half of its labels wrong: rank
             correlation with exact Shapley values of the same smooth score

Each for learning rates of 0.1 and 0.01. Needs the original data (COMMONWEAL_DATA). With a file, runs that are in it are
not repeated, and new ones are added to it. The tables in docs/results/path.md are made from docs/results/path.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from commonweal.atomic_write import write_atomically
from commonweal.federation.client_set import Coalition, ScorerEffects
from commonweal.federation.measuring import measure_round
from commonweal.records import Rules
from commonweal.scenario.spec import ClientSpec, LabelNoise, LearningSpec, MechanismSpec, Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import image_task
from commonweal.study.replication import loaded_dataset
from commonweal.valuation import shapley

RATES = (0.1, 0.01)
ROUNDS = 6
LEARNED = 0.5  # mean accuracy from which on mislabelling clients must be told from the others
PATH = MechanismSpec(rules=Rules(mu=math.inf), measure="path", scorers="guarded")

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A federation, apart from its learning rate and seed."""

    source: str = "mnist"
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
                    source=self.source,
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
    "equal, MNIST": Setting(coalitions="leave-one-out"),
    "equal, CIFAR-10": Setting(source="cifar10", coalitions="leave-one-out"),
    "mislabelled": Setting(mislabelling=(0, 1, 2, 3, 4)),
    "unequal": Setting(samples=(40.0, 70.0, 100.0, 100.0, 160.0), mislabelling=(3,), coalitions="all"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One round of one seeded federation. Contributions are in units of the smooth score v, from 0 to 1."""

    setting: str
    rate: float
    seed: int
    round: int
    iterations: int
    accuracy: float  # mean over clients, after the round
    gain: float  # in v
    all: tuple[float, ...]  # contributions by path of each client, all scorers alike
    guarded: tuple[float, ...]  # with guarded scorers
    left_out: tuple[float, ...] | None  # leave-one-out in v
    left_out_hits: tuple[float, ...] | None  # leave-one-out in accuracy: the paper's
    shapley: tuple[float, ...] | None  # exact, in v


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
            )


def _left_out(clients: Sequence[str], values: Mapping[Coalition, float]) -> tuple[float, ...]:
    everyone = frozenset(clients)
    return tuple(values[everyone] - values[everyone - {client}] for client in clients)


def tables(rows: Sequence[Row]) -> dict[str, str]:
    """Markdown by name."""
    return {
        "equal": _equal(rows),
        "rounds": _rounds(rows),
        "mislabelled": _mislabelled(rows),
        "unequal": _unequal(rows),
    }


def _of(rows: Sequence[Row], name: str, rate: float) -> list[Row]:
    return [row for row in rows if (row.setting, row.rate) == (name, rate)]


def _cells(rows: Sequence[Row], kind: str) -> Iterator[tuple[str, float, list[Row]]]:
    for name in SETTINGS:
        for rate in RATES:
            if name.startswith(kind) and (some := _of(rows, name, rate)):
                yield name.removeprefix(kind).removeprefix(", "), rate, some


def _negative(figures: Sequence[tuple[float, ...] | None]) -> str:
    below = np.array(figures, float) < 0
    return f"{below.mean():.1%}"


def _equal(rows: Sequence[Row]) -> str:
    lines = [
        "| data | learning rate | rounds | sum / gain: median (5 % to 95 %) | within 10 % | sum of all rounds / gain | "
        "negative: path | path, guarded | leave-one-out on v | leave-one-out on hits |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for data, rate, some in _cells(rows, "equal"):
        ratios = np.array([sum(row.all) / row.gain for row in some])
        low, middle, high = np.quantile(ratios, [0.05, 0.5, 0.95])
        total = sum(sum(row.all) for row in some) / sum(row.gain for row in some)
        lines.append(
            f"| {data} | {rate:g} | {len(some)} | {middle:.3f} ({low:.3f} to {high:.3f}) | "
            f"{np.mean(np.abs(ratios - 1) <= 0.1):.0%} | {total:.3f} | "
            f"{_negative([row.all for row in some])} | {_negative([row.guarded for row in some])} | "
            f"{_negative([row.left_out for row in some])} | {_negative([row.left_out_hits for row in some])} |"
        )
    return "\n".join(lines)


def _rounds(rows: Sequence[Row]) -> str:
    """The federations of equal clients, round by round: means over seeds."""
    lines = [
        "| data | learning rate | round | accuracy | gain in v | sum / gain: mean (from, to) | negative, guarded |",
        "|---|---|---|---|---|---|---|",
    ]
    for data, rate, some in _cells(rows, "equal"):
        for number in sorted({row.round for row in some}):
            here = [row for row in some if row.round == number]
            ratios = [sum(row.all) / row.gain for row in here]
            lines.append(
                f"| {data} | {rate:g} | {number} | {statistics.mean(row.accuracy for row in here):.2f} | "
                f"{statistics.mean(row.gain for row in here):.3f} | "
                f"{statistics.mean(ratios):.3f} ({min(ratios):.3f}, {max(ratios):.3f}) | "
                f"{_negative([row.guarded for row in here])} |"
            )
    return "\n".join(lines)


def _auc(row: Row, figures: Sequence[float]) -> float:
    bad = SETTINGS[row.setting].mislabelling
    return float(roc_auc_score([n not in bad for n in range(len(figures))], figures))


def _mislabelled(rows: Sequence[Row]) -> str:
    lines = [
        "| learning rate | round | accuracy: mean (from, to) | AUC, guarded: mean (least) | AUC, all scorers: mean | "
        "runs at 0.5 or more | their least AUC, guarded |",
        "|---|---|---|---|---|---|---|",
    ]
    for _, rate, some in _cells(rows, "mislabelled"):
        for number in sorted({row.round for row in some}):
            here = [row for row in some if row.round == number]
            accuracies = [row.accuracy for row in here]
            guarded = [_auc(row, row.guarded) for row in here]
            learned = [_auc(row, row.guarded) for row in here if row.accuracy >= LEARNED]
            every = statistics.mean(_auc(row, row.all) for row in here)
            lines.append(
                f"| {rate:g} | {number} | {statistics.mean(accuracies):.2f} ({min(accuracies):.2f}, "
                f"{max(accuracies):.2f}) | {statistics.mean(guarded):.3f} ({min(guarded):.3f}) | {every:.3f} | "
                f"{len(learned)} of {len(here)} | {f'{min(learned):.3f}' if learned else '–'} |"
            )
    return "\n".join(lines)


def _unequal(rows: Sequence[Row]) -> str:
    lines = [
        "| learning rate | rounds | path: mean (5 % to 95 %) | path, guarded | leave-one-out on v | "
        "path, each client's sum over all rounds |",
        "|---|---|---|---|---|---|",
    ]
    for _, rate, some in _cells(rows, "unequal"):
        by_path = [_correlation(row.all, row.shapley) for row in some]
        low, high = np.quantile(by_path, [0.05, 0.95])
        totals = []
        for seed in sorted({row.seed for row in some}):
            own = [row for row in some if row.seed == seed]
            sums = [np.sum([getattr(row, field) for row in own], axis=0) for field in ("all", "shapley")]
            totals.append(_correlation(*sums))
        lines.append(
            f"| {rate:g} | {len(some)} | {statistics.mean(by_path):.2f} ({low:.2f} to {high:.2f}) | "
            f"{statistics.mean(_correlation(row.guarded, row.shapley) for row in some):.2f} | "
            f"{statistics.mean(_correlation(row.left_out, row.shapley) for row in some):.2f} | "
            f"{statistics.mean(totals):.2f} |"
        )
    return "\n".join(lines)


def _correlation(first: Any, second: Any) -> float:
    return float(spearmanr(first, second).statistic)


def read_rows(file: Path) -> list[Row]:
    return [_row(given) for given in json.loads(file.read_text(encoding="utf-8"))]


def _row(given: dict[str, Any]) -> Row:
    fields: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in given.items()}
    return Row(**fields)


def write_rows(file: Path, rows: Sequence[Row]) -> None:
    """One row per line, contributions to seven digits."""
    lines = [json.dumps(_rounded(asdict(row))) for row in rows]
    write_atomically(file, ("[\n" + ",\n".join(lines) + "\n]\n").encode(), what="the rows")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", choices=[*SETTINGS, []], default=list(SETTINGS), metavar="SETTING")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = read_rows(options.rows) if options.rows and options.rows.exists() else []
    done = {(row.setting, row.rate, row.seed) for row in rows}
    for seed in range(1, options.seeds + 1):
        for name in options.settings:
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
