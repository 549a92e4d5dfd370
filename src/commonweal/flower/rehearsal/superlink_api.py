"""What a rehearsal asks of its SuperLink, through the client that Flower's own commands use.

The commands would do the same, but each takes seconds to start. `tests/flower/test_private_flwr.py` lists the
private parts of Flower that are used.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.proto.control_pb2 import ListNodesRequest, ListRunsRequest, RegisterNodeRequest, StopRunRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from commonweal.ledger.node_keys import NodeKey


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """A run as the SuperLink knows it. A failed run is "finished" too: only the outcome "completed" is success."""

    status: str  # pending, starting, running, finished
    outcome: str  # completed, failed, stopped; empty until it is finished
    details: str


class SuperLinkApi:
    """The Control API of a SuperLink without accounts."""

    def __init__(self, address: str, authority: Path) -> None:
        self._control = ControlHttpClient.from_server_address(
            address,
            insecure=False,
            root_certificates=authority.read_bytes(),
            interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
        )

    def register(self, name: str, private_key: Path) -> int:
        """Admit the SuperNode that holds this key; returns its node id."""
        key = NodeKey.read(private_key).private.public_key()
        public = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return self._control.RegisterNode(RegisterNodeRequest(public_key=public, name=name)).node_id

    def online(self) -> set[int]:
        """The ids of the connected SuperNodes."""
        nodes = self._control.ListNodes(ListNodesRequest()).nodes_info
        return {node.node_id for node in nodes if node.status == "online"}

    def run_state(self, run_id: int) -> RunState:
        run = self._control.ListRuns(ListRunsRequest(run_id=run_id)).run_dict[run_id]
        return RunState(status=run.status.status, outcome=run.status.sub_status, details=run.status.details)

    def stop_run(self, run_id: int) -> None:
        self._control.StopRun(StopRunRequest(run_id=run_id))

    def close(self) -> None:
        self._control.close()


def wait_until(is_so: Callable[[], bool], seconds: float, step: float = 0.1) -> bool:
    """Wait until a condition holds; returns whether it did in time."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(step)
    return True
