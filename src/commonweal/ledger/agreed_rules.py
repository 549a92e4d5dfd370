"""The rules that a consortium agreed on before its first round. They are part of a ledger's terms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

from commonweal.errors import InputError
from commonweal.ledger.canonical import Document
from commonweal.ledger.money import LARGEST_AMOUNT
from commonweal.names import look_alike_of
from commonweal.records import AgreedRates, ContributionRule, EndingRule, FiguresRule, HarmRule, LossRule, Rules
from commonweal.scenario.spec import ContributionScore, UtilityRule
from commonweal.task.metrics import METRICS
from commonweal.valuation.registry import MEASURES
from commonweal.valuation.scorers import ScorersRule

SETTLEMENT_VERSION = 2
"""How rounds become money. 1: clients in any order; of equal remainders, the first get the odd units.
2: clients in the order of admission; of equal remainders, those whose turn it is."""

MEASURED_BY = ("figures", "measure", "contribution_score", "scorers", "evaluation_limit", "utility", "metric")
"""How figures were measured: the fields that every round states, because nothing else in it shows them."""

_NAMES = ("rules_version", "measure", "contribution_score", "scorers", "utility", "metric")
_KNOWN = {
    "measure": tuple(MEASURES),
    "contribution_score": get_args(ContributionScore),
    "scorers": get_args(ScorersRule),
    "utility": get_args(UtilityRule),
}
"""Words that checks depend on: another one, which may only look the same, would switch them off."""
_COUNTS = ("round_count", "evaluation_limit", "silence_limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedRules:
    """How rounds are measured, decided and settled, and how these rules change.

    A field that a later version adds must be left out of documents while it has its default, since members sign the
    hash of the terms.
    """

    rules: Rules  # mechanism, its parameters, mu, contribution rule, loss rule, liability cap
    rules_version: str  # of the mechanism, as rounds name it
    round_count: int | None = None  # None: any number
    grace_rounds: int = 0
    figures: FiguresRule = "measured"
    measure: str | None = None  # of contributions; None, as for the next five: the figures come from elsewhere
    contribution_score: str | None = None
    scorers: str | None = None
    evaluation_limit: int | None = None
    utility: str | None = None
    metric: str | None = None
    harm: HarmRule = "none"
    ending: EndingRule = "none"
    profit_bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)  # by client
    most_samples: Mapping[str, int] = field(default_factory=dict, hash=False)  # new ones per round, by client
    quorum: float | None = None  # the share of the active members that must sign an amendment; None: all of them
    silence_charge: int | None = None  # minor units, for each round whose model a member took without reporting
    silence_limit: int | None = None  # membership ends after this many such rounds; None: never
    settlement_version: int = SETTLEMENT_VERSION
    rates: AgreedRates | None = None  # that profits follow from; None: from what each member alone knows

    def __post_init__(self) -> None:
        # The version is stated by its name, and documents sort parameters.
        rules = replace(self.rules, version=1, parameters=tuple(sorted(self.rules.parameters)))
        object.__setattr__(self, "rules", rules)
        for name in _NAMES:
            value = getattr(self, name)
            if not isinstance(value, str) and not (value is None and name != "rules_version"):
                raise InputError(f"{name} must be a name, got {value!r}.")
        for name, known in _KNOWN.items():
            value = getattr(self, name)
            if value is not None and value not in known:
                raise InputError(f"{name} must be one of {', '.join(known)}, got {value!a}.")
        if self.metric is not None and (other := look_alike_of(self.metric, METRICS)) is not None:
            raise InputError(
                f"The metric {self.metric!a} looks like the built-in metric {other!r}, and is another one. Write "
                f"{other!r}, or give your own metric another name."
            )
        for name in _COUNTS:
            _check_whole(name, getattr(self, name), least=1)
        _check_whole("grace_rounds", self.grace_rounds, least=0, needed=True)
        _check_whole("silence_charge", self.silence_charge, least=1, most=LARGEST_AMOUNT)
        for owner, name, accepted in (
            (self, "figures", FiguresRule), (self, "harm", HarmRule), (self, "ending", EndingRule),
            (rules, "contribution_rule", ContributionRule), (rules, "loss_rule", LossRule),
        ):  # fmt: skip
            if getattr(owner, name) not in get_args(accepted):
                names = ", ".join(get_args(accepted))
                raise InputError(f"{name} must be one of {names}, got {getattr(owner, name)!r}.")
        if self.quorum is not None and not (_is_number(self.quorum) and 0 < self.quorum <= 1):
            raise InputError(
                f"quorum must be a share of the active members, more than 0 and at most 1, got {self.quorum!r}. Leave "
                "it out if every active member must sign."
            )
        if type(self.settlement_version) is not int or not 1 <= self.settlement_version <= SETTLEMENT_VERSION:
            raise InputError(
                f"This version of commonweal knows the settlement versions 1 to {SETTLEMENT_VERSION}, got "
                f"{self.settlement_version!r}. Use a newer commonweal."
            )
        for client, (low, high) in self.profit_bounds.items():
            if not (_is_number(low) and _is_number(high) and low < high):
                raise InputError(
                    f"profit_bounds must be two numbers, the smaller first, got {low!r} and {high!r} for {client!r}."
                )
        for client, most in self.most_samples.items():
            _check_whole(f"most_samples of {client!r}", most, least=1, needed=True)
        mu, cap = self.rules.mu, self.rules.liability_cap
        if not (_is_number(mu, finite=False) and mu >= 0):
            raise InputError(f"mu must be a number of at least 0, or inf, got {mu!r}.")
        if cap is not None and not (_is_number(cap) and cap >= 0):
            raise InputError(f"liability_cap must be a number of at least 0, got {cap!r}. Leave it out for no cap.")
        for name, value in rules.parameters:
            if not _is_number(value):
                raise InputError(f"The parameter {name!r} of the mechanism must be a number, got {value!r}.")
        if self.rates is not None:
            _check_rates(self.rates)

    @property
    def measured_by(self) -> dict[str, Any]:
        """How figures are measured, as each round states it."""
        return {name: getattr(self, name) for name in MEASURED_BY}

    def to_document(self) -> Document:
        document = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "rates"}
        if self.rates is not None:
            document["rates"] = self.rates.to_document()
        return document | {
            "rules": self.rules.to_document(),
            "profit_bounds": {client: [float(low), float(high)] for client, (low, high) in self.profit_bounds.items()},
            "most_samples": dict(self.most_samples),
            "silence_charge": None if self.silence_charge is None else str(self.silence_charge),
        }

    @classmethod
    def from_document(cls, document: Document) -> AgreedRules:
        """The rules that `to_document` wrote. Python's own errors if something is missing or unknown."""
        given: dict[str, Any] = dict(document)
        charge = given["silence_charge"]
        return cls(
            **given
            | {
                "rules": Rules.from_document(given["rules"]),
                "profit_bounds": {client: (low, high) for client, (low, high) in given["profit_bounds"].items()},
                "silence_charge": None if charge is None else int(charge),
                "rates": AgreedRates.from_document(given["rates"]) if "rates" in given else None,
            }
        )


def _is_number(value: object, *, finite: bool = True) -> bool:
    return type(value) in (int, float) and not math.isnan(value) and (math.isfinite(value) or not finite)  # type: ignore[arg-type]


def _check_rates(rates: AgreedRates) -> None:
    for name, own in rates.by_class.items() if rates.common is None else [("", rates.common)]:
        whose = f" of class {name!r}" if name else ""
        for each in fields(own):
            value = getattr(own, each.name)
            if not (_is_number(value) and value >= 0):
                raise InputError(f"The rate {each.name!r}{whose} must be a number of at least 0, got {value!r}.")
    for client, name in rates.classes.items():
        if name not in rates.by_class:
            raise InputError(
                f"{client!r} is of class {name!r}, and there are no rates for that class. State them first."
            )


def _check_whole(name: str, value: object, *, least: int, most: int = 10**12, needed: bool = False) -> None:
    if value is None and not needed:
        return
    if type(value) is not int or not least <= value <= most:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}.")
