"""The records of advice: who gains by federating, and whether the federation should be founded. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

ClientVerdict = Literal["gains", "loses", "unclear", "unmeasurable"]
FederationVerdict = Literal["federate", "do not federate", "undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """How much better models are in the federation than alone, by the metric, with a 95 % interval. Above 0: better."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAdvice:
    """What one client is told."""

    verdict: ClientVerdict
    improvement: Improvement | None  # None: unmeasurable
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What the federation and its clients are told."""

    verdict: FederationVerdict
    improvement: Improvement | None  # the mean over clients, each weighing the same; None: unmeasurable everywhere
    sentence: str
    clients: Mapping[str, ClientAdvice]
