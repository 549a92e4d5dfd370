"""The rounds of one seeded federation, whatever mechanism decides them: each history is trained once and kept on disk.

What a round measures depends on the seed and on what each round up to it asked of whom: who was active, who took part,
with which share of its new samples, and for how many iterations. It does not depend on the mechanism that decided so.
A round is named by these steps, so all mechanisms that have decided alike so far share it, and an interrupted
comparison continues where it was.
"""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from commonweal.atomic_write import write_atomically
from commonweal.client.reporting import worth
from commonweal.errors import StorageError
from commonweal.federation.checkpoint import archive, gains_of, measurement_of, opened
from commonweal.federation.measuring import measure_round
from commonweal.federation.round_result import MeasuredRound
from commonweal.records import Figures, Instructions, Rules
from commonweal.scenario.document import digest
from commonweal.scenario.spec import Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import SimulatedTask, image_task, task_of
from commonweal.simulation.truth import FEWEST_SAMPLES, Truth, why_no_truth
from commonweal.study.behaviour import code_version
from commonweal.study.machine import cpu_kind
from commonweal.study.replication import loaded_dataset
from commonweal.valuation import utility

_FORMAT = "commonweal.compared-round/1"
_FURTHER = frozenset({"utility", "metric", "loss", "similarity"})  # all that any mechanism may read
_DIFFERENT = {
    "scenario": "another scenario",
    "data": "other data",
    "code": "another version of commonweal",
    "processor": "another kind of processor",
    "truth": "another measure of the truth",
}
_TRUE_SAMPLES = 1_000  # per source; they cost about a twentieth of a round
_NO_DRAWS = np.empty((0, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a round asks of whom; with the steps before it, all that its training depends on apart from the seed."""

    active: tuple[str, ...]
    asked: tuple[str, ...]  # who takes part; the other active clients rest
    data_shares: tuple[tuple[str, float], ...] = ()  # of new samples, where it is not all of them
    iteration_limit: int

    @classmethod
    def of(cls, active: tuple[str, ...], instructions: Instructions, scenario: Scenario) -> Step:
        """The next round with these clients, by a mechanism's instructions for it."""
        asked = tuple(instructions.asked(active))
        shares = ((client, instructions.data_shares.get(client, 1.0)) for client in asked)
        return cls(
            active=active,
            asked=asked,
            data_shares=tuple((client, share) for client, share in shares if share != 1.0),
            iteration_limit=instructions.iteration_limit or scenario.learning.iteration_limit,
        )

    @property
    def instructions(self) -> Instructions:
        return Instructions(data_shares=dict(self.data_shares), iteration_limit=self.iteration_limit)


Steps = tuple[Step, ...]
"""A history: the steps of all rounds up to one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedRound:
    """A round before any decision: what was measured, without bootstrap draws, and the truth where it is known."""

    measured: MeasuredRound
    true_accuracies: Mapping[str, float] | None = None  # after the last round in which each client took part
    true_profits: Mapping[str, float] | None = None  # of those who took part

    @property
    def iteration_count(self) -> int:
        return len(self.measured.iteration_accuracies) - 1

    @property
    def profits(self) -> Mapping[str, float]:
        """What clients made, as the decision's figures measure it, whatever they reported."""
        return {
            client: profit if (made := self.measured.measured[client].actual_profit) is None else made.value
            for client, profit in self.measured.figures.profits.items()
        }


@dataclass(kw_only=True)
class Histories:
    """The rounds of a scenario with its seed, trained when first asked for. Use it in a `with` statement."""

    scenario: Scenario  # its mechanism's rules are not used
    folder: Path
    data_directory: Path | None = None
    worker_count: int = 1
    on_trained: Callable[[], None] | None = None
    trained_count: int = 0
    _rounds: dict[Steps, TrainedRound] = field(default_factory=dict)
    _base: InProcessClients | None = None
    _reached: tuple[Steps, InProcessClients] | None = None  # clients as they are after these steps

    def __post_init__(self) -> None:
        mechanism = replace(self.scenario.mechanism, rules=Rules(mu=math.inf))
        self.scenario = replace(self.scenario, mechanism=mechanism)
        simulated, truth = _simulated(self.scenario, self.data_directory)
        self._simulated, self.truth = simulated, truth
        self._origin = {
            "scenario": digest(self.scenario),
            "data": simulated.fingerprint,
            "code": code_version(),
            "processor": cpu_kind(),
            "truth": "none" if truth is None else f"{_TRUE_SAMPLES} samples",
        }

    def __enter__(self) -> Histories:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._base is not None:
            self._base.__exit__(kind, error, trace)

    def round(self, steps: Steps) -> TrainedRound:
        """The last round of this history."""
        if steps not in self._rounds:
            self._rounds[steps] = self._stored(steps) or self._train(steps)
        return self._rounds[steps]

    def forget_state(self, steps: Steps) -> None:
        """No other continuation of this history will be asked for soon; its clients' models need not be kept."""
        self._file(steps, "state").unlink(missing_ok=True)

    # ---- training ----

    def _train(self, steps: Steps) -> TrainedRound:
        *earlier, step = steps
        number = len(steps)
        clients = self._clients_after(tuple(earlier))
        clients.let_go([client for client in clients.active if client not in step.active])
        known = self._true_accuracies_before(steps, clients)
        measured = measure_round(
            clients,
            self.scenario,
            number,
            step.asked,
            earlier=[self.round(steps[:count]).measured.gains for count in range(1, number)],
            instructions=step.instructions,
            reads=_FURTHER,
        )
        trained = TrainedRound(measured=_without_draws(measured))
        if self.truth is not None and known is not None:
            now = self.truth.accuracies(clients, number, step.asked)
            profits = {client: self._true_profit(client, now[client], known[client], measured) for client in now}
            trained = replace(trained, true_accuracies={**known, **now}, true_profits=profits)
        clients.keep_round(measured.figures.clients)
        self._reached = (steps, clients)
        # The state first: a round that is stored can then be continued.
        self._write(steps, "state", {f"state/{name}": array for name, array in clients.save().items()}, {})
        effects = {} if measured.effects is None else {"effects": measured.effects}
        self._write(steps, "round", effects, _to_document(trained))
        self.trained_count += 1
        if self.on_trained is not None:
            self.on_trained()
        return trained

    def _clients_after(self, steps: Steps) -> InProcessClients:
        """The clients as they start the round after these; nobody else has them."""
        if self._base is None:
            self._base = InProcessClients(
                self.scenario, self._simulated, worker_count=self.worker_count, compares_updates=True
            )
        reached, self._reached = self._reached, None
        if reached is not None and reached[0] == steps:
            return reached[1]
        fork = self._base.fork()
        if not steps:
            return fork
        content = self._read(steps, "state")
        if content is None:  # it was removed when nobody was to continue from there
            self._train(steps)
            return self._clients_after(steps)
        state = {name.removeprefix("state/"): array for name, array in content[1].items()}
        fork.restore(len(steps), state)
        return fork

    # ---- truth ----

    def _true_accuracies_before(self, steps: Steps, clients: InProcessClients) -> dict[str, float] | None:
        """Of the model that each client's utility is measured from: after its last round, or as it finds it first."""
        if self.truth is None:
            return None
        known = dict(self.round(steps[:-1]).true_accuracies or {}) if len(steps) > 1 else {}
        first = [client for client in steps[-1].asked if client not in known]
        return known | self.truth.accuracies(clients, len(steps), first)

    def _true_profit(self, client: str, now: float, before: float, measured: MeasuredRound) -> float:
        spec = next(one for one in self.scenario.clients if one.name == client)
        one, metric = measured.measured[client], self.scenario.task.metric

        def gained(accuracy: float, earlier: float) -> float:
            worths = [float(worth(metric, spec.worth_curve, figure)) for figure in (accuracy, earlier)]
            return utility(spec.unit_value, *worths)

        spent = one.cost
        if self.scenario.mechanism.rates is not None:  # then that is the cost by the rates
            assert one.actual_profit is not None, "it is known what clients made"
            spent = gained(one.accuracy.value, one.previous_accuracy) - one.actual_profit.value
        assert spent is not None, "in a simulation no figure is private"
        return gained(now, before) - spent

    # ---- files ----

    def _file(self, steps: Steps, kind: str) -> Path:
        name = hashlib.sha256(json.dumps([asdict(step) for step in steps]).encode()).hexdigest()[:24]
        return self.folder / f"{len(steps):03d}-{name}.{kind}.npz"

    def _write(self, steps: Steps, kind: str, arrays: Mapping[str, Any], document: Mapping[str, Any]) -> None:
        content = archive({"format": _FORMAT, "origin": self._origin, "steps": _plain(steps), **document}, arrays)
        write_atomically(
            self._file(steps, kind),
            content,
            what="a trained round",
            way_out="free some space there, then run the same command again",
        )

    def _read(self, steps: Steps, kind: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        file = self._file(steps, kind)
        try:
            document, arrays = opened(file.read_bytes())
            if document["format"] != _FORMAT or document["steps"] != _plain(steps):
                raise ValueError("it holds something else than its name says")
            origin = document["origin"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise _damaged(file, error) from None
        # The first rounds that were stored do not name their measure of the truth; it was the same.
        differing = [_DIFFERENT[name] for name, own in self._origin.items() if origin.get(name, own) != own]
        if differing:
            raise StorageError(
                f"{str(file)!r} was computed with {' and '.join(differing)}, and results of different origins must not "
                "be mixed. Choose another folder, or remove this one."
            )
        return document, arrays

    def _stored(self, steps: Steps) -> TrainedRound | None:
        found = self._read(steps, "round")
        if found is None:
            return None
        try:
            return _from_document(found[0], found[1].get("effects"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(self._file(steps, "round"), error) from None


def _simulated(scenario: Scenario, data_directory: Path | None) -> tuple[SimulatedTask, Truth | None]:
    """The scenario's task and, where it can be measured, the truth; images are loaded once per process."""
    if scenario.task.kind != "images":
        return task_of(scenario, data_directory), None
    dataset = loaded_dataset(scenario, data_directory)
    truth = Truth.of(scenario, dataset, sample_count=_TRUE_SAMPLES) if why_no_truth(scenario) is None else None
    is_enough = truth is not None and truth.fewest_samples >= FEWEST_SAMPLES
    return image_task(scenario, dataset), truth if is_enough else None


def _without_draws(measured: MeasuredRound) -> MeasuredRound:
    return replace(
        measured,
        profit_draws=_NO_DRAWS,
        contribution_draws=_NO_DRAWS,
        expected_draws=None,
        coalition_values=(),
        events=(),
    )


def _plain(steps: Steps) -> Any:
    """As JSON has them."""
    return json.loads(json.dumps([asdict(step) for step in steps]))


def _to_document(trained: TrainedRound) -> dict[str, Any]:
    measured = trained.measured
    return {
        "round_number": measured.round_number,
        "figures": measured.figures.to_document(),
        "measured": {client: asdict(one) for client, one in measured.measured.items()},
        "iteration_accuracies": measured.iteration_accuracies,
        "gains": None if measured.gains is None else asdict(measured.gains),
        "true_accuracies": trained.true_accuracies,
        "true_profits": trained.true_profits,
    }


def _from_document(document: Mapping[str, Any], effects: Any) -> TrainedRound:
    return TrainedRound(
        measured=MeasuredRound(
            round_number=document["round_number"],
            figures=Figures(**document["figures"]),
            absent=(),
            measured={client: measurement_of(one) for client, one in document["measured"].items()},
            iteration_accuracies=tuple(document["iteration_accuracies"]),
            coalition_values=(),
            events=(),
            signatures={},
            withdrawals={},
            profit_draws=_NO_DRAWS,
            contribution_draws=_NO_DRAWS,
            effects=effects,
            gains=gains_of(document["gains"]),
        ),
        true_accuracies=document["true_accuracies"],
        true_profits=document["true_profits"],
    )


def _damaged(file: Path, error: Exception) -> StorageError:
    reason = (str(error).partition("\n")[0] or type(error).__name__).rstrip(".")
    return StorageError(
        f"Cannot read {str(file)!r}: {reason}. Remove that file and run the same command again; only that round will "
        "be trained again."
    )
