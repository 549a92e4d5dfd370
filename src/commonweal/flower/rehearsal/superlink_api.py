"""What a rehearsal asks of its SuperLink: Flower's own clients, without the seconds that its commands take to start."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flwr.proto.control_pb2 import ListNodesRequest, ListRunsRequest, RegisterNodeRequest, StopRunRequest
from flwr.proto.fleet_pb2 import DeactivateNodeRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from commonweal.ledger.node_keys import NodeKey


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """A run as the SuperLink knows it: "finished" is not enough, what matters is "completed"."""

    status: str  # pending, starting, running, finished
    outcome: str  # completed, failed, stopped; empty until it is finished
    details: str


class SuperLinkApi:
    """The Control API of a SuperLink without accounts, which is what Flower's commands talk to."""

    def __init__(self, address: str, authority: Path) -> None:
        self._address = address
        self._authority = authority.read_bytes()
        self._control = ControlHttpClient.from_server_address(
            address,
            insecure=False,
            root_certificates=self._authority,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
        )

    def register(self, name: str, private_key: Path) -> int:
        """Admit the SuperNode that holds this key; returns its node id."""
        public = public_key_to_bytes(NodeKey.read(private_key).private.public_key())
        return self._control.RegisterNode(RegisterNodeRequest(public_key=public, name=name)).node_id

    def online(self) -> set[int]:
        """The ids of the SuperNodes that are there."""
        nodes = self._control.ListNodes(ListNodesRequest()).nodes_info
        return {node.node_id for node in nodes if node.status == "online"}

    def deactivate(self, node_id: int, private_key: Path) -> None:
        """Say in a SuperNode's name that it is gone: one that was killed could not, and would be kept out for a minute.

        Only the holder of its key can say so.
        """
        key = NodeKey.read(private_key).private
        fleet = FleetHttpClient.from_server_address(
            self._address,
            insecure=False,
            root_certificates=self._authority,
            interceptors=[
                RuntimeVersionHttpInterceptor(component_name="SuperNode"),
                NodeAuthHttpInterceptor(key, key.public_key()),
            ],
        )
        try:
            fleet.DeactivateNode(DeactivateNodeRequest(node_id=node_id))
        finally:
            fleet.close()

    def run_state(self, run_id: int) -> RunState:
        run = self._control.ListRuns(ListRunsRequest(run_id=run_id)).run_dict[run_id]
        return RunState(status=run.status.status, outcome=run.status.sub_status, details=run.status.details)

    def stop_run(self, run_id: int) -> None:
        self._control.StopRun(StopRunRequest(run_id=run_id))

    def close(self) -> None:
        self._control.close()


def wait_until(is_so: Callable[[], bool], seconds: float, step: float = 0.1) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(step)
    return True
