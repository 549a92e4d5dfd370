"""Replace single values of a scenario file, by dotted key such as `learning.learning_rate`.

`defaults.KEY` applies to the clients without a KEY of their own, as in a file; `clients.NAME.KEY` to one client.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

from commonweal.decision.mechanisms import mechanism_class
from commonweal.errors import ScenarioError
from commonweal.scenario.keys import CLIENT_KEYS, MECHANISM_KEYS, SCENARIO_KEYS, TABLE_KEYS
from commonweal.scenario.kinds import Kind
from commonweal.scenario.spec import Scenario

_CLIENTS = "clients."


def setting_keys() -> tuple[str, ...]:
    """All dotted keys except those of single clients, in the order of the reference."""
    tables = (f"{table}.{key}" for table, keys in TABLE_KEYS.items() for key in keys)
    return (*SCENARIO_KEYS, *tables)


def kind_of_setting(key: str) -> Kind | None:
    """The kind of value that the key takes; None if there is no such key."""
    table, _, last = key.rpartition(".")
    keys = TABLE_KEYS.get(table, {}) if table else SCENARIO_KEYS
    if table.startswith(_CLIENTS) and last != "name":
        keys = CLIENT_KEYS
    return keys.get(last)


def with_settings(document: Mapping[str, object], settings: Mapping[str, object]) -> dict[str, object]:
    """A copy of a scenario's tables with these values."""
    changed = dict(document)
    for key, value in settings.items():
        if kind_of_setting(key) is None:
            raise ScenarioError(f"A scenario has no key {key!r}: choose one of {', '.join(setting_keys())}.")
        table, _, last = key.rpartition(".")
        if not table:
            changed[last] = value
        elif table.startswith(_CLIENTS):
            changed["clients"] = _with_client_value(changed.get("clients"), table.removeprefix(_CLIENTS), last, value)
        else:
            before = changed.get(table, {})
            # What is not a table is reported by the check of the file.
            changed[table] = {**before, last: value} if isinstance(before, Mapping) else before
    return changed


def _with_client_value(clients: object, name: str, key: str, value: object) -> object:
    if not isinstance(clients, list) or not all(isinstance(client, Mapping) for client in clients):
        return clients  # reported by the check of the file
    names = [str(client.get("name", "")) for client in clients]
    if name not in names:
        raise ScenarioError(
            f"There is no client {name!r} to set {key} for: the clients are {', '.join(map(repr, names))}."
        )
    return [{**client, key: value} if own == name else client for own, client in zip(names, clients, strict=True)]


def override(
    scenario: Scenario, *, mu: float | str | None = None, seed: int | None = None, rounds: int | None = None
) -> Scenario:
    """The scenario with the given values; μ may be text, such as "0.05" or "inf"."""
    if mu is not None:
        kind = scenario.mechanism.rules.mechanism
        if not mechanism_class(scenario.mechanism.rules).takes_mu:
            raise ScenarioError(
                f'mu cannot be set: the scenario {scenario.name!r} has kind = "{kind}", which has no mu.'
            )
        rules = replace(scenario.mechanism.rules, mu=checked_mu(mu))
        scenario = replace(scenario, mechanism=replace(scenario.mechanism, rules=rules))
    if seed is not None:
        scenario = replace(scenario, seed=SCENARIO_KEYS["seed"].checked("seed", seed))
    if rounds is not None:
        scenario = replace(scenario, round_count=SCENARIO_KEYS["rounds"].checked("rounds", rounds))
    return scenario


def checked_mu(mu: float | str) -> float:
    """A valid μ from text, such as "0.05" or "inf", or from a number."""
    leniency: float = MECHANISM_KEYS["mu"].checked("mu", _typed_number(mu))
    return leniency


def _typed_number(mu: float | str) -> float:
    if not isinstance(mu, str):
        return mu
    try:
        if "_" in mu or not mu.isascii():  # float() accepts 1_0 for ten, and digits of any script
            raise ValueError
        number = float(mu)
        if (number == 0 and re.search("[1-9]", mu.lower().partition("e")[0])) or (
            math.isinf(number) and "inf" not in mu.lower()
        ):  # 1e-400 is not 0, and 1e400 is a large number, not infinity
            raise ValueError
        return number
    except ValueError:
        raise ScenarioError(f"mu must be a number, got {mu!r}. Write it like 0.05, or inf.") from None
