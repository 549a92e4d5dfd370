"""The same federation on Flower's simulation engine, as a careful user of Flower would write it.

Clients train and score with PyTorch's modules and autograd. Each iteration is a round of Flower's FedAvg, in which all
clients evaluate the average. At the end of a data-sharing round, one message takes all remaining coalition models to
each client. In Flower's favour: one actor per core with one torch thread, data kept in each actor between messages and
replications, a model as one array, and no decision at the end of a round.
"""

# Flower's simulation engine is not among the packages that the tests need.
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import tempfile
import time
from functools import cache, lru_cache
from multiprocessing.connection import Connection
from types import TracebackType
from typing import cast

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"  # Ray asks for it, or warns

import numpy as np
import torch
from benchmarks.federation_case import CLIENT_COUNT, Outcome, RoundOutcome, make_case
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import Tensor

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.learning.local_training import make_epochs
from commonweal.learning.models import ARCHITECTURES, Layout, average, to_tensor
from commonweal.learning.plain import PlainLearner
from commonweal.scenario.spec import ModelName, Scenario
from commonweal.seeds import stream, stream_number
from commonweal.valuation import marginal

WEIGHT = "num-examples"  # Flower's own name of it
Pair = tuple[Tensor, Tensor]


# ---- the clients: these run in Ray's actors ----


@lru_cache
def scenario_of(model: ModelName, seed: int) -> Scenario:
    torch.set_num_threads(1)
    return make_case(model, seed)


@lru_cache
def dataset_of(model: ModelName, seed: int) -> FederatedDataset:
    return FederatedDataset.for_scenario(scenario_of(model, seed), None)


@lru_cache
def learner_of(model: ModelName, seed: int) -> PlainLearner:
    dataset = dataset_of(model, seed)
    return PlainLearner(Layout(ARCHITECTURES[model], dataset.image_shape, dataset.class_count))


@cache
def samples_of(model: ModelName, seed: int, client: str, round_number: int) -> tuple[Pair, Pair]:
    """The client's data in the round, for training and for validation."""
    received = [dataset_of(model, seed).samples_for(client, earlier) for earlier in range(1, round_number + 1)]
    training = (
        torch.cat([to_tensor(d.training_images, torch.float32) for d in received]),
        torch.cat([torch.from_numpy(d.training_labels) for d in received]),
    )
    validation = (
        torch.cat([to_tensor(d.validation_images, torch.float32) for d in received]),
        torch.cat([torch.from_numpy(d.validation_labels) for d in received]),
    )
    return training, validation


class Task:
    """What a message asks of a client."""

    def __init__(self, message: Message, context: Context) -> None:
        config = message.content.config_records["config"]
        self.model = cast(ModelName, config["model"])
        self.seed = cast(int, config["seed"])
        self.round_number = cast(int, config["round"])
        self.iteration = cast(int, config.get("server-round", 0))
        self.scenario = scenario_of(self.model, self.seed)
        self.client = self.scenario.client_names[int(context.node_config["partition-id"])]
        self.learner = learner_of(self.model, self.seed)
        self.training, self.validation = samples_of(self.model, self.seed, self.client, self.round_number)
        self.vectors = [
            torch.from_numpy(array) for array in message.content.array_records["arrays"].to_numpy_ndarrays()
        ]
        self.started = time.perf_counter()

    def accuracy(self, vector: Tensor) -> float:
        return float(self.learner.score(vector, *self.validation, self.scenario.learning.score).mean())

    def answer(
        self, message: Message, metrics: dict[str, float | list[float]], vector: Tensor | None = None
    ) -> Message:
        number = self.scenario.client_names.index(self.client)
        busy = time.perf_counter() - self.started
        content = RecordDict({"metrics": MetricRecord({**metrics, "client": number, "busy": busy})})
        if vector is not None:
            content["arrays"] = to_record([vector])
        return Message(content, reply_to=message)


def train(message: Message, context: Context) -> Message:
    task = Task(message, context)
    learning = task.scenario.learning
    order = stream(task.seed, "batches", task.client, task.round_number, task.iteration)
    epochs = make_epochs(len(task.training[1]), learning.batch_size, learning.local_epochs, order)
    vector, _ = task.learner.train(task.vectors[0], *task.training, epochs, learning.learning_rate)
    return task.answer(message, {WEIGHT: len(task.training[1])}, vector)


def evaluate(message: Message, context: Context) -> Message:
    """Score every model of the message."""
    task = Task(message, context)
    accuracies = [task.accuracy(vector) for vector in task.vectors]
    return task.answer(message, {WEIGHT: len(task.validation[1]), "accuracies": accuracies})


def to_record(vectors: list[Tensor]) -> ArrayRecord:
    return ArrayRecord([vector.numpy() for vector in vectors])


client_app = ClientApp()
client_app.train()(train)
client_app.evaluate()(evaluate)


# ---- the server: one replication after another, when the parent process asks for it ----


