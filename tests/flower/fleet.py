"""What somebody who holds a SuperNode's key could say to a SuperLink."""

from __future__ import annotations

from contextlib import closing

from flwr.proto.fleet_pb2 import DeactivateNodeRequest
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from commonweal.ledger.node_keys import NodeKey


def fleet_client(address, authority, key):
    private = key.private
    return FleetHttpClient.from_server_address(
        address,
        insecure=False,
        root_certificates=authority.read_bytes(),
        interceptors=[
            RuntimeVersionHttpInterceptor(component_name="SuperNode"),
            NodeAuthHttpInterceptor(private, private.public_key()),
        ],
    )


def rehearsed_client(rehearsal, key):
    programs = rehearsal._programs
    return fleet_client(programs.members_address, programs.authority, key)


def restart_killed_node(rehearsal, name):
    """Sign a killed SuperNode off in its own name, so that the SuperLink does not keep it out for a minute."""
    if rehearsal._node_ids[name] in rehearsal._api.online():
        key = NodeKey.read(rehearsal._members[name].private_key)
        with closing(rehearsed_client(rehearsal, key)) as fleet:
            fleet.DeactivateNode(DeactivateNodeRequest(node_id=rehearsal._node_ids[name]))
    rehearsal.start_node(name)
