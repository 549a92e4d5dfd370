"""The algorithms by name."""

from __future__ import annotations

from commonweal.learning.algorithms.fedavg import FedAvg
from commonweal.learning.algorithms.fedbn import FedBN
from commonweal.learning.algorithms.fedprox import FedProx
from commonweal.learning.algorithms.protocol import Algorithm, Descent, LocalResult
from commonweal.learning.algorithms.scaffold import Scaffold
from commonweal.learning.models import Layout
from commonweal.scenario.spec import LearningSpec

__all__ = ["Algorithm", "Descent", "LocalResult", "make_algorithm"]


def make_algorithm(learning: LearningSpec, layout: Layout) -> Algorithm:
    """The algorithm that a scenario asks for."""
    match learning.algorithm:
        case "fedavg":
            return FedAvg()
        case "fedbn":
            return FedBN(layout)
        case "fedprox":
            return FedProx(layout, learning.proximal_weight)
        case "scaffold":
            return Scaffold(layout, learning.learning_rate)
