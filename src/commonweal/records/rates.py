"""What a consortium agrees that a gain and a sample are worth for the purpose of sharing. All frozen.

With agreed rates, profits are computed from what was measured, by everybody alike. What a gain is really worth to a
member, and what its samples really cost, is not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

ProfitsRule = Literal["private", "rates"]

CLASSES, MEMBERS = "classes", "members"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """In units of utility."""

    gain: float  # what a gain of 1 in the metric is worth
    sample: float = 0.0  # what a sample costs that is new in a round
    round: float = 0.0  # what taking part in a round costs

    @property
    def in_words(self) -> str:
        """ "1 per unit of gain − 0.0002 per new sample"."""
        costs = {"new sample": self.sample, "round": self.round}
        return f"{self.gain:g} per unit of gain" + "".join(f" − {c:g} per {what}" for what, c in costs.items() if c)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedRates:
    """One set of rates for all members, or one for each class of members."""

    common: Rates | None = None  # None: they differ by class
    by_class: Mapping[str, Rates] = field(default_factory=dict, hash=False)
    classes: Mapping[str, str] = field(default_factory=dict, hash=False)  # the class of each member

    def of(self, client: str) -> Rates | None:
        """The client's rates; None if nothing was agreed on for it."""
        return self.by_class.get(self.classes.get(client, "")) if self.common is None else self.common

    def to_document(self) -> dict[str, Any]:
        """The rates in the types of JSON, as terms state them."""
        if self.common is not None:
            return asdict(self.common)
        return {
            CLASSES: {name: asdict(rates) for name, rates in self.by_class.items()},
            MEMBERS: dict(self.classes),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> AgreedRates:
        """The rates that `to_document` wrote; Python's own errors if something is missing or unknown."""
        if CLASSES not in document:
            return cls(common=Rates(**document))
        given = dict(document)
        by_class = {str(name): Rates(**rates) for name, rates in given.pop(CLASSES).items()}
        classes = {str(client): str(name) for client, name in given.pop(MEMBERS).items()}
        if given:
            raise ValueError(f"unknown fields {', '.join(given)}")
        return cls(by_class=by_class, classes=classes)

    @property
    def in_words(self) -> str:
        """For readers."""
        if self.common is not None:
            return self.common.in_words
        return "; ".join(f"{name}: {rates.in_words}" for name, rates in self.by_class.items())
