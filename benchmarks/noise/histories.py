"""The rounds of one seeded federation, whatever rule decides them: each history is trained once and kept on disk.

What a round measures depends on the seed and on who was retained after each round before it, not on the rule that
retained them. So a round is named by those sets; all rules share it, and an interrupted comparison continues.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from commonweal.atomic_write import write_atomically
from commonweal.decision.decide import decision_with
from commonweal.federation.measuring import measure_round
from commonweal.federation.round_result import MeasuredRound
from commonweal.records import RoundRecord
from commonweal.scenario.spec import Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import SimulatedTask, image_task
from commonweal.simulation.truth import Truth
from commonweal.study.replication import loaded_dataset

RetainedSets = tuple[tuple[str, ...], ...]  # after each round so far


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """One client in one round: what was measured, and the truth. Accuracies are shares."""

    unit_value: float
    cost: float
    validation_count: int
    gain: float  # of the round's model over the opening one, both on the samples of this round
    changed_count: int  # validation samples on which the two models differ
    profit: float  # as the paper measures it
    profit_error: float
    contribution: float
    true_opening_accuracy: float
    true_accuracy: float

    @property
    def true_profit(self) -> float:
        return self.unit_value * (self.true_accuracy - self.true_opening_accuracy) - self.cost


Facts = dict[str, ClientFacts]


class Histories:
    """The rounds of a scenario with its seed, computed when first asked for."""

    def __init__(self, scenario: Scenario, folder: Path, data_directory: Path | None) -> None:
        # Pooled figures come with the measured ones beside them.
        self.scenario = replace(scenario, mechanism=replace(scenario.mechanism, figures="pooled"))
        self._unit_values = {client.name: client.unit_value for client in scenario.clients}
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._data_directory = data_directory
        self._task: SimulatedTask | None = None
        self._truth: Truth | None = None
        self._facts: dict[RetainedSets, Facts] = {}
        self.computed = 0

    def active(self, history: RetainedSets) -> tuple[str, ...]:
        return history[-1] if history else self.scenario.client_names

    def round(self, history: RetainedSets) -> Facts:
        """The round after these."""
        if history not in self._facts:
            file = self._file(history, "json")
            if not file.exists():
                self._measure(history)
            self._facts[history] = {
                client: ClientFacts(**facts) for client, facts in json.loads(file.read_text()).items()
            }
        return self._facts[history]

    def _measure(self, history: RetainedSets) -> None:
        """Measure the round after this history, and keep the state in which everybody in it starts the next."""
        number = len(history) + 1
        active = self.active(history)
        with self._start(history) as clients:
            # The model that opens a round is the one that ended the last.
            opening_truth = (
                {client: facts.true_accuracy for client, facts in self.round(history[:-1]).items()}
                if history
                else self._truth_of(clients, number, active)
            )
            measured = measure_round(clients, self.scenario, number, active)
            truth = self._truth_of(clients, number, active)
            decision = decision_with(measured.figures, self.scenario.mechanism.rules, active)
            clients.close_round(RoundRecord(round_number=number, decision=decision, absent=measured.absent))
            np.savez(self._file(history, "npz"), **dict(clients.save()))  # type: ignore[arg-type]
        facts = {client: self._facts_of(client, measured, opening_truth[client], truth[client]) for client in active}
        document = json.dumps({client: asdict(one) for client, one in facts.items()})
        write_atomically(self._file(history, "json"), document.encode(), what="the rounds")
        self.computed += 1

    def _facts_of(self, client: str, measured: MeasuredRound, true_before: float, true_now: float) -> ClientFacts:
        assert measured.gains is not None, "figures are pooled"
        one, gain = measured.measured[client], measured.gains.table[client]
        assert one.measured_profit is not None
        assert one.cost is not None
        return ClientFacts(
            unit_value=self._unit_values[client],
            cost=one.cost,
            validation_count=gain.sample_count,
            gain=gain.gain,
            changed_count=round(gain.squared_change),
            profit=one.measured_profit.value,
            profit_error=one.measured_profit.standard_error or 0.0,
            contribution=measured.figures.contributions[client],
            true_opening_accuracy=true_before,
            true_accuracy=true_now,
        )

    def _start(self, history: RetainedSets) -> InProcessClients:
        """The clients as they start the round after this history: the state after the last round, without who left."""
        fresh = self._fresh()
        if history:
            with np.load(self._file(history[:-1], "npz")) as stored:
                state = dict(stored)
            fresh.restore(len(history), _without_others(state, history[-1]))
        return fresh

    def _fresh(self) -> InProcessClients:
        if self._task is None:
            dataset = loaded_dataset(self.scenario, self._data_directory)
            self._task = image_task(self.scenario, dataset)
            self._truth = Truth.of(self.scenario, dataset)
        return InProcessClients(self.scenario, self._task, worker_count=1)

    def _truth_of(self, clients: InProcessClients, number: int, active: tuple[str, ...]) -> dict[str, float]:
        assert self._truth is not None, "made with the clients"
        return self._truth.accuracies(clients, number, active)

    def _file(self, history: RetainedSets, kind: str) -> Path:
        name = hashlib.sha256(json.dumps(history).encode()).hexdigest()[:24]
        return self._folder / f"{len(history) + 1:02d}-{name}.{kind}"


def _without_others(state: Mapping[str, np.ndarray], retained: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The saved state of these clients; what is saved of a client begins with its number."""
    others = {
        key.removesuffix("name")
        for key, array in state.items()
        if key.endswith("/name") and array.tobytes().decode() not in retained
    }
    return {key: array for key, array in state.items() if not any(key.startswith(number) for number in others)}
