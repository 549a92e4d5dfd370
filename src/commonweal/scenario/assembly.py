"""From plain tables, as TOML or JSON give them, to a scenario. All errors are collected and raised together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from commonweal.decision.mechanisms import MECHANISMS
from commonweal.records import Rules
from commonweal.records.rounds import DEFAULT_MECHANISM
from commonweal.scenario.agreement import check_client_count, check_distinct_names, check_learning, check_mechanism
from commonweal.scenario.algorithms import users_of
from commonweal.scenario.faults import Faults, shown
from commonweal.scenario.keys import CLIENT_KEYS, DEFECT_KIND, DEFECTS, SCENARIO_KEYS, TABLE_KEYS, mechanism_keys
from commonweal.scenario.lines import KeyPath
from commonweal.scenario.spec import ClientSpec, DataSpec, Defect, LearningSpec, MechanismSpec, Scenario
from commonweal.scenario.toml_table import TomlTable, present

NEEDED_OF_SCENARIO = ("name", "rounds")
NEEDED_OF_CLIENT = ("name", "source", "samples_per_round")
DEFAULT_SEED = 1


def assemble(document: Mapping[str, object], faults: Faults) -> Scenario:
    """The scenario; raises a ScenarioError that lists all problems."""
    root = TomlTable(given=present(document), path=(), faults=faults)
    top = root.read(SCENARIO_KEYS, needed=NEEDED_OF_SCENARIO, tables=(*TABLE_KEYS, "clients"))
    tables = {name: subtable(root, name) for name in TABLE_KEYS}
    values = {
        name: read_mechanism(tables[name], is_table=isinstance(root.given.get(name, {}), Mapping))
        if name == "mechanism"
        else tables[name].read(keys)
        for name, keys in TABLE_KEYS.items()
    }
    clients = _clients(root, tables["defaults"], values["defaults"])
    check_mechanism(tables["mechanism"], values["mechanism"], len(clients))
    check_learning(tables["learning"], values["learning"])
    faults.raise_if_any()
    # From here on, everything is valid.
    return Scenario(
        name=top["name"],
        description=top.get("description", ""),
        round_count=top["rounds"],
        seed=top.get("seed", DEFAULT_SEED),
        clients=tuple(ClientSpec(**client) for client in clients),
        mechanism=make_mechanism(values["mechanism"]),
        data=DataSpec(**values["data"]),
        learning=make_learning(values["learning"]),
    )


def make_learning(values: Mapping[str, Any]) -> LearningSpec:
    """The learning of a checked table: the algorithm's own keys are its parameters."""
    parameters = {key: value for key, value in values.items() if users_of(key)}
    others = {key: value for key, value in values.items() if key not in parameters}
    return LearningSpec(parameters=parameters, **others)


def read_mechanism(table: TomlTable, *, is_table: bool = True) -> dict[str, Any]:
    """The valid values of a [mechanism] table, without the rules that its mechanism does not honour.

    mu is required by the mechanisms that have one.
    """
    kind = table.given.get("kind", DEFAULT_MECHANISM)
    entry = MECHANISMS.get(kind) if isinstance(kind, str) else None
    ignored = () if entry is None else entry.ignored_rules()
    keys = {key: value for key, value in mechanism_keys(table.given).items() if key not in ignored}
    values = table.read(keys, needed=("mu",) if entry is not None and is_table else (), tables=ignored)
    for rule in ignored:
        if rule in table.given:
            table.faults.add((*table.path, rule), f'kind = "{kind}" has no {rule}', "Remove it")
    return values


def make_mechanism(values: Mapping[str, Any]) -> MechanismSpec:
    """The mechanism of a checked table."""
    entry = MECHANISMS[values.get("kind", DEFAULT_MECHANISM)]
    others = {key: value for key, value in values.items() if key not in ("kind", *entry.parameters)}
    own = {field.name for field in fields(Rules)}
    rules = Rules(
        **{"mu": math.inf} | {key: others.pop(key) for key in tuple(others) if key in own},
        mechanism=entry.name,
        parameters=tuple((key, values.get(key, one.default)) for key, one in entry.parameters.items()),
    )
    if "contribution" in others:
        others["measure"] = others.pop("contribution")
    return MechanismSpec(rules=rules, **others)


def subtable(root: TomlTable, name: str) -> TomlTable:
    """A table below the root; an empty one if it is missing or not a table."""
    given = root.given.get(name, {})
    if not isinstance(given, Mapping):
        way_out = f"Write [{name}], in single brackets, above its keys"
        root.faults.add((name,), f"{name} must be a table, got {shown(given)}", way_out)
        given = {}
    return TomlTable(given=present(given), path=(name,), title=f"[{name}]", faults=root.faults)


def _clients(root: TomlTable, defaults: TomlTable, default_values: Mapping[str, Any]) -> list[dict[str, Any]]:
    given = root.given.get("clients", [])
    if not isinstance(given, list | tuple) or not all(isinstance(client, Mapping) for client in given):
        root.faults.add(
            ("clients",),
            f"clients must be an array of tables, got {_other_than_tables(given)}",
            "Write [[clients]], in double brackets, above each client",
        )
        return []
    check_client_count(len(given), root.faults)
    clients = []
    for position, client in enumerate(given):
        name = client.get("name")
        whose = f" for client {shown(name)}" if isinstance(name, str) else f" for client number {position + 1}"
        own = TomlTable(given=present(client), path=("clients", position), faults=root.faults, whose=whose)
        clients.append({**default_values, **_client(own, defaults)})
    check_distinct_names(clients, root.faults)
    return clients


def _other_than_tables(given: object) -> str:
    return "an array of other values" if isinstance(given, list | tuple) else shown(given)


def _client(own: TomlTable, defaults: TomlTable) -> dict[str, Any]:
    needed = [key for key in NEEDED_OF_CLIENT if key not in defaults.given]
    values = own.read(CLIENT_KEYS, needed=needed, tables=("defect",))
    if "defect" in own.given:
        values["defect"] = _defect(own, own.given["defect"])
    return values


def _defect(client: TomlTable, given: object) -> Defect | None:
    """The defect, or None if it is invalid."""
    path: KeyPath = (*client.path, "defect")
    if not isinstance(given, Mapping):
        problem = f"defect must be a table, got {shown(given)}{client.whose}"
        client.faults.add(path, problem, 'Write e.g. defect = { kind = "untrained" }')
        return None
    kind = given.get("kind")
    if not isinstance(kind, str) or kind not in DEFECTS:  # so its other keys cannot be checked
        given = {"kind": kind}
        TomlTable(given=present(given), path=path, title="the defect", faults=client.faults, whose=client.whose).read(
            {"kind": DEFECT_KIND}, needed=["kind"]
        )
        return None
    make, keys = DEFECTS[kind]
    table = TomlTable(
        given=present(given), path=path, title=f"the defect {kind}", faults=client.faults, whose=client.whose
    )
    needed = [field.name for field in fields(make) if field.default is MISSING]
    values = table.read(keys, needed=needed, tables=("kind",))
    return make(**values) if set(needed) <= set(values) else None
