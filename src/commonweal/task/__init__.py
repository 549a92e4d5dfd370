"""Tasks: what a federation learns, written once for every place it runs in.

    from commonweal.task import NewData, Predictions, Trained, load_model, model_of, score_gradient

The last three need PyTorch and are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from commonweal.task.records import NewData, Predictions, Task, TaskContext, TaskMember, TaskPlan, Trained

if TYPE_CHECKING:
    from commonweal.task.torch_module import load_model, model_of, score_gradient

__all__ = [
    "NewData",
    "Predictions",
    "Task",
    "TaskContext",
    "TaskMember",
    "TaskPlan",
    "Trained",
    "load_model",
    "model_of",
    "score_gradient",
]


def __getattr__(name: str) -> Any:
    if name not in ("load_model", "model_of", "score_gradient"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("commonweal.task.torch_module"), name)
