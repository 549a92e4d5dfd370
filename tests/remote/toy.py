"""A small federation in this process with real keys and a real ledger; its model of two numbers learns in no time.

A client's samples lie near a line with a slope of its own; a sample counts as right if the model misses it by less than
a quarter. So clients differ in what they can contribute, and everything is exact and quick.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from commonweal.federation import session
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.remote.coordinator.coordinate import coordinate
from commonweal.remote.coordinator.federation_file import read_federation
from commonweal.seeds import stream
from commonweal.task.records import NewData, Task, Trained
from tests.remote.memory_transport import MemoryMember, MemoryTransport

NAMES = ("north", "south", "east", "west")
PRIVATE = {  # unit value, cost per sample, cost per step, cost per round: figures that nothing else would give
    "north": (1.0, 0.00031415926, 0.0, 0.0),
    "south": (0.8765432109, 0.00027182818, 0.00011235813, 0.0),
    "east": (1.2345678901, 0.00016180339, 0.0, 0.00057721566),
    "west": (0.9753102468, 0.00070710678, 0.0, 0.0),
}


def load(round_number, member):
    rng = stream(1, "toy", member.name, round_number)
    slope = 1.0 + 0.2 * NAMES.index(member.name)
    x = rng.uniform(-1, 1, 40)
    y = slope * x + 0.3 + rng.normal(0, 0.2, 40)
    return NewData(training=(x[:28], y[:28]), validation=(x[28:], y[28:]))


def train(model, training, context):
    x, y = training
    weights = model["w"].copy()
    for _ in range(3):
        missed = weights[0] * x + weights[1] - y
        weights -= 0.2 * np.array([(missed * x).mean(), missed.mean()])
    context.memory["seen"] = np.array([context.round_number, context.iteration])
    return Trained(model={"w": weights}, step_count=3, loss=float((missed**2).mean()))


def evaluate(model, validation, context):
    x, y = validation
    return (np.abs(model["w"][0] * x + model["w"][1] - y) < 0.25).astype(float)


def gradient(model, validation, context):
    """Of the mean of exp(−(miss / 0.25)² / 2)."""
    x, y = validation
    missed = model["w"][0] * x + model["w"][1] - y
    slopes = -missed / 0.0625 * np.exp(-(missed**2) / 0.125)
    return {"w": np.array([(slopes * x).mean(), slopes.mean()])}


TASK = Task(load=load, train=train, evaluate=evaluate, gradient=gradient)
INITIAL = {"w": np.zeros(2)}


@dataclass
class Toy:
    """The files of a federation below a folder, and its members on a MemoryTransport."""

    folder: Path
    names: tuple[str, ...]
    transport: MemoryTransport

    @property
    def out(self):
        return self.folder / "out"

    def member(self, name):
        return self.transport.members[name]

    def home(self, name):
        return self.folder / "members" / name / "home"

    def coordinate(self, initial=INITIAL, **options):
        return coordinate_toy(self.transport, self.folder, initial, **options)


def coordinate_toy(transport, folder, initial=INITIAL, write=lambda run_report, directory: None):
    """Run the rounds that are left; returns the run report and what was said.

    `write` replaces the pages and plots of the results, which take longer than all rounds.
    """
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "write_all", write)
        run_report = coordinate(
            transport,
            read_federation(folder / "federation.toml"),
            initial,
            directory=folder / "out",
            keys=KeyDirectory(folder / "operator-keys"),
            say=said.append,
        )
    return run_report, said


def settled(out):
    """What the ledger in a results folder says of each round, without signatures: their keys are new each time."""
    store = open_store(str(out / "ledger.db"))
    try:
        assert not verify_ledger(store, recompute).findings
        with store.reading() as reading:
            documents = [json.loads(entry.content) for entry in reading.entries()]
    finally:
        store.close()
    rounds = {document["body"]["round"]: document for document in documents if document["kind"] == "round"}
    return {
        number: {
            "inputs": {row["client"]: [row["profit"], row["contribution"]] for row in document["body"]["inputs"]},
            "decision": document["body"]["decision"],
            "absent": document["body"]["absent"],
            "postings": document["postings"],
        }
        for number, document in rounds.items()
    }


def make_toy(folder, **options):
    return open_toy(folder, write_toy(folder, **options))


def write_toy(
    folder, *, names=NAMES, rounds=3, mechanism="mu = 0.01", learning="iteration_limit = 2", client_lines=None, seed=1
):
    """The operator's and the members' files; returns the members' names."""
    folder.mkdir(parents=True, exist_ok=True)
    clients = []
    for name in names:
        own = folder / "members" / name
        own.mkdir(parents=True)
        NodeKey.new().write(own / "node-key")
        value, per_sample, per_step, per_round = PRIVATE[name]
        (own / "member.toml").write_text(
            f'name = "{name}"\nkey_file = "node-key"\nhome = "home"\nunit_value = {value}\n'
            f"cost_per_sample = {per_sample}\ncost_per_step = {per_step}\ncost_per_round = {per_round}\n"
        )
        extra = (client_lines or {}).get(name, "")
        clients.append(f'[[clients]]\nname = "{name}"\nkey_file = "members/{name}/node-key.pub"\n{extra}\n')
    (folder / "federation.toml").write_text(
        f'name = "toy"\nrounds = {rounds}\nseed = {seed}\n\n[mechanism]\n{mechanism}\n\n[learning]\n{learning}\n\n'
        "[waiting]\nanswer_seconds = 5\njoin_seconds = 1\n\n" + "\n".join(clients)
    )
    return tuple(names)


def open_toy(folder, names=NAMES):
    """The federation whose files are in the folder."""
    members = {name: MemoryMember(file=folder / "members" / name / "member.toml", task=TASK) for name in names}
    return Toy(folder=folder, names=tuple(names), transport=MemoryTransport(members))
