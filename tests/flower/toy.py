"""The toy federation on Flower's in-process grid: real apps, and what would travel is kept byte by byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flwr.app import Message as FlowerMessage

from commonweal.flower import client_app
from commonweal.flower.in_process import InProcessGrid, Node
from commonweal.flower.transport import FlowerTransport
from commonweal.remote.coordinator.federation_file import read_federation
from tests.remote.toy import NAMES, TASK, coordinate_toy, write_toy

APP = client_app(TASK)


@dataclass(kw_only=True)
class TwistedNode(Node):
    twist: Callable[[FlowerMessage, FlowerMessage], FlowerMessage] | None = None  # (question, answer) → another answer


@dataclass
class TwistedGrid(InProcessGrid):
    """The in-process grid with members that may lie."""

    def answer_of(self, node, question, context):
        answer = super().answer_of(node, question, context)
        return answer if node.twist is None else node.twist(question, answer)


@dataclass
class FlowerToy:
    """The files of a federation below a folder, and its members as nodes of a grid."""

    folder: Path
    grid: TwistedGrid

    @property
    def out(self):
        return self.folder / "out"

    def node(self, name):
        return next(node for node in self.grid.nodes.values() if node.name == name)

    def home(self, name):
        return self.folder / "members" / name / "home"

    def coordinate(self, **options):
        keys = read_federation(self.folder / "federation.toml").keys
        return coordinate_toy(FlowerTransport(self.grid, keys), self.folder, **options)


def make_flower_toy(folder, **options):
    names = write_toy(folder, **{"names": NAMES, **options})
    nodes = {
        number: TwistedNode(
            name=name,
            public_key=(folder / "members" / name / "node-key.pub").read_bytes(),
            node_config={"member": str(folder / "members" / name / "member.toml")},
            app=APP,
        )
        for number, name in enumerate(names, 100)
    }
    return FlowerToy(folder=folder, grid=TwistedGrid(nodes))
