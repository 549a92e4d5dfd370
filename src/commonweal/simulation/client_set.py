"""The in-process set of clients: a task and an algorithm behind the session's protocol, on all cores of this machine.

Clients and coalition models are processed in parallel threads, each with one torch thread. Results do not depend on the
number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from types import TracebackType
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from commonweal.client.reporting import Alone, ClientAccount, account, as_reported, rated_account
from commonweal.client.work import ClientWork, Evaluation, LocalTrained, LoneModel, no_gradient
from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import ScenarioError
from commonweal.federation.client_set import (
    Coalition,
    LateReport,
    Opening,
    ProfitReport,
    ScorerEffects,
    State,
    StatementOf,
    ToldGain,
    ToldGains,
    Training,
)
from commonweal.learning.algorithms import make_algorithm
from commonweal.learning.path import GRADIENT_BLOCK, RoundPath, norm
from commonweal.records import AgreedRates, Estimate, Event, Rates, RoundRecord
from commonweal.scenario.spec import Scenario
from commonweal.simulation.simulated_client import SimulatedClient
from commonweal.simulation.simulated_task import SimulatedTask
from commonweal.task.measured import Measured, gain_over
from commonweal.task.records import Predictions, Rows, TaskMember
from commonweal.valuation.bootstrap import standard_error

Item = TypeVar("Item")
Result = TypeVar("Result")

_NAME, _SHARED = "/name", "shared"


class InProcessClients:
    """All clients of a scenario in this process. Use it in a `with` statement: it owns threads."""

    def __init__(
        self,
        scenario: Scenario,
        simulated: SimulatedTask,
        *,
        worker_count: int | None = None,
        compares_updates: bool | None = None,
    ) -> None:
        """`compares_updates`: whether `similarities` can be asked for; None: if the scenario's mechanism reads them."""
        learning = scenario.learning
        if scenario.mechanism.uses_gradients and simulated.task.gradient is None:
            raise ScenarioError(no_gradient(simulated.task))
        self._scenario = scenario
        self._work = ClientWork(
            task=simulated.task,
            layout=simulated.layout,
            algorithm=make_algorithm(
                learning.algorithm,
                simulated.layout,
                learning_rate=learning.learning_rate,
                parameters=learning.parameters,
            ),
            metric=simulated.metric,
            seed=scenario.seed,
            learning_rate=learning.learning_rate,
            is_smooth=scenario.mechanism.scores_coalitions_smoothly,
        )
        self._algorithm = self._work.algorithm
        initial = simulated.initial
        self._trains_alone = scenario.mechanism.utility == "advantage"
        self._simulated = {
            spec.name: SimulatedClient(
                spec=spec,
                member=simulated.members[spec.name],
                memory=self._algorithm.first_memory(initial),
                alone=initial if self._trains_alone else None,
            )
            for spec in scenario.clients
        }
        self._shared = dict.fromkeys(self._simulated, initial)  # the model that each client gets
        self._local: dict[str, LocalTrained] = {}  # of the last iteration
        self._evaluations: dict[tuple[Coalition, str], Evaluation] = {}  # of the last iteration's coalition models
        self._measured: dict[tuple[Coalition, str], Measured] = {}
        self._lone: dict[str, LoneModel] = {}  # the models that clients have alone, after this round
        self._adopted: Coalition = frozenset()
        if compares_updates is None:
            compares_updates = "similarity" in make_mechanism(scenario.mechanism.rules).reads
        self._compares_updates = compares_updates
        self._updates: dict[str, Tensor] = {}  # what each client changed in this round, where they are compared
        self._round = 0
        self._path: RoundPath | None = None  # of this round, where contributions are measured by path
        torch.set_num_threads(1)
        self._worker_count = worker_count or os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self._worker_count, initializer=torch.set_num_threads, initargs=(1,))

    def __enter__(self) -> InProcessClients:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def open_round(
        self, round_number: int, clients: Sequence[str], data_shares: Mapping[str, float]
    ) -> Mapping[str, Opening]:
        self._local, self._round = {}, round_number
        self._evaluations, self._measured = {}, {}
        if self._scenario.mechanism.uses_gradients:
            placeholders = self._work.layout.statistics if round_number == 1 else slice(0, 0)
            self._path = RoundPath(self._common_model(), clients, self._algorithm.averaged, placeholders)
        self._updates = {client: torch.zeros(()) for client in clients} if self._compares_updates else {}
        return self._for_each(clients, lambda client: self._open(client, round_number, data_shares.get(client, 1.0)))

    def train(self, round_number: int, iteration: int, clients: Sequence[str]) -> Mapping[str, Training]:
        self._forget_coalitions()
        memories = [member.memory for member in self._simulated.values()]
        served = self._algorithm.serve(memories, list(self._sizes(self._simulated).values()))
        self._local = self._for_each(clients, lambda client: self._train(client, round_number, iteration, served))
        if self._path is not None:
            local = {client: trained.result.model for client, trained in self._local.items()}
            self._path.add(self._common_model(), local, self._sizes(local))
        for client, trained in self._local.items():
            if client in self._updates:
                part = self._algorithm.averaged
                self._updates[client] = self._updates[client] + trained.result.model[part] - self._shared[client][part]
            member = self._simulated[client]
            member.memory, member.task_memory = trained.result.memory, trained.task_memory
            member.step_count += trained.step_count
        return {
            client: Training(step_count=trained.step_count, loss=trained.loss)
            for client, trained in self._local.items()
        }

    def evaluate(
        self, round_number: int, coalitions: Sequence[Coalition], clients: Sequence[str]
    ) -> Mapping[str, Mapping[Coalition, Measured]]:
        missing = [c for c in coalitions if any((c, client) not in self._measured for client in clients)]
        for first in range(0, len(missing), self._worker_count):  # to keep only this many models in memory at a time
            some = missing[first : first + self._worker_count]
            self._score_all(round_number, some, clients)
        return {
            client: {coalition: self._measured[coalition, client] for coalition in coalitions} for client in clients
        }

    def path_effects(self, round_number: int, clients: Sequence[str]) -> Mapping[str, ScorerEffects]:
        assert self._path is not None, "the path is kept where contributions are measured by it"
        path, sizes = self._path, self._sizes(clients)
        midpoint = path.midpoint(self._common_model())
        found: dict[str, ScorerEffects] = {}
        for first in range(0, len(clients), GRADIENT_BLOCK):
            block = clients[first : first + GRADIENT_BLOCK]
            gradients = self._for_each(block, lambda client: self._gradient(client, round_number, midpoint))
            effects = path.effects(list(gradients.values()), sizes)
            for row, (client, gradient) in zip(effects, gradients.items(), strict=True):
                found[client] = ScorerEffects(effects=row, gradient_norm=norm(gradient))
        return found

    def similarities(self, clients: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        cosines = torch.nn.functional.normalize(torch.stack([self._updates[c].double() for c in clients]), dim=1)
        rows = (cosines @ cosines.t()).tolist()
        return {client: dict(zip(clients, row, strict=True)) for client, row in zip(clients, rows, strict=True)}

    def adopt(self, coalition: Coalition) -> None:
        self._shared = self._aggregates(coalition, list(self._simulated))
        self._adopted = coalition

    def report(
        self, round_number: int, clients: Sequence[str], told: ToldGains | None, rates: AgreedRates | None
    ) -> Mapping[str, ProfitReport]:
        self.evaluate(round_number, [self._adopted], clients)
        self._lone = {}
        alone = self._for_each(clients, lambda client: self._train_alone(client, round_number))
        return {
            client: self._report(
                client,
                alone[client],
                None if told is None else told.of(client),
                None if rates is None else rates.of(client),
            )
            for client in clients
        }

    def close_round(self, record: RoundRecord) -> tuple[Event, ...]:
        self.keep_round(record.decision.figures.clients)
        self.let_go(record.left)
        return ()

    def keep_round(self, participants: Collection[str]) -> None:
        """The round is over: its model is what the next round's gains are measured from, for those who took part."""
        for client, member in self._simulated.items():
            member.known_scores = np.empty(0)  # absent: it has not seen the round's model
            if client in participants:
                measured = self._measured[self._adopted, client]
                if measured.is_defined or member.previous is None:  # else the next gain is since the last one known
                    member.previous = measured
                if client in self._lone:
                    member.alone, member.alone_memory = self._lone[client].model, self._lone[client].task_memory
                evaluation = self._evaluations[self._adopted, client]
                if not isinstance(evaluation, Predictions):
                    member.known_scores = evaluation

    def let_go(self, clients: Iterable[str]) -> None:
        """These clients have left."""
        for client in clients:
            del self._simulated[client]

    @property
    def active(self) -> tuple[str, ...]:
        """The clients that have not left."""
        return tuple(self._simulated)

    def late_reports(self, owing: Mapping[str, list[int]], statement_of: StatementOf) -> Sequence[LateReport]:
        """Simulated clients are never silent."""
        return ()

    def tell(self, record: RoundRecord, statement_of: StatementOf) -> None:
        """Simulated clients keep no statements."""

    def save(self) -> State:
        state = {}
        shared = {id(model): model for model in self._shared.values()}
        if len(shared) == 1:
            state[_SHARED] = next(iter(shared.values())).numpy()
        for number, (client, member) in enumerate(self._simulated.items()):
            assert member.previous is not None, "saved after a round"
            state[f"{number}{_NAME}"] = np.frombuffer(client.encode(), np.uint8)
            state[f"{number}/memory"] = member.memory.numpy()
            state[f"{number}/previous"] = np.array([member.previous.value, *member.previous.draws])
            state[f"{number}/known_scores"] = member.known_scores
            if member.received != dict.fromkeys(range(1, self._round + 1), 1.0):
                state[f"{number}/received"] = np.array(list(member.received.items()), np.float64)
            if len(shared) > 1:
                state[f"{number}/shared"] = self._shared[client].numpy()
            if member.alone is not None:
                state[f"{number}/alone"] = member.alone.numpy()
            for kind, memory in (("task_memory", member.task_memory), ("alone_memory", member.alone_memory)):
                state |= {f"{number}/{kind}/{name}": array for name, array in memory.items()}
        return state

    def restore(self, round_number: int, state: State) -> None:
        numbers = [name.removesuffix(_NAME) for name in state if name.endswith(_NAME)]
        members = {state[f"{number}{_NAME}"].tobytes().decode(): number for number in numbers}
        self._simulated = {client: member for client, member in self._simulated.items() if client in members}
        common = torch.from_numpy(state[_SHARED]) if _SHARED in state else None
        self._shared, self._round = {}, round_number
        for client, number in members.items():
            member = self._simulated[client]
            self._shared[client] = torch.from_numpy(state[f"{number}/shared"]) if common is None else common
            member.memory = torch.from_numpy(state[f"{number}/memory"])
            member.known_scores = state[f"{number}/known_scores"]
            member.previous = self._previous(member.member, state, number)
            if f"{number}/alone" in state:
                member.alone = torch.from_numpy(state[f"{number}/alone"])
            member.task_memory = _memory(state, f"{number}/task_memory/")
            member.alone_memory = _memory(state, f"{number}/alone_memory/")
            received = state.get(f"{number}/received", np.array([[each, 1.0] for each in range(1, round_number + 1)]))
            for earlier, share in received.tolist():
                member.receive(self._work.load(member.member, int(earlier)), int(earlier), share)

    def fork(self) -> InProcessClients:
        """A copy from which another continuation of the same rounds can start.

        Both continue independently; they share threads and data, which are closed with the original.
        """
        twin = copy(self)
        twin._simulated = {client: replace(state) for client, state in self._simulated.items()}
        return twin

    def scores_of(self, round_number: int, samples: Mapping[str, Rows]) -> dict[str, Evaluation]:
        """How the model that each client has now does on other samples than the client's own.

        In a simulation the truth can be measured: on samples that nobody ever receives. Clients with the same model and
        the same samples are scored once.
        """
        scored_at: dict[tuple[int, int] | str, str] = {}
        same: dict[str, str] = {}  # by client: the first with the same model and samples
        models = {}  # kept, so that no two have the same id
        for client, rows in samples.items():
            member = self._simulated[client]
            models[client] = self._algorithm.personal(self._shared[client], member.memory)
            own: tuple[int, int] | str = client if member.task_memory else (id(models[client]), id(rows))
            same[client] = scored_at.setdefault(own, client)

        def scores(client: str) -> Evaluation:
            member = self._simulated[client]
            return self._work.evaluate(
                member.member,
                round_number,
                self._shared[client],
                samples[client],
                memory=member.memory,
                task_memory=member.task_memory,
            )

        found = self._for_each(scored_at.values(), scores)
        return {client: found[same[client]] for client in samples}

    def _open(self, client: str, round_number: int, data_share: float) -> Opening:
        member = self._simulated[client]
        new = self._work.load(member.member, round_number)
        member.receive(new, round_number, data_share)
        # Earlier samples were scored with this same model when the last round ended.
        known = len(member.known_scores)
        rows = tuple(array[known:] for array in member.validation)
        evaluation = self._work.evaluate(
            member.member,
            round_number,
            self._shared[client],
            rows,
            memory=member.memory,
            task_memory=member.task_memory,
        )
        if known:
            assert not isinstance(evaluation, Predictions), "a task returns scores always or never"
            evaluation = np.concatenate([member.known_scores, evaluation])
        measured = self._keep((frozenset(), client), evaluation)
        if member.previous is None:
            member.previous = measured  # ε(n,0): the untrained model on the first validation set
        notes = dict(new.notes)
        if why := self._work.why_unmeasurable(member.member, evaluation):
            notes["unmeasurable"] = why
        return Opening(
            sample_count=member.declared_count,
            training_count=member.training_count,
            validation_count=member.validation_count,
            measured=measured,
            events=tuple(Event(kind=kind, client=client, text=text) for kind, text in notes.items()),
        )

    def _train(self, client: str, round_number: int, iteration: int, served: Tensor) -> LocalTrained:
        member = self._simulated[client]
        return self._work.train(
            member.member,
            round_number,
            iteration,
            member.training,
            shared=self._shared[client],
            served=served,
            memory=member.memory,
            task_memory=member.task_memory,
            defect=member.spec.defect,
        )

    def _gradient(self, client: str, round_number: int, model: Tensor) -> Tensor:
        member = self._simulated[client]
        return self._work.gradient(
            member.member,
            round_number,
            model,
            member.validation,
            memory=member.memory,
            task_memory=member.task_memory,
        )

    def _common_model(self) -> Tensor:
        """The model that all clients get; there is one unless models are personal."""
        return next(iter(self._shared.values()))

    def _train_alone(self, client: str, round_number: int) -> Alone | None:
        """The model that the client would have without the federation, after this round; asked again, the same."""
        member = self._simulated[client]
        if member.alone is None:
            return None
        lone = self._work.train_alone(
            member.member,
            round_number,
            member.data,
            model=member.alone,
            task_memory=member.alone_memory,
            iteration_count=self._scenario.learning.iteration_limit,
        )
        self._lone[client] = lone
        return lone.alone

    def _report(self, client: str, alone: Alone | None, told: ToldGain | None, rates: Rates | None) -> ProfitReport:
        member = self._simulated[client]
        assert member.previous is not None, "a round is opened before it is reported"
        now = self._measured[self._adopted, client]
        own = account(
            member.spec,
            self._work.metric,
            now=now,
            before=member.previous,
            sample_count=member.cost_count,
            step_count=member.step_count,
            alone=alone,
            opening=self._measured[frozenset(), client],
            told=told if rates is None else None,  # by agreed rates, its own profit is told to nobody
        )
        shown, gain = own, None
        if rates is not None:
            gain, gain_draws = gain_over(member.previous if alone is None else alone.measured, now, self._work.metric)
            shown = rated_account(
                rates,
                gain=gain,
                gain_draws=gain_draws,
                sample_count=member.declared_count,
                is_advantage=alone is not None,
                told=told,
            )
        said = shown if rates is not None else as_reported(own, member.spec.reported_profit)
        return ProfitReport(
            profit=said.profit,
            profit_draws=said.profit_draws,
            gain=gain if told is None else None,
            expected_profit=said.expected_profit,
            expected_draws=said.expected_draws,
            measured_profit=shown.measured_profit,
            measured_profit_draws=shown.measured_profit_draws,
            actual_profit=None if said is own else _estimate(own),
            previous_accuracy=member.previous.value,
            utility=shown.utility,
            cost=shown.cost,
            alone=None if alone is None else alone.measured,
            alone_cost=shown.alone_cost,
        )

    def _aggregates(self, coalition: Coalition, clients: Sequence[str]) -> dict[str, Tensor]:
        """The merged model of the coalition for each of these clients; the same one unless models are personal."""
        assert coalition, "the model that starts a round is scored when the round opens"
        merged = [client for client in self._simulated if client in coalition]
        models = {client: self._local[client].result.model for client in merged}
        sizes = self._sizes(merged)
        if not self._algorithm.is_personal:
            return dict.fromkeys(clients, self._algorithm.aggregate(models, sizes, None))
        own = {client: trained.result.model for client, trained in self._local.items()}
        return {client: self._algorithm.aggregate(models, sizes, own.get(client)) for client in clients}

    def _sizes(self, clients: Iterable[str]) -> dict[str, float]:
        return {client: float(self._simulated[client].training_count) for client in clients}

    def _score_all(self, round_number: int, coalitions: Sequence[Coalition], clients: Sequence[str]) -> None:
        models = self._for_each(coalitions, lambda coalition: self._aggregates(coalition, clients))
        pairs = [(coalition, client) for coalition in coalitions for client in clients]
        self._for_each(pairs, lambda pair: self._score(pair, round_number, models[pair[0]][pair[1]]))

    def _score(self, pair: tuple[Coalition, str], round_number: int, model: Tensor) -> None:
        member = self._simulated[pair[1]]
        evaluation = self._work.evaluate(
            member.member,
            round_number,
            model,
            member.validation,
            memory=member.memory,
            task_memory=member.task_memory,
        )
        self._keep(pair, evaluation)

    def _keep(self, pair: tuple[Coalition, str], evaluation: Evaluation) -> Measured:
        self._evaluations[pair] = evaluation
        measured = self._work.measured(self._simulated[pair[1]].member, evaluation)
        self._measured[pair] = measured
        return measured

    def _forget_coalitions(self) -> None:
        """All coalitions get new models; only that of nobody, which started the round, stays."""
        self._evaluations = {pair: one for pair, one in self._evaluations.items() if not pair[0]}
        self._measured = {pair: one for pair, one in self._measured.items() if not pair[0]}

    def _previous(self, member: TaskMember, state: State, number: str) -> Measured:
        if f"{number}/previous_scores" in state:  # of version 0.1.0
            return self._work.measured(member, state[f"{number}/previous_scores"])
        value, *draws = state[f"{number}/previous"].tolist()
        return Measured(value=value, draws=np.array(draws))

    def _for_each(self, items: Iterable[Item], work: Callable[[Item], Result]) -> dict[Item, Result]:
        items = list(items)
        return dict(zip(items, self._pool.map(work, items), strict=True))


def _estimate(own: ClientAccount) -> Estimate:
    return Estimate(value=own.profit, standard_error=standard_error(own.profit_draws))


def _memory(state: State, prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
