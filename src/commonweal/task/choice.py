"""The metric that a scenario or federation names: one of the registry, or a function of the task's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from commonweal.errors import ScenarioError
from commonweal.task.metrics import METRICS, Metric, OwnFunction, own_metric


def declared_metric(name: str, *, lower_is_better: bool = False) -> Metric:
    """What is known of a metric without the task: everything if it is built in, otherwise its name and direction."""
    if name in METRICS:
        return METRICS[name]
    return Metric(
        name=name,
        label=name.replace("_", " "),
        kind="any",
        compute=_not_here,
        higher_is_better=not lower_is_better,
        lowest=float("-inf"),
        highest=float("inf"),
    )


def chosen_metric(name: str, own: Mapping[str, OwnFunction], *, lower_is_better: bool = False) -> Metric:
    """The metric to compute; `own` are the functions of the task."""
    if name in METRICS:
        return METRICS[name]
    if name not in own:
        raise ScenarioError(
            f"metric must be one of {', '.join(METRICS)}, or the name of a function of the task's file, got {name!r}."
        )
    return replace(own_metric(name, own[name]), higher_is_better=not lower_is_better)


def _not_here(*arguments: Any) -> NoReturn:
    raise AssertionError("a metric of the task's own is computed where the task is")
