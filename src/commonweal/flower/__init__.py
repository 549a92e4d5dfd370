"""Federations on Flower: https://flower.ai. The user provides a model and three functions.

Names are imported on first use: a new process handles each message at a member, and must not spend time on imports that
only the coordinator needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from commonweal.flower.coordinator_app import server_app
    from commonweal.flower.member_app import client_app
    from commonweal.remote.coordinator.federation_file import Federation
    from commonweal.remote.member.member_file import Member
    from commonweal.task.records import NewData, Predictions, TaskContext, Trained
    from commonweal.task.torch_module import load_model, model_of

__all__ = [
    "Federation",
    "Member",
    "NewData",
    "Predictions",
    "TaskContext",
    "Trained",
    "client_app",
    "load_model",
    "model_of",
    "server_app",
]

_MODULES = {
    "client_app": "commonweal.flower.member_app",
    "server_app": "commonweal.flower.coordinator_app",
    "Federation": "commonweal.remote.coordinator.federation_file",
    "Member": "commonweal.remote.member.member_file",
    "NewData": "commonweal.task.records",
    "Predictions": "commonweal.task.records",
    "TaskContext": "commonweal.task.records",
    "Trained": "commonweal.task.records",
    "load_model": "commonweal.task.torch_module",
    "model_of": "commonweal.task.torch_module",
}
_FORMER_NAMES = {"WorkContext": "TaskContext"}  # in federations made with version 0.1


def __getattr__(name: str) -> Any:
    current = _FORMER_NAMES.get(name, name)
    if current not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[current]), current)
