"""The in-process set of clients: data and learning behind the session's protocol, on all cores of this machine.

Clients and coalition models are processed in parallel threads, each with one torch thread. Results do not depend on the
number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from types import TracebackType
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.federation.client_set import Coalition, Opening, ProfitReport, Scores, State, Training
from commonweal.learning.algorithms import LocalResult, make_algorithm
from commonweal.learning.fast import FastLearner
from commonweal.learning.local_training import LocalTraining
from commonweal.learning.models import ARCHITECTURES, Layout, average, initial_model
from commonweal.records import Event, RoundRecord
from commonweal.scenario.spec import Scenario
from commonweal.simulation.simulated_client import SimulatedClient

Task = TypeVar("Task")
Result = TypeVar("Result")


class InProcessClients:
    """All clients of a scenario in this process. Use it in a `with` statement: it owns threads."""

    def __init__(
        self,
        scenario: Scenario,
        dataset: FederatedDataset,
        *,
        worker_count: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        layout = Layout(ARCHITECTURES[scenario.learning.model], dataset.image_shape, dataset.class_count)
        self._scenario = scenario
        self._dataset = dataset
        self._learner = FastLearner(layout)
        self._algorithm = make_algorithm(scenario.learning, layout)
        self._training = LocalTraining(
            learning=scenario.learning,
            layout=layout,
            algorithm=self._algorithm,
            learner=self._learner,
            seed=scenario.seed,
        )
        self._shared = initial_model(layout, scenario.seed, dtype)
        self._simulated = {
            spec.name: SimulatedClient.start(
                spec, self._algorithm.first_memory(self._shared), dataset.image_shape, dtype
            )
            for spec in scenario.clients
        }
        self._local: dict[str, LocalResult] = {}  # of the last iteration
        self._scores: dict[tuple[Coalition, str], Scores] = {}  # of the last iteration's coalition models
        self._adopted: Coalition = frozenset()
        torch.set_num_threads(1)
        self._worker_count = worker_count or os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self._worker_count, initializer=torch.set_num_threads, initargs=(1,))

    def __enter__(self) -> InProcessClients:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def open_round(self, round_number: int, clients: Sequence[str]) -> Mapping[str, Opening]:
        self._local = {}
        openings = self._for_each(clients, lambda client: self._open(client, round_number))
        self._scores = {(frozenset(), client): opening.scores for client, opening in openings.items()}
        return openings

    def train(self, round_number: int, iteration: int, clients: Sequence[str]) -> Mapping[str, Training]:
        self._scores = {(coalition, client): s for (coalition, client), s in self._scores.items() if not coalition}
        memories = [member.memory for member in self._simulated.values()]
        served = self._algorithm.serve(memories, self._sizes(self._simulated))
        trained = self._for_each(clients, lambda client: self._train(client, round_number, iteration, served))
        self._local = {client: result for client, (result, _) in trained.items()}
        for client, (result, training) in trained.items():
            self._simulated[client].memory = result.memory
            self._simulated[client].step_count += training.step_count or 0
        return {client: training for client, (_, training) in trained.items()}

    def evaluate(
        self, round_number: int, coalitions: Sequence[Coalition], clients: Sequence[str]
    ) -> Mapping[str, Mapping[Coalition, Scores]]:
        missing = [c for c in coalitions if any((c, client) not in self._scores for client in clients)]
        for first in range(0, len(missing), self._worker_count):  # to keep only this many models in memory at a time
            some = missing[first : first + self._worker_count]
            models = self._for_each(some, self._aggregate)
            tasks = [(coalition, client) for coalition in some for client in clients]
            self._scores |= self._score_all(tasks, models)
        return {client: {coalition: self._scores[coalition, client] for coalition in coalitions} for client in clients}

    def adopt(self, coalition: Coalition) -> None:
        self._shared = self._aggregate(coalition)
        self._adopted = coalition

    def report(self, round_number: int, clients: Sequence[str]) -> Mapping[str, ProfitReport]:
        scores = self.evaluate(round_number, [self._adopted], clients)
        return {
            client: self._simulated[client].report(scores[client][self._adopted], self._scenario.seed)
            for client in clients
        }

    def close_round(self, record: RoundRecord) -> tuple[Event, ...]:
        for client, member in self._simulated.items():
            if client in record.decision.figures.profits:
                member.previous_scores = member.known_scores = self._scores[self._adopted, client]
            else:
                member.known_scores = np.empty(0)  # absent: it has not seen the round's model
        for client in record.left:
            del self._simulated[client]
        return ()

    def tell(self, record: RoundRecord, statement_of: Callable[[str], bytes]) -> None:
        """Simulated clients keep no statements."""

    def save(self) -> State:
        state = {"shared": self._shared.numpy()}
        for number, (client, member) in enumerate(self._simulated.items()):
            assert member.previous_scores is not None, "saved after a round"
            state[f"{number}/name"] = np.frombuffer(client.encode(), np.uint8)
            state[f"{number}/memory"] = member.memory.numpy()
            state[f"{number}/previous_scores"] = member.previous_scores
            state[f"{number}/known_scores"] = member.known_scores
        return state

    def restore(self, round_number: int, state: State) -> None:
        self._shared = torch.from_numpy(state["shared"])
        numbers = [name.removesuffix("/name") for name in state if name.endswith("/name")]
        members = {state[f"{number}/name"].tobytes().decode(): number for number in numbers}
        self._simulated = {client: member for client, member in self._simulated.items() if client in members}
        for client, number in members.items():
            member = self._simulated[client]
            member.memory = torch.from_numpy(state[f"{number}/memory"])
            member.previous_scores = state[f"{number}/previous_scores"]
            member.known_scores = state[f"{number}/known_scores"]
            for earlier in range(1, round_number + 1):
                member.receive(self._dataset.samples_for(client, earlier))

    def fork(self) -> InProcessClients:
        """A copy from which another continuation of the same rounds can start.

        Both continue independently; they share threads and data, which are closed with the original.
        """
        twin = copy(self)
        twin._simulated = {client: replace(state) for client, state in self._simulated.items()}
        return twin

    def _open(self, client: str, round_number: int) -> Opening:
        member = self._simulated[client]
        samples = self._dataset.samples_for(client, round_number)
        member.receive(samples)
        # Earlier samples were scored with this same model when the last round ended.
        known = len(member.known_scores)
        fresh = self._score(client, self._shared, first=known)
        scores = np.concatenate([member.known_scores, fresh])
        if member.previous_scores is None:
            member.previous_scores = scores  # ε(n,0): the untrained model on the first validation set
        return Opening(
            sample_count=samples.declared_count,
            training_count=len(member.training_labels),
            validation_count=len(member.validation_labels),
            scores=scores,
            events=(_dry(client, samples.fresh_count),) if samples.is_dry else (),
        )

    def _train(self, client: str, round_number: int, iteration: int, served: Tensor) -> tuple[LocalResult, Training]:
        member = self._simulated[client]
        result, step_count, loss = self._training.run(
            client,
            round_number,
            iteration,
            shared=self._shared,
            served=served,
            memory=member.memory,
            images=member.training_images,
            labels=member.training_labels,
            defect=member.spec.defect,
        )
        return result, Training(step_count=step_count, loss=loss)

    def _aggregate(self, coalition: Coalition) -> Tensor:
        """The average of the coalition's local models, weighted by training samples."""
        assert coalition, "the model that starts a round is scored when the round opens"
        clients = self._in_order(coalition)
        return average([self._local[client].model for client in clients], self._sizes(clients))

    def _sizes(self, clients: Iterable[str]) -> list[float]:
        return [float(len(self._simulated[client].training_labels)) for client in clients]

    def _score_all(
        self, tasks: Sequence[tuple[Coalition, str]], models: Mapping[Coalition, Tensor]
    ) -> dict[tuple[Coalition, str], Scores]:
        return self._for_each(tasks, lambda task: self._score(task[1], models[task[0]]))

    def _score(self, client: str, model: Tensor, first: int = 0) -> Scores:
        member = self._simulated[client]
        images, labels = member.validation_images[first:], member.validation_labels[first:]
        if not len(labels):
            return np.empty(0)
        personal = self._algorithm.personal(model, member.memory)
        return self._learner.score(personal, images, labels, self._scenario.learning.score).numpy()

    def _in_order(self, coalition: Coalition) -> list[str]:
        return [client for client in self._simulated if client in coalition]

    def _for_each(self, tasks: Iterable[Task], work: Callable[[Task], Result]) -> dict[Task, Result]:
        tasks = list(tasks)
        return dict(zip(tasks, self._pool.map(work, tasks), strict=True))


def _dry(client: str, fresh_count: int) -> Event:
    return Event(
        kind="pool-dry",
        client=client,
        text=f"The pool of {client} ran dry: only {fresh_count} samples arrived.",
    )
