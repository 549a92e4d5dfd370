"""Is a poisoner found, and is an honest client ever taken for one?

    python -m benchmarks.bench_harm [--seeds 20] [--out FILE] [SETTING ...]

Eight clients learn MNIST (built in) for six rounds, two of them of grace. In a poisoned federation, at mu = 0.05, one
of them sends its update with the opposite sign, or with noise of 50 or 100 times its length, or trained on flipped
labels, and reports a profit of 0: it makes no loss, so the mechanism never eliminates it. It must be eliminated as
harmful within five rounds. In honest federations nobody may be found harmful: clients are equal, or large and small, or
have other labels or other images than the others; mu is infinite, so that everybody is tested in every round. Where
data are that different, the guide recommends harm = "advise"; the test is the same, and its advice is counted. The five
original domains need COMMONWEAL_DATA.

With a file, runs that are in it are not repeated. `make bench` runs two seeds; docs/results/harm.md has more.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from benchmarks.promises import Promise, conclude

from commonweal.federation.session import run_rounds
from commonweal.scenario.spec import Scenario
from commonweal.scenario.toml_file import parse_scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import task_of

POISONER = "client-0"
ROUNDS, IN_TIME = 6, 5
CLIENT_COUNT = 8
MOST_WRONG = 0.05
FOUND_OF_TWENTY = 0.9

_HEAD = """
name = "harm"
rounds = {rounds}
seed = {seed}
[mechanism]
mu = {mu}
grace_rounds = 2
contribution = "path"
scorers = "guarded"
figures = "forecast"
harm = "{rule}"
[learning]
iteration_limit = 3
algorithm = "{algorithm}"
{data}
[defaults]
cost_per_sample = 2e-4
"""
_BUILT_IN = ("mnist-5k", "mnist5k-photo", "rendered-digits", "uci-digits")
_ORIGINALS = ("mnist", "svhn", "usps", "mnistm", "synthdigits-rebuilt")
_SIZES = (240, 160, 80, 80, 40, 40, 20, 20)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A federation, apart from its seed."""

    defect: str | None = None  # of the first client
    samples: tuple[int, ...] = (80,) * CLIENT_COUNT  # per round
    sources: tuple[str, ...] = ("mnist-5k",)  # clients take turns
    data: str = ""
    algorithm: str = "fedavg"
    rule: str = "eliminate"

    def scenario(self, seed: int) -> Scenario:
        text = _HEAD.format(
            rounds=ROUNDS,
            seed=seed,
            mu="inf" if self.defect is None else "0.05",
            rule=self.rule,
            algorithm=self.algorithm,
            data=self.data,
        )
        for place, samples in enumerate(self.samples):
            source = self.sources[place % len(self.sources)]
            text += f'[[clients]]\nname = "client-{place}"\nsource = "{source}"\nsamples_per_round = {samples}\n'
            if place == 0 and self.defect is not None:
                text += f"reported_profit = 0.0\ndefect = {self.defect}\n"
        return parse_scenario(text, "the benchmark")


SETTINGS = {
    "sign-flipped": Setting(defect='{ kind = "sign-flip" }'),
    "noised-50": Setting(defect='{ kind = "noised-update", ratio = 50 }'),
    "noised-100": Setting(defect='{ kind = "noised-update", ratio = 100 }'),
    "label-flipped": Setting(defect='{ kind = "label-flip" }'),
    "equal": Setting(),
    "large-and-small": Setting(samples=_SIZES),
    "label-skew-0.5": Setting(data="[data]\nlabel_skew = 0.5", rule="advise"),
    "label-skew-0.1": Setting(data="[data]\nlabel_skew = 0.1", rule="advise"),
    "built-in-domains": Setting(sources=_BUILT_IN, samples=(50,) * CLIENT_COUNT, algorithm="fedbn", rule="advise"),
    "five-domains": Setting(sources=_ORIGINALS, samples=(100,) * 5, algorithm="fedbn", rule="advise"),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """Who was found harmful first in which round, and who was left at the end."""

    setting: str
    seed: int
    found: dict[str, int]
    active: list[str]
    round_count: int

    @property
    def is_in_time(self) -> bool:
        return self.found.get(POISONER, ROUNDS + 1) <= IN_TIME

    @property
    def wrong(self) -> list[str]:
        """Honest clients that were found harmful."""
        is_poisoned = SETTINGS[self.setting].defect is not None
        return [client for client in self.found if not (is_poisoned and client == POISONER)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="SETTING", help=", ".join(SETTINGS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, help="keep the runs here, one per line")
    options = parser.parse_args()
    data = os.environ.get("COMMONWEAL_DATA")
    names = options.settings or [name for name in SETTINGS if name != "five-domains" or data]
    torch.set_num_threads(1)
    known = [] if options.out is None else read_runs(options.out)
    runs = []
    for seed in range(1, options.seeds + 1):
        for name in names:
            run = next((run for run in known if (run.setting, run.seed) == (name, seed)), None)
            if run is None:
                run = _run(name, seed, None if data is None else Path(data))
                if options.out is not None:
                    with options.out.open("a") as file:
                        print(json.dumps(asdict(run)), file=file)
            runs.append(run)
            print(f"{name}, seed {seed}: harmful {run.found or 'nobody'}, left after {run.round_count} rounds: "
                  f"{len(run.active)}", file=sys.stderr)  # fmt: skip
    return conclude(_promises(names, runs))


def read_runs(path: Path) -> list[Run]:
    """The runs in a file; none if there is no file yet."""
    return [Run(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def _run(name: str, seed: int, data: Path | None) -> Run:
    scenario = SETTINGS[name].scenario(seed)
    found: dict[str, int] = {}
    active, round_count = list(scenario.client_names), 0
    with InProcessClients(scenario, task_of(scenario, data), worker_count=1) as clients:
        for result in run_rounds(clients, scenario):
            record = result.record
            found = {one.client: record.round_number for one in record.harm} | found
            active = [client for client in active if client not in record.left]
            round_count = record.round_number
            if POISONER in found and SETTINGS[name].defect is not None:
                break  # what comes after is not asked
    return Run(setting=name, seed=seed, found=found, active=active, round_count=round_count)


def _promises(names: list[str], runs: list[Run]) -> list[Promise]:
    promises = []
    for name in names:
        of_setting = [run for run in runs if run.setting == name]
        if SETTINGS[name].defect is not None:
            share = sum(run.is_in_time for run in of_setting) / len(of_setting)
            text = f"{name}: share of {len(of_setting)} poisoners found within {IN_TIME} rounds"
            promises.append(Promise(text=text, found=share, at_least=FOUND_OF_TWENTY))
        share = sum(bool(run.wrong) for run in of_setting) / len(of_setting)
        text = f"{name}: share of {len(of_setting)} runs with an honest client found harmful"
        promises.append(Promise(text=text, found=share, less_than=MOST_WRONG + 1e-9))
    return promises


if __name__ == "__main__":
    sys.exit(main())
