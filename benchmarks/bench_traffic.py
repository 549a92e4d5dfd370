"""How much traffic does a round cost compared with plain FedAvg on Flower, and how does it grow with the clients?

One round of two iterations with a model of 10,000 floats, through Flower's own messages and serialisation in this
process, so that every byte that would be sent is counted. A model that is sent to N clients counts N times, because
each of them downloads it. Plain FedAvg is Flower's own strategy, with as many iterations, over the same grid.

Both send each local model to the server once per iteration. FedAvg sends the shared model to each client twice, for
training and for evaluation; commonweal sends it once, and then names it by its hash. Contributions come on top. By
coalitions, every client scores models made from the local models of all others. That takes N − 1 more models per client
and round, N (N − 1) in total, for the marginal contribution and for any number of sampled coalitions alike. By path,
every client gets the model half-way along the round and returns a gradient, which is as long: 2 N models in total.
Each report is answered with a receipt, which counts here. After the round, one more message brings each client its
statement.

    python -m benchmarks.bench_traffic
"""

from __future__ import annotations

import logging
import sys
import tempfile
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.promises import Promise, conclude
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from commonweal.federation.session import run_rounds
from commonweal.flower import NewData, Trained, client_app
from commonweal.flower.in_process import InProcessGrid, Node
from commonweal.flower.transport import FlowerTransport
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.receipts import receipt_document
from commonweal.ledger.signed_files import signed_content
from commonweal.remote.coordinator.attempts import NoLedger
from commonweal.remote.coordinator.client_set import RemoteClients
from commonweal.remote.coordinator.federation_file import read_federation
from commonweal.task.records import Task

SIZE = 10_000  # floats of a model
MODEL_BYTES = 4 * SIZE
ITERATIONS = 2
CLIENT_COUNTS = (4, 8, 16, 32)
SAMPLES = 30

