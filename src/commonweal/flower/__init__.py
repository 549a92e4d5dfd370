"""A real federation on Flower: https://flower.ai. A user brings three functions; the incentive layer is here.

Names are looked up when they are asked for: a member's process, started anew for every message, shall not wait for
what only the coordinator needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from commonweal.flower.coordinator_app import server_app
    from commonweal.flower.member_app import client_app
    from commonweal.remote.coordinator.federation_file import Federation
    from commonweal.remote.member.member_file import Member
    from commonweal.remote.member.work import NewData, Trained, WorkContext

__all__ = ["Federation", "Member", "NewData", "Trained", "WorkContext", "client_app", "server_app"]

_HOMES = {
    "client_app": "commonweal.flower.member_app",
    "server_app": "commonweal.flower.coordinator_app",
    "Federation": "commonweal.remote.coordinator.federation_file",
    "Member": "commonweal.remote.member.member_file",
    "NewData": "commonweal.remote.member.work",
    "Trained": "commonweal.remote.member.work",
    "WorkContext": "commonweal.remote.member.work",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
