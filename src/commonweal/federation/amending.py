"""Rules as people write them, to amend the terms of a ledger: "mu" and "0.2"."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from commonweal.decision.mechanisms import MECHANISMS, make_mechanism
from commonweal.errors import InputError, LedgerError
from commonweal.ledger.agreed_rules import AgreedRules
from commonweal.ledger.money import parse_amount
from commonweal.ledger.terms import Terms
from commonweal.records import AgreedRates, Rates, Rules
from commonweal.records.rates import CLASSES, MEMBERS
from commonweal.records.rounds import FILE_PREFIX, RULES_VERSION
from commonweal.scenario.keys import MECHANISM_KEYS, MOST_ROUNDS, RATES_KEYS, TASK_KEYS, mechanism_keys
from commonweal.scenario.kinds import Kind, number, whole_number

_OF_RULES = ("mu", "contribution_rule", "loss_rule", "liability_cap")
_OF_MECHANISM = (
    "grace_rounds", "evaluation_limit", "utility", "contribution_score", "scorers", "figures", "harm", "ending",
)  # fmt: skip
_KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        **{name: MECHANISM_KEYS[name] for name in (*_OF_RULES, *_OF_MECHANISM)},
        "measure": MECHANISM_KEYS["contribution"],
        "metric": TASK_KEYS["metric"],
        "round_count": whole_number(1, MOST_ROUNDS, example=20),
        "quorum": number("a share of the members, more than 0 and at most 1", "0.5", lambda share: 0 < share <= 1),
        "silence_limit": whole_number(1, 10**6, example=3),
    }
)
_ANY_NUMBER = number("a finite number", "0.5", math.isfinite)  # of a user's own mechanism, which is not at hand
_MAY_BE_NONE = (
    "liability_cap", "round_count", "evaluation_limit", "quorum", "silence_charge", "silence_limit", "rates",
)  # fmt: skip


def amended(terms: Terms, changes: Iterable[tuple[str, str]], last_round: Mapping[str, Any] | None = None) -> Terms:
    """The terms with some of the agreed rules changed; "none" removes a limit.

    Terms without agreed rules get those of the ledger's last round, whose entry has the body `last_round`.
    """
    agreed = terms.agreed
    if agreed is None and last_round is not None:
        agreed = _rules_of(last_round)
    if agreed is None:
        raise LedgerError(
            "This ledger has no agreed rules to amend. The first federation that settles in it states them."
        )
    for name, text in changes:
        agreed = _changed(agreed, name, text, terms.minor_digits)
    if not agreed.rules.mechanism.startswith(FILE_PREFIX):  # a user's own file checks its rules when it is run
        make_mechanism(agreed.rules).check(has_costs=True)
    return replace(terms, agreed=agreed)


def _rules_of(body: Mapping[str, Any]) -> AgreedRules:
    """The rules by which a round was decided, in the version that new rounds are decided by."""
    rules = Rules.from_document(body["rules"], version=RULES_VERSION)
    figures: Any = body["gains"]["table"]["version"].partition("/")[0] if "gains" in body else "measured"
    is_file = rules.mechanism.startswith(FILE_PREFIX)
    version = body["rules_version"] if is_file else make_mechanism(rules).version_in_ledgers
    return AgreedRules(rules=rules, rules_version=version, figures=figures)


def _changed(agreed: AgreedRules, name: str, text: str, minor_digits: int) -> AgreedRules:
    table, _, client = name.partition(".")
    if client and table == "profit_bounds":
        low, _, high = text.partition(",")
        bounds = (_number(name, low), _number(name, high))
        return replace(agreed, profit_bounds={**agreed.profit_bounds, client: bounds})
    if client and table == "most_samples":
        most = whole_number(1, 10**12, example=1000).checked(name, _value(text))
        return replace(agreed, most_samples={**agreed.most_samples, client: most})
    if table == "rates" and client:
        return replace(agreed, rates=_changed_rates(agreed.rates or AgreedRates(), client, text))
    value: Any = None
    if text == "none" and name in _MAY_BE_NONE:
        pass
    elif name == "silence_charge":
        value = parse_amount(text, minor_digits)
    else:
        value = _kind(name, agreed.rules).checked(name, _value(text))
    if name in _OF_RULES:
        return replace(agreed, rules=replace(agreed.rules, **{name: value}))
    if name in dict(agreed.rules.parameters):
        parameters = tuple((dict(agreed.rules.parameters) | {name: value}).items())
        return replace(agreed, rules=replace(agreed.rules, parameters=parameters))
    return replace(agreed, **{name: value})


def _changed_rates(rates: AgreedRates, name: str, text: str) -> AgreedRates:
    """The rates with "gain", "classes.hospital.gain" or "members.north" changed."""
    table, _, inner = name.partition(".")
    if table == MEMBERS and inner:
        return replace(rates, classes={**rates.classes, inner: text})
    title, _, key = inner.rpartition(".") if table == CLASSES else ("", "", name)
    if key not in RATES_KEYS or (table == CLASSES and not title):
        names = ", ".join(f"rates.{each}" for each in (*RATES_KEYS, "classes.CLASS.gain", "members.CLIENT"))
        raise InputError(f"'rates.{name}' is not a rate that can be amended. These are: {names}, and so on.")
    if title and rates.common is not None:
        raise InputError(
            f"There is one rate for all members, so rates.{name} cannot be set. Remove it first, with rates=none."
        )
    if not title and rates.by_class:
        raise InputError(f"Rates differ by class: write rates.classes.CLASS.{name} instead of rates.{name}.")
    before = rates.by_class.get(title) if title else rates.common
    value = RATES_KEYS[key].checked(f"rates.{name}", _value(text))
    if before is None and key != "gain":
        raise InputError(f"rates.{name} needs the rate of a gain first: set rates.{name.removesuffix(key)}gain before.")
    own = Rates(gain=value) if before is None else replace(before, **{key: value})
    return replace(rates, by_class={**rates.by_class, title: own}) if title else replace(rates, common=own)


def _kind(name: str, rules: Rules) -> Kind:
    own = mechanism_keys(MECHANISMS.get(rules.mechanism))
    known = {**_KINDS, **{parameter: own.get(parameter, _ANY_NUMBER) for parameter, _ in rules.parameters}}
    if name not in known:
        of_clients = ("profit_bounds.CLIENT", "most_samples.CLIENT")
        names = ", ".join((*known, "silence_charge", *of_clients, "rates", *(f"rates.{rate}" for rate in RATES_KEYS)))
        raise InputError(f"{name!r} is not an agreed rule that can be amended. These are: {names}.")
    return known[name]


def _value(text: str) -> Any:
    """The number or word that a text is; no number has an underscore."""
    for read in (int, float):
        try:
            return read("" if "_" in text else text)
        except ValueError:
            continue
    return text


def _number(name: str, text: str) -> float:
    value = _value(text)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InputError(f"{name} must be two numbers with a comma between them, such as -1,1; got {text!r}.")
    return float(value)
