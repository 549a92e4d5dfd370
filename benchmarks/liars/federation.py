"""Federations on Flower's in-process grid in which members may lie: the files, the apps, a run, and its outcome.

Members read digits (MNIST, built in) with commonweal's own network. Every message passes through the members' real
ClientApps, and every answer is signed. Training, scores and gradients follow from the model alone, so that runs of the
same seed share what they computed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

from benchmarks.liars.lies import Knowledge, Tell, lying

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.federation.round_result import RoundResult
from commonweal.federation.session import run_rounds
from commonweal.flower import client_app
from commonweal.flower.in_process import App, InProcessGrid, Node
from commonweal.flower.transport import FlowerTransport
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.coordinator.client_set import RemoteClients
from commonweal.remote.coordinator.federation_file import read_federation
from commonweal.scenario.toml_file import parse_scenario
from commonweal.simulation.image_task import ImageTask
from commonweal.task.models import fingerprint
from commonweal.task.records import Model, Rows, TaskContext, Trained

ROUNDS = 6
SAMPLES_PER_ROUND = 100
COST_PER_SAMPLE = 2e-4
UNIT_VALUE = 1.0
_MEMORY = Path("/dev/shm")  # members write their state to the disk after each message; here it need not last

NEW_SCENARIOS = """mu = 0.05
grace_rounds = 2
figures = "forecast"
contribution = "path"
scorers = "guarded"
loss_rule = "loss"
ending = "stop"
"""
"""The mechanism of scenarios that `commonweal init` writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The rounds of a federation, and what the coordinator said of absences."""

    results: list[RoundResult]
    said: list[str]

    def outcome(self, member: str) -> Outcome:
        took_part = [result for result in self.results if member in result.measured]
        refusals = tuple(line for line in self.said if line.startswith(f"{member} "))
        if not took_part:
            return Outcome(true_profit=0.0, transfers=0.0, round_count=0, refusals=refusals)
        first, last = took_part[0].measured[member], took_part[-1].measured[member]
        samples = sum(result.measured[member].sample_count for result in took_part)
        return Outcome(
            true_profit=UNIT_VALUE * (last.accuracy.value - first.previous_accuracy) - COST_PER_SAMPLE * samples,
            transfers=sum(result.record.decision.transfers.get(member, 0.0) for result in took_part),
            round_count=len(took_part),
            refusals=refusals,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a member has at the end of a run, in units of utility."""

    true_profit: float  # utility − cost by its own samples, over all rounds it took part in
    transfers: float
    round_count: int  # that it took part in
    refusals: tuple[str, ...]  # of its answers

    @property
    def payoff(self) -> float:
        return self.true_profit + self.transfers


class Digits:
    """The data and the functions of one seed's members; results are kept by model, so that runs share them."""

    def __init__(self, names: Sequence[str], seed: int, sources: Sequence[str] = ("mnist-5k",)) -> None:
        text = f'name = "liars"\nrounds = {ROUNDS}\nseed = {seed}\n[mechanism]\nmu = 0.05\n'
        for place, name in enumerate(names):
            source = sources[place % len(sources)]
            text += f'[[clients]]\nname = "{name}"\nsource = "{source}"\nsamples_per_round = {SAMPLES_PER_ROUND}\n'
        scenario = parse_scenario(text, "the benchmark")
        self.names, self.seed = tuple(names), seed
        self._images = ImageTask(scenario, FederatedDataset.for_scenario(scenario, None))
        self._kept: dict[tuple[Any, ...], Any] = {}
        self.task = replace(
            self._images.task,
            load=lambda number, member: self._once(
                ("load", member.name, number), lambda: self._images.load(number, member)
            ),
            train=self._train,
            evaluate=self._evaluate,
            gradient=self._gradient,
            layout=lambda model: self._images.layout,
        )
        self.app: App = client_app(self.task)
        self.statistics = self._images.layout.statistics

    def _train(self, model: Model, training: Rows, context: TaskContext) -> Trained:
        key = ("train", context.member.name, context.round_number, context.iteration, fingerprint(model))
        trained: Trained = self._once(key, lambda: self._images.train(model, training, context))
        return trained

    def _evaluate(self, model: Model, validation: Rows, context: TaskContext) -> Any:
        key = ("evaluate", context.member.name, context.round_number, fingerprint(model))
        return self._once(key, lambda: self._images.evaluate(model, validation, context))

    def _gradient(self, model: Model, validation: Rows, context: TaskContext) -> Model:
        key = ("gradient", context.member.name, context.round_number, fingerprint(model))
        gradient: Model = self._once(key, lambda: self._images.gradient(model, validation, context))
        return gradient

    def _once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]


def run(digits: Digits, mechanism: str, liars: Mapping[str, Tell], client_lines: str = "") -> Run:
    """Run a federation in which these members lie."""
    said: list[str] = []
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        nodes = {}
        known: dict[str, Knowledge] = {}
        for name in liars:
            known[name] = Knowledge(member_count=len(digits.names), statistics=digits.statistics, friends=known)
        lines = f'name = "liars"\nrounds = {ROUNDS}\nseed = {digits.seed}\n[mechanism]\n{mechanism}\n'
        for number, name in enumerate(digits.names, 100):
            own = Path(folder) / name
            own.mkdir()
            NodeKey.new().write(own / "node-key")
            (own / "member.toml").write_text(
                f'name = "{name}"\nkey_file = "node-key"\nhome = "home"\nunit_value = {UNIT_VALUE}\n'
                f"cost_per_sample = {COST_PER_SAMPLE}\n"
            )
            lines += f'[[clients]]\nname = "{name}"\nkey_file = "{name}/node-key.pub"\n{client_lines}\n'
            app = digits.app
            if name in liars:
                app = lying(app, known[name], liars[name], NodeKey.read(own / "node-key"))
            nodes[number] = Node(
                name=name,
                public_key=(own / "node-key.pub").read_bytes(),
                node_config={"member": str(own / "member.toml")},
                app=app,
            )
        file = Path(folder) / "federation.toml"
        file.write_text(lines)
        federation = read_federation(file)
        grid = InProcessGrid(nodes)
        clients = RemoteClients(FlowerTransport(grid, federation.keys), federation, "0" * 64, said.append)
        assert digits.task.initial_model is not None
        with redirect_stdout(StringIO()):  # what members log
            clients.start(digits.task.initial_model, None)
            return Run(results=list(run_rounds(clients, federation)), said=said)
