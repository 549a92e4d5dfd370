"""From plain tables, as TOML or JSON give them, to a scenario. All errors are collected and raised together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from commonweal.decision.mechanism import Mechanism
from commonweal.decision.mechanisms import MECHANISMS
from commonweal.decision.mechanisms.own_file import load_mechanism, mechanism_file
from commonweal.errors import CommonwealError
from commonweal.records import AgreedRates, MechanismFile, Rules
from commonweal.records.rounds import DEFAULT_MECHANISM, FILE_PREFIX
from commonweal.scenario.agreement import (
    check_client_count,
    check_distinct_names,
    check_learning,
    check_mechanism,
    check_smooth_score,
    check_task,
    check_who_sees_harm,
)
from commonweal.scenario.algorithms import users_of
from commonweal.scenario.faults import Faults, shown
from commonweal.scenario.keys import (
    CLIENT_KEYS,
    DEFECT_KIND,
    DEFECTS,
    SCENARIO_KEYS,
    TABLE_KEYS,
    TASK_KEYS,
    mechanism_keys,
)
from commonweal.scenario.lines import KeyPath
from commonweal.scenario.rates import read_rates, take_classes
from commonweal.scenario.spec import ClientSpec, DataSpec, Defect, LearningSpec, MechanismSpec, Scenario, TaskSpec
from commonweal.scenario.toml_table import TomlTable, present
from commonweal.task.metrics import METRICS
from commonweal.valuation.registry import MEASURES

NEEDED_OF_SCENARIO = ("name", "rounds")
NEEDED_OF_CLIENT = {"images": ("name", "source", "samples_per_round"), "file": ("name",), "table": ("name",)}
DEFAULT_SEED = 1


def assemble(document: Mapping[str, object], faults: Faults, folder: Path | None = None) -> Scenario:
    """The scenario; raises a ScenarioError that lists all problems. Relative paths in it start at `folder`."""
    root = TomlTable(given=present(document), path=(), faults=faults)
    top = root.read(SCENARIO_KEYS, needed=NEEDED_OF_SCENARIO, tables=(*TABLE_KEYS, "clients", "task"))
    tables = {name: subtable(root, name) for name in TABLE_KEYS}
    values = {
        name: read_mechanism(tables[name], folder, is_table=isinstance(root.given.get(name, {}), Mapping))
        if name == "mechanism"
        else tables[name].read(keys)
        for name, keys in TABLE_KEYS.items()
        if name != "rates"
    }
    rates = read_rates(tables["rates"], tables["mechanism"], values["mechanism"].get("profits", "private"))
    task = read_task(subtable(root, "task"), folder)
    clients = _clients(root, tables["defaults"], values["defaults"], task)
    rates = take_classes(rates, clients, root)
    check_mechanism(tables["mechanism"], values["mechanism"], len(clients))
    if not has_sites(task):
        check_who_sees_harm(tables["mechanism"], values["mechanism"], len(clients))
    check_task(tables, values, clients, task)
    check_learning(tables["learning"], values["learning"])
    check_smooth_score(tables["mechanism"], values["mechanism"], values["learning"])
    faults.raise_if_any()
    # From here on, everything is valid.
    return Scenario(
        name=top["name"],
        description=top.get("description", ""),
        round_count=top["rounds"],
        seed=top.get("seed", DEFAULT_SEED),
        clients=tuple(ClientSpec(**client) for client in clients),
        mechanism=make_mechanism(values["mechanism"], rates),
        data=DataSpec(**values["data"]),
        learning=make_learning(values["learning"]),
        task=task,
        site_defaults=values["defaults"] if has_sites(task) else None,
    )


def read_task(table: TomlTable, folder: Path | None) -> TaskSpec:
    """The task of a [task] table: a key `file` or `table` says which, and all keys but the metric are its settings."""
    settings = {key: value for key, value in table.given.items() if key not in TASK_KEYS}
    common = {key: value for key, value in table.given.items() if key in TASK_KEYS}
    values = replace(table, given=common).read(TASK_KEYS)
    if "file" in settings and "table" in settings:
        table.faults.add((*table.path, "file"), "a task has a file or a table, not both", "Remove one of them")
    kind: Literal["images", "file", "table"] = (
        "file" if "file" in settings else "table" if {"table", "target"} & set(settings) else "images"
    )
    if kind == "images":
        replace(table, given=settings).read({}, tables=())  # refuses what would be ignored
    for key in ("file", "table"):
        if key in settings and not isinstance(settings[key], str):
            table.faults.add((*table.path, key), f"{key} must be a path in quotes, got {shown(settings[key])}")
    metric = values.get("metric", TaskSpec().metric_name)
    if metric not in METRICS and kind != "file" and "metric" in values:
        close = get_close_matches(metric, METRICS, n=1)
        table.faults.add(
            (*table.path, "metric"),
            f"metric must be one of {', '.join(METRICS)}, got {shown(metric)}",
            f"Did you mean {close[0]!r}?" if close else "",
        )
    if metric in METRICS and "lower_is_better" in values:
        table.faults.add(
            (*table.path, "lower_is_better"), f"lower_is_better is only for a metric of your own, not for {metric}"
        )
    return TaskSpec(
        kind=kind,
        metric_name=metric,
        lower_is_better=values.get("lower_is_better", False),
        settings=settings,
        folder=Path() if folder is None else folder,
    )


def has_sites(task: TaskSpec) -> bool:
    """Whether clients are the sites of a table, so that they need not be listed."""
    return task.kind == "table" and "site" in task.settings


def make_learning(values: Mapping[str, Any]) -> LearningSpec:
    """The learning of a checked table: the algorithm's own keys are its parameters."""
    parameters = {key: value for key, value in values.items() if users_of(key)}
    others = {key: value for key, value in values.items() if key not in parameters}
    return LearningSpec(parameters=parameters, **others)