INITIAL = {"vector": np.zeros(SIZE, np.float32)}
OPERATOR = SigningKey.new()


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The traffic of one round, of all clients together."""

    messages: int
    down: int  # bytes
    up: int

    @property
    def total(self) -> int:
        return self.down + self.up

    def line(self, name: str, client_count: int) -> str:
        each = client_count * MODEL_BYTES
        return (
            f"{client_count:4d}  {name:32s} {self.messages / client_count:8.1f} {self.down / each:10.2f} "
            f"{self.up / each:8.2f} {self.total / 1e6:11.2f}"
        )


def measured(grid: InProcessGrid) -> Traffic:
    return Traffic(
        messages=len(grid.wire) // 2,
        down=sum(len(sent.content) for sent in grid.wire if sent.to_node),
        up=sum(len(sent.content) for sent in grid.wire if not sent.to_node),
    )


def load(round_number: int, member: Any) -> NewData:
    return NewData(training=(np.arange(SAMPLES),), validation=(np.arange(SAMPLES, 2 * SAMPLES),))


def train(model: dict[str, Any], training: Any, context: Any) -> Trained:
    noise = context.rng.standard_normal(SIZE).astype(np.float32)
    return Trained(model={"vector": model["vector"] + noise}, step_count=1)


def evaluate(model: dict[str, Any], validation: Any, context: Any) -> Any:
    """Some samples are right, different ones for different models."""
    threshold = np.arange(SAMPLES) / SAMPLES
    return (np.abs(model["vector"][:SAMPLES]) > threshold).astype(float)


def gradient(model: dict[str, Any], validation: Any, context: Any) -> dict[str, Any]:
    """Of no score in particular: what counts is its size."""
    return {"vector": np.exp(-np.abs(model["vector"]))}


class Receipts(NoLedger):
    """No ledger, and an operator that signs receipts."""

    def receipt(self, round_number: int, client: str, signature: str) -> bytes:
        document = receipt_document(
            ledger="0" * 64, round_number=round_number, client=client, signature=signature, at="2026-01-01T00:00:00Z"
        )
        return signed_content(document, OPERATOR)


def of_commonweal(client_count: int, mechanism: str) -> Traffic:
    app = client_app(Task(load=load, train=train, evaluate=evaluate, gradient=gradient))
    with tempfile.TemporaryDirectory() as folder:
        nodes = {}
        lines = [
            f'name = "traffic"\nrounds = 1\n[mechanism]\nmu = "inf"\n{mechanism}\n'
            f"[learning]\niteration_limit = {ITERATIONS}\nstop_below = 0.0\n"
        ]
        for number in range(client_count):
            own = Path(folder) / f"c{number}"
            own.mkdir()
            NodeKey.new().write(own / "node-key")
            (own / "member.toml").write_text(f'name = "c{number}"\nkey_file = "node-key"\nhome = "home"\n')
            lines.append(f'[[clients]]\nname = "c{number}"\nkey_file = "c{number}/node-key.pub"\n')
            nodes[number + 10] = Node(
                name=f"c{number}",
                public_key=(own / "node-key.pub").read_bytes(),
                node_config={"member": str(own / "member.toml")},
                app=app,
            )
        file = Path(folder) / "federation.toml"
        file.write_text("".join(lines))
        federation = read_federation(file)
        grid = InProcessGrid(nodes)
        transport = FlowerTransport(grid, federation.keys)
        clients = RemoteClients(transport, federation, "0" * 64, settled_in=Receipts())
        clients.start(lambda plan: INITIAL, None)
        with redirect_stdout(StringIO()):  # members print what they do
            (result,) = run_rounds(clients, federation)
        assert not result.record.absent
        return measured(grid)


def of_fedavg(client_count: int) -> Traffic:
    app = ClientApp()

    @app.train()
    def train_plainly(message: Message, context: Context) -> Message:
        (vector,) = message.content.array_records["arrays"].to_numpy_ndarrays()
        noise = np.random.default_rng(context.node_id).standard_normal(SIZE).astype(np.float32)
        arrays = ArrayRecord([vector + noise])
        return Message(
            RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": SAMPLES})}), reply_to=message
        )

    @app.evaluate()
    def evaluate_plainly(message: Message, context: Context) -> Message:
        metrics = MetricRecord({"num-examples": SAMPLES, "accuracy": 0.5})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    grid = InProcessGrid(
        {
            number + 10: Node(name=f"c{number}", public_key=b"", node_config={}, app=app)
            for number in range(client_count)
        }
    )
    strategy = FedAvg(min_train_nodes=client_count, min_evaluate_nodes=client_count, min_available_nodes=client_count)
    strategy.start(grid, ArrayRecord([INITIAL["vector"]]), num_rounds=ITERATIONS, train_config=ConfigRecord())
    return measured(grid)


def main() -> int:
    logging.getLogger("flwr").setLevel(logging.WARNING)
    title = f"one round of {ITERATIONS} iterations"
    print(f"messages and models of {MODEL_BYTES / 1000:g} kB per client, and megabytes in total")
    print(f"{'N':>4s}  {title:32s} {'messages':>8s} {'down':>10s} {'up':>8s} {'MB in total':>11s}")
    promises: list[Promise] = []
    for count in CLIENT_COUNTS:
        fedavg = of_fedavg(count)
        quantity = of_commonweal(count, 'contribution = "quantity"')
        marginal = of_commonweal(count, 'contribution = "marginal"')
        limit = 4 * count
        sampled = of_commonweal(count, f'contribution = "adaptive"\nevaluation_limit = {limit}')
        path = of_commonweal(count, 'contribution = "path"\nscorers = "guarded"')
        rows = {
            "plain FedAvg": fedavg,
            "quantity (no coalition models)": quantity,
            f"marginal ({count + 1} coalitions)": marginal,
            f"sampled Shapley ({limit} coalitions)": sampled,
            "path (a gradient per client)": path,
        }
        for name, traffic in rows.items():
            print(traffic.line(name, count))
        needed = count * (count - 1) * MODEL_BYTES
        promises += [
            Promise(
                text=f"learning, bytes, of plain FedAvg's ({count} clients)",
                found=quantity.total / fedavg.total,
                less_than=1.0,
            ),
            Promise(
                text=f"marginal beyond learning, of N (N − 1) models ({count} clients)",
                found=(marginal.total - quantity.total) / needed,
                less_than=1.1,
            ),
            Promise(
                text=f"sampled Shapley beyond learning, of N (N − 1) models ({count} clients)",
                found=(sampled.total - quantity.total) / needed,
                less_than=1.2,
            ),
            Promise(
                text=f"path beyond learning, in models per client ({count} clients)",
                found=(path.total - quantity.total) / (count * MODEL_BYTES),
                less_than=2.4,
            ),
        ]
    return conclude(promises)


if __name__ == "__main__":
    sys.exit(main())
