"""Rules between keys. Each is checked where its keys are good on their own, so that a fault is told once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from commonweal.scenario.algorithms import users_of
from commonweal.scenario.faults import Faults, shown
from commonweal.scenario.keys import (
    FEWEST_CLIENTS,
    MOST_CLIENTS,
    RAW_RULE_CLIENTS,
)
from commonweal.scenario.spec import LearningSpec, MechanismSpec
from commonweal.scenario.toml_table import TomlTable
from commonweal.valuation.registry import MEASURES

Values = Mapping[str, Any]
_DEFAULT_MEASURE = MechanismSpec.__dataclass_fields__["measure"].default


def check_mechanism(table: TomlTable, values: Values, client_count: int) -> None:
    faults, path = table.faults, table.path
    if values.get("contribution_rule") == "raw" and client_count > RAW_RULE_CLIENTS:
        faults.add(
            (*path, "contribution_rule"),
            f'contribution_rule = "raw" takes at most {RAW_RULE_CLIENTS} clients',
            f"{client_count}",
            'write contribution_rule = "clip"',
        )
    if not _sound(table, values, "contribution", "evaluation_limit"):
        return
    measure = MEASURES[values.get("contribution", _DEFAULT_MEASURE)]
    limit = values.get("evaluation_limit")
    if measure.client_limit is not None and client_count > measure.client_limit:
        faults.add(
            (*path, "contribution"),
            f'contribution = "{measure.name}" takes at most {measure.client_limit} clients',
            f"{client_count}",
            'write contribution = "adaptive" and evaluation_limit = 500',
        )
    if not measure.is_sampled:
        if limit is not None:
            sampled = ", ".join(name for name, other in MEASURES.items() if other.is_sampled)
            faults.add(
                (*path, "evaluation_limit"),
                f"evaluation_limit belongs to the sampled measures {sampled}",
                f"it beside {measure.name}",
                "drop it",
            )
        return
    fewest = measure.fewest_evaluations(client_count)
    if limit is None:
        faults.add(
            (*path, "contribution"),
            f'contribution = "{measure.name}" must come with evaluation_limit, the most coalition models per round',
            "none",
            f"add e.g. evaluation_limit = {max(64, 4 * fewest)}",
        )
    elif limit < fewest:
        faults.add(
            (*path, "evaluation_limit"),
            f'evaluation_limit must be at least {fewest} for "{measure.name}" and {client_count} clients',
            f"{limit}",
            f"write e.g. {max(64, 4 * fewest)}",
        )


def check_learning(table: TomlTable, values: Values) -> None:
    if not _sound(table, values, "algorithm"):
        return
    algorithm = values.get("algorithm", LearningSpec().algorithm)
    for key in values:
        users = users_of(key)
        if users and algorithm not in users:
            table.faults.add(
                (*table.path, key),
                f"{key} belongs to the algorithm {' or '.join(users)}",
                f"it beside {algorithm}",
                f'drop it, or write algorithm = "{users[0]}"',
            )


def check_client_count(count: int, faults: Faults) -> None:
    if count == 0:
        faults.add(
            ("clients",),
            f"a federation must have at least {FEWEST_CLIENTS} clients",
            "none",
            "add a [[clients]] table for each",
        )
    elif count < FEWEST_CLIENTS:
        faults.add(
            ("clients", 0),
            f"a federation must have at least {FEWEST_CLIENTS} clients",
            "only this one, who has nobody to share with",
            "add another [[clients]] table",
        )
    elif count > MOST_CLIENTS:
        faults.add(
            ("clients", MOST_CLIENTS),
            f"a federation must have at most {MOST_CLIENTS} clients",
            f"{count}",
            "split it into several federations",
        )


def check_distinct_names(clients: Sequence[Values], faults: Faults) -> None:
    seen: dict[str, int] = {}
    for position, client in enumerate(clients):
        if "name" not in client:
            continue
        first = seen.setdefault(client["name"], position)
        if first != position:
            faults.add(
                ("clients", position, "name"),
                "clients must have distinct names",
                f"{shown(client['name'])} for client number {position + 1} as for number {first + 1}",
                "rename one of the two",
            )


def _sound(table: TomlTable, values: Values, *keys: str) -> bool:
    """Whether none of these keys was given with a value that is a fault by itself."""
    return all(key in values or key not in table.given for key in keys)
