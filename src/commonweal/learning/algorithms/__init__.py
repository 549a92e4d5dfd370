"""How federated learning is done: one file for each algorithm; `scenario.algorithms` lists them by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from commonweal.learning.algorithms.protocol import Algorithm, AlgorithmClass, Descent, LocalResult
from commonweal.learning.vectors import VectorLayout
from commonweal.scenario.algorithms import ALGORITHMS

__all__ = ["Algorithm", "Descent", "LocalResult", "make_algorithm"]


def make_algorithm(
    name: str, layout: VectorLayout, *, learning_rate: float, parameters: Mapping[str, Any]
) -> Algorithm:
    """The algorithm of this name, for models of this layout."""
    module, _, of_class = ALGORITHMS[name].implementation.partition(":")
    algorithm = cast(AlgorithmClass, getattr(import_module(module), of_class))
    return algorithm(layout, learning_rate, **parameters)
