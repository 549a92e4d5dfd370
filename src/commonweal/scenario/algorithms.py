"""The learning algorithms that a scenario can name: the one list of them.

A new algorithm is a file in `learning/algorithms/` and an entry here. Nothing here imports torch, so scenarios can be
read where it is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from commonweal.errors import ScenarioError
from commonweal.scenario.kinds import Kind, number


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmParameter:
    """A key of [learning] that only some algorithms have."""

    kind: Kind
    default: Any


@dataclass(frozen=True, slots=True)
class AlgorithmEntry:
    """Where an algorithm is implemented, and its own parameters: keyword arguments of its class."""

    implementation: str  # "module:class"
    parameters: Mapping[str, AlgorithmParameter] = field(default_factory=dict)
    remote_refusal: str = ""  # why it cannot be used between machines; empty: it can
    path_refusal: str = ""  # why contributions cannot be measured by path; empty: they can

    def defaults(self) -> dict[str, Any]:
        return {name: parameter.default for name, parameter in self.parameters.items()}


_WEIGHT = number("a number from 0 to 1e6", "0.01", lambda weight: 0 <= weight <= 1e6)
_POSITIVE = number("a number from 1e-6 to 1e6", "1.0", lambda size: 1e-6 <= size <= 1e6)

ALGORITHMS: Mapping[str, AlgorithmEntry] = MappingProxyType(
    {
        "fedavg": AlgorithmEntry("commonweal.learning.algorithms.fedavg:FedAvg"),
        "fedbn": AlgorithmEntry("commonweal.learning.algorithms.fedbn:FedBN"),
        "fedprox": AlgorithmEntry(
            "commonweal.learning.algorithms.fedprox:FedProx",
            {"proximal_weight": AlgorithmParameter(kind=_WEIGHT, default=0.01)},
        ),
        "scaffold": AlgorithmEntry("commonweal.learning.algorithms.scaffold:Scaffold"),
        "fedamp": AlgorithmEntry(
            "commonweal.learning.algorithms.fedamp:FedAMP",
            {
                "alpha": AlgorithmParameter(kind=_POSITIVE, default=1.0),
                "sigma": AlgorithmParameter(kind=_POSITIVE, default=1.0),
                "proximal_weight": AlgorithmParameter(kind=_WEIGHT, default=1.0),
            },
            remote_refusal=(
                "FedAMP gives each member a model of its own, but between machines all members report on one model, "
                "which their signatures name"
            ),
            path_refusal=(
                "FedAMP gives each client a model of its own, so a round has no common path along which "
                'contribution = "path" could measure'
            ),
        ),
    }
)


def complete_parameters(algorithm: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given parameters of an algorithm and the defaults of the others."""
    if algorithm not in ALGORITHMS:
        raise ScenarioError(f"algorithm must be one of {', '.join(ALGORITHMS)}, got {algorithm!r}.")
    defaults = ALGORITHMS[algorithm].defaults()
    unknown = sorted(set(given) - set(defaults))
    if unknown:
        raise ScenarioError(f"The algorithm {algorithm} has no parameter {unknown[0]!r}. Remove it.")
    return {**defaults, **given}


def parameter_kinds() -> dict[str, Kind]:
    """The parameters of all algorithms; a name that two of them use means the same in both."""
    return {name: parameter.kind for entry in ALGORITHMS.values() for name, parameter in entry.parameters.items()}


def users_of(parameter: str) -> tuple[str, ...]:
    """The algorithms that have this parameter."""
    return tuple(name for name, entry in ALGORITHMS.items() if parameter in entry.parameters)
