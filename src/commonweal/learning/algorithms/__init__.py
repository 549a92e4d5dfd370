"""How federated learning is done: one file for each algorithm; `scenario.algorithms` lists them by name."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from commonweal.learning.algorithms.protocol import Algorithm, AlgorithmClass, Descent, LocalResult
from commonweal.learning.models import Layout
from commonweal.scenario.algorithms import ALGORITHMS
from commonweal.scenario.spec import LearningSpec

__all__ = ["Algorithm", "Descent", "LocalResult", "make_algorithm"]


def make_algorithm(learning: LearningSpec, layout: Layout) -> Algorithm:
    """The algorithm that a scenario asks for."""
    module, _, name = ALGORITHMS[learning.algorithm].implementation.partition(":")
    algorithm = cast(AlgorithmClass, getattr(import_module(module), name))
    return algorithm(layout, learning, **learning.parameters)