def read_mechanism(table: TomlTable, folder: Path | None, *, is_table: bool = True) -> dict[str, Any]:
    """The valid values of a [mechanism] table, without the rules that its mechanism does not honour.

    mu is required by the mechanisms that have one. The kind is a name, or the file that it names in `folder`.
    """
    kind = table.given.get("kind", DEFAULT_MECHANISM)
    is_file = isinstance(kind, str) and kind.startswith(FILE_PREFIX)
    own = _own_mechanism(table, str(kind).removeprefix(FILE_PREFIX), folder) if is_file else None
    entry = own[1] if own is not None else MECHANISMS.get(kind) if isinstance(kind, str) else None
    ignored = () if entry is None else entry.ignored_rules()
    keys = {key: value for key, value in mechanism_keys(entry).items() if key not in ignored}
    unread = tuple(table.given) if is_file and own is None else ignored  # its parameters are not known
    values = table.read(keys, needed=("mu",) if entry is not None and is_table else (), tables=unread)
    for rule in ignored:
        if rule in table.given:
            table.faults.add((*table.path, rule), f'kind = "{kind}" has no {rule}', "Remove it")
    if is_file:
        values.pop("kind", None)
    return values if own is None else {**values, "kind": own[0]}


def _own_mechanism(table: TomlTable, name: str, folder: Path | None) -> tuple[MechanismFile, type[Mechanism]] | None:
    """A user's own file and the class in it; None, and a fault, if it cannot be used."""
    try:
        file = mechanism_file((folder or Path()) / name)
        return file, load_mechanism(file)
    except CommonwealError as error:
        table.faults.add((*table.path, "kind"), str(error).rstrip("."))
        return None


def make_mechanism(values: Mapping[str, Any], rates: AgreedRates | None = None) -> MechanismSpec:
    """The mechanism of a checked table; `rates` where profits follow from them."""
    kind = values.get("kind", DEFAULT_MECHANISM)
    entry = load_mechanism(kind) if isinstance(kind, MechanismFile) else MECHANISMS[kind]
    others = {key: value for key, value in values.items() if key not in ("kind", "profits", *entry.parameters)}
    own = {field.name for field in fields(Rules)}
    rules = Rules(
        **{"mu": math.inf} | {key: others.pop(key) for key in tuple(others) if key in own},
        mechanism=entry.name,
        parameters=tuple((key, values.get(key, one.default)) for key, one in entry.parameters.items()),
        file=kind if isinstance(kind, MechanismFile) else None,
    )
    if "contribution" in others:
        others["measure"] = others.pop("contribution")
        if MEASURES[others["measure"]].uses_gradients:
            others["contribution_score"] = "smooth"  # it can be nothing else
    return MechanismSpec(rules=rules, rates=rates, **others)


def subtable(root: TomlTable, name: str) -> TomlTable:
    """A table below the root; an empty one if it is missing or not a table."""
    given = root.given.get(name, {})
    if not isinstance(given, Mapping):
        way_out = f"Write [{name}], in single brackets, above its keys"
        root.faults.add((name,), f"{name} must be a table, got {shown(given)}", way_out)
        given = {}
    return TomlTable(given=present(given), path=(name,), title=f"[{name}]", faults=root.faults)


def _clients(
    root: TomlTable, defaults: TomlTable, default_values: Mapping[str, Any], task: TaskSpec
) -> list[dict[str, Any]]:
    given = root.given.get("clients", [])
    if not isinstance(given, list | tuple) or not all(isinstance(client, Mapping) for client in given):
        root.faults.add(
            ("clients",),
            f"clients must be an array of tables, got {_other_than_tables(given)}",
            "Write [[clients]], in double brackets, above each client",
        )
        return []
    if not has_sites(task):
        check_client_count(len(given), root.faults)
    clients = []
    for position, client in enumerate(given):
        name = client.get("name")
        whose = f" for client {shown(name)}" if isinstance(name, str) else f" for client number {position + 1}"
        own = TomlTable(given=present(client), path=("clients", position), faults=root.faults, whose=whose)
        clients.append({**default_values, **_client(own, defaults, task)})
    check_distinct_names(clients, root.faults)
    return clients


def _other_than_tables(given: object) -> str:
    return "an array of other values" if isinstance(given, list | tuple) else shown(given)


def _client(own: TomlTable, defaults: TomlTable, task: TaskSpec) -> dict[str, Any]:
    needed = [key for key in NEEDED_OF_CLIENT[task.kind] if key not in defaults.given]
    values = own.read(CLIENT_KEYS, needed=needed, tables=("defect", "settings"))
    if "settings" in own.given:
        if isinstance(own.given["settings"], Mapping):
            values["settings"] = dict(own.given["settings"])
        else:
            problem = f"settings must be a table, got {shown(own.given['settings'])}{own.whose}"
            own.faults.add((*own.path, "settings"), problem, "Write e.g. settings = { table = 'north.csv' }")
    return values | {"defect": read_defect(own)}


def read_defect(client: TomlTable) -> Defect | None:
    """The client's defect, or None if it has none or an invalid one."""
    path: KeyPath = (*client.path, "defect")
    if "defect" not in client.given:
        return None
    given = client.given["defect"]
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