class Server:
    """Runs one replication over Flower's grid."""

    def __init__(self, grid: Grid, model: ModelName, seed: int) -> None:
        self.grid = grid
        self.scenario = make_case(model, seed)
        self.names = self.scenario.client_names
        self.config: dict[str, str | int] = {"model": model, "seed": seed}
        self.models: dict[str, Tensor] = {}  # of the last iteration, by client
        self.weights: dict[str, float] = {}
        self.accuracies: dict[str, list[float]] = {}
        self.busy_seconds = 0.0
        dataset = dataset_of(model, seed)
        generator = torch.Generator().manual_seed(stream_number(seed, "initial model") % 2**63)
        layout = Layout(ARCHITECTURES[model], dataset.image_shape, dataset.class_count)
        self.shared = layout.initial(generator, torch.float32)
        self.strategy = FedAvg(
            min_available_nodes=CLIENT_COUNT,
            weighted_by_key=WEIGHT,
            train_metrics_aggr_fn=self.keep_models,
            evaluate_metrics_aggr_fn=self.keep_accuracies,
        )

    def replicate(self) -> Outcome:
        return [self.hold(round_number) for round_number in range(1, self.scenario.round_count + 1)]

    def hold(self, round_number: int) -> RoundOutcome:
        config = {**self.config, "round": round_number}
        start = self.shared
        result = self.strategy.start(
            self.grid,
            to_record([start]),
            num_rounds=self.scenario.learning.iteration_limit,
            train_config=ConfigRecord(dict(config)),
            evaluate_config=ConfigRecord(dict(config)),
        )
        self.shared = torch.from_numpy(result.arrays.to_numpy_ndarrays()[0])
        everyone = frozenset(self.names)
        accuracies = {client: found[0] for client, found in self.accuracies.items()}
        smaller = {frozenset[str](): start}
        smaller |= {everyone - {client}: self.aggregate(everyone - {client}) for client in self.names}
        self.score(list(smaller.values()), config)
        values = {
            coalition: float(np.mean([self.accuracies[client][i] for client in self.names]))
            for i, coalition in enumerate(smaller)
        }
        values[everyone] = float(np.mean(list(accuracies.values())))
        return RoundOutcome(accuracies=accuracies, contributions=dict(marginal(self.names, values.__getitem__).values))

    def score(self, models: list[Tensor], config: dict[str, str | int]) -> None:
        content = RecordDict({"arrays": to_record(models), "config": ConfigRecord(dict(config))})
        replies = self.grid.send_and_receive(
            [Message(content, dst_node_id=node, message_type="evaluate") for node in self.grid.get_node_ids()]
        )
        self.keep_accuracies([reply.content for reply in replies], WEIGHT)

    def aggregate(self, coalition: frozenset[str]) -> Tensor:
        clients = [client for client in self.names if client in coalition]
        return average([self.models[client] for client in clients], [self.weights[client] for client in clients])

    def keep_models(self, replies: list[RecordDict], weighted_by: str) -> MetricRecord:
        """Flower shows single replies only where it aggregates the metrics of a training round."""
        for reply in replies:
            client = self.note(reply)
            self.models[client] = torch.from_numpy(reply.array_records["arrays"].to_numpy_ndarrays()[0])
            self.weights[client] = cast(float, reply.metric_records["metrics"][weighted_by])
        return MetricRecord()

    def keep_accuracies(self, replies: list[RecordDict], weighted_by: str) -> MetricRecord:
        self.accuracies = {
            self.note(reply): cast(list[float], reply.metric_records["metrics"]["accuracies"]) for reply in replies
        }
        self.accuracies = {client: self.accuracies[client] for client in self.names}
        return MetricRecord()

    def note(self, reply: RecordDict) -> str:
        self.busy_seconds += cast(float, reply.metric_records["metrics"]["busy"])
        return self.names[cast(int, reply.metric_records["metrics"]["client"])]


def run_engine(connection: Connection, core_count: int) -> None:
    """What the process with the engine does."""
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    directory = tempfile.mkdtemp(prefix="ray-")
    torch.set_num_threads(1)
    server_app = ServerApp()

    def serve(grid: Grid, context: Context) -> None:
        while (asked := connection.recv()) is not None:
            started = time.perf_counter()
            server = Server(grid, *asked)
            outcome = server.replicate()
            connection.send((outcome, time.perf_counter() - started, server.busy_seconds))

    server_app.main()(serve)
    try:
        run_simulation(
            server_app=server_app,
            client_app=client_app,
            num_supernodes=CLIENT_COUNT,
            backend_config={
                "init_args": {
                    "num_cpus": core_count,
                    "log_to_driver": False,
                    "logging_level": logging.CRITICAL,
                    "_temp_dir": directory,
                },
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            },
        )
    finally:
        connection.close()
        shutil.rmtree(directory, ignore_errors=True)


class FlowerEngine:
    """Flower's engine in a separate process that is started once and ends Ray. Use it in a `with` statement."""

    def __init__(self, core_count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=run_engine, args=(other, core_count))
        self._process.start()
        other.close()

    def __enter__(self) -> FlowerEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.is_alive():
            self._connection.send(None)
        self._process.join(60)

    def replicate(self, model: ModelName, seed: int) -> tuple[Outcome, float, float]:
        """The result of a replication, its seconds, and the seconds of work of all its clients together."""
        self._connection.send((model, seed))
        answer: tuple[Outcome, float, float] = self._connection.recv()
        return answer
