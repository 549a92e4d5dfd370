"""A federation's folder from a scenario with a task of one's own or a table: what was simulated can be rehearsed.

The functions, the terms and the seed are the same, so a rehearsal gives the figures of the simulation.
"""

from __future__ import annotations

import ast
import math
import pprint
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from commonweal.bounded_read import LARGEST_DATA, read_bounded
from commonweal.decision.mechanisms import mechanism_class
from commonweal.errors import ScenarioError, StorageError, os_reason
from commonweal.flower.starting.new_federation import NewFederation, NewMember, PrivateFigures, write_federation
from commonweal.scenario.algorithms import ALGORITHMS
from commonweal.scenario.document import defect_document, to_document
from commonweal.scenario.spec import ClientSpec, Scenario
from commonweal.scenario.toml_text import toml_lines
from commonweal.simulation.simulated_task import with_sites
from commonweal.tables.packaged import is_packaged, path_of
from commonweal.tables.splitting import split_by_site
from commonweal.task.file import read_task
from commonweal.task.metrics import Metric

DATA = "data"  # a member's own table, without its suffix
_OF_TASK = ("file", "table", "site")  # settings that have served their purpose once the folder is made
_UNBOUNDED = 1e4  # a gain in a metric without bounds, generously
_SAMPLES, _STEPS = 1e4, 1e5  # in a round, generously
_ABOUT_THE_TABLE = """What this federation learns: a table. Every member has its own, which its member.toml names."""


def make_federation_from(directory: Path, scenario: Scenario) -> tuple[str, ...]:
    """Create a folder for `commonweal flower rehearse` from a scenario; returns the members' names."""
    _check(scenario)
    scenario = with_sites(scenario)
    task, modules = _code(scenario)
    rows = split_by_site(scenario.task.settings, scenario.task.folder) if "site" in scenario.task.settings else {}
    members = tuple(_member(client, scenario, rows.get(client.name)) for client in scenario.clients)
    federation = NewFederation(terms=_terms(scenario), members=members, task=task, modules=modules)
    return write_federation(directory, federation)


def _check(scenario: Scenario) -> None:
    """Refuse what members on other machines cannot do."""
    if scenario.task.kind == "images":
        raise ScenarioError(
            f"A federation on Flower needs a task of your own or a table, but {scenario.name!r} learns from built-in "
            "images. Write [task] with a file or a table."
        )
    rules = scenario.mechanism.rules
    reasons = [
        ALGORITHMS[scenario.learning.algorithm].remote_refusal,
        'loss_rule = "cost" needs costs, which never leave the clients' if rules.loss_rule == "cost" else "",
        f'kind = "{rules.mechanism}" {refusal}' if (refusal := mechanism_class(rules).remote_refusal()) else "",
    ]
    for reason in filter(None, reasons):
        raise ScenarioError(f"The scenario {scenario.name!r} cannot run on Flower: {reason}.")


def _terms(scenario: Scenario) -> str:
    """federation.toml without the clients."""
    learning, task = scenario.learning, scenario.task
    document = to_document(scenario)
    mechanism = document["mechanism"]
    assert isinstance(mechanism, Mapping)
    of_learning = {
        "algorithm": learning.algorithm,
        **learning.parameters,
        "learning_rate": learning.learning_rate,
        "iteration_limit": learning.iteration_limit,
        "stop_below": learning.stop_below,
    }
    of_task = {
        "metric": task.metric_name,
        **({"lower_is_better": True} if task.lower_is_better else {}),
        **({} if task.kind == "table" else _common_settings(scenario)),
    }
    top = {key: document[key] for key in ("name", "description", "rounds", "seed") if document[key] != ""}
    rates = {} if scenario.mechanism.rates is None else {"rates": document["rates"]}
    tables: dict[str, Any] = {"mechanism": mechanism, **rates, "task": of_task, "learning": of_learning}
    about_profits = (
        "Their\n# profits follow from [rates]."
        if rates
        else "They\n# may report profits within wide bounds, for a rehearsal: narrow profit_bounds before money flows."
    )
    return (
        "# The operator's terms, which everybody agrees to before the first round. Every key is described in the\n"
        f"# reference of federations on Flower.\n\n{toml_lines(top)}"
        + "".join(f"\n[{name}]\n{toml_lines(values)}" for name, values in tables.items())
        + "\n# Clients, each known by the public key of its SuperNode, created with `commonweal flower member`. "
        f"{about_profits}\n"
    )


def _common_settings(scenario: Scenario) -> dict[str, Any]:
    """Settings that are the same for all members, without those that name files, which members keep."""
    task = scenario.task
    return {
        key: value for key, value in task.settings.items() if key not in _OF_TASK and not _is_there(task.folder, value)
    }


def _member(client: ClientSpec, scenario: Scenario, rows: str | None) -> NewMember:
    task = scenario.task
    settings: dict[str, Any] = {}
    files: dict[str, bytes] = {}
    if rows is not None:
        settings["table"], files[f"{DATA}.csv"] = f"{DATA}.csv", rows.encode()
    elif task.kind == "table":
        table = str({**task.settings, **client.settings}.get("table", ""))
        path = path_of(table) if is_packaged(table) else task.folder / table
        settings["table"] = f"{DATA}{path.suffix}"
        files[settings["table"]] = _content(path)
    else:
        for key, value in {**task.settings, **client.settings}.items():
            if key != "file" and (key in client.settings or _is_there(task.folder, value)):
                settings[key] = _kept(key, value, task.folder, files)
    figures = PrivateFigures(
        unit_value=client.unit_value,
        cost_per_sample=client.cost_per_sample,
        cost_per_step=client.cost_per_step,
        cost_per_round=client.cost_per_round,
        worth_curve=client.worth_curve,
    )
    bound, rates = _largest_profit(client, task.metric), scenario.mechanism.rates
    return NewMember(
        name=client.name,
        figures=figures,
        settings=settings,
        files=files,
        profit_bounds=(-bound, bound) if rates is None else None,
        own_class=None if rates is None else rates.classes.get(client.name),
        misconduct={
            "reported_profit": client.reported_profit,
            "defect": None if client.defect is None else defect_document(client.defect),
        },
    )


def _is_there(folder: Path, value: object) -> bool:
    """Whether the value of a setting is the path of a file or folder."""
    try:
        return isinstance(value, str) and bool(value.strip()) and (folder / value).exists()
    except (OSError, ValueError):  # too long for a path, or with a zero byte
        return False


def _kept(key: str, value: Any, folder: Path, files: dict[str, bytes]) -> Any:
    """A setting as the member has it: a file that it names is copied beside, and a folder stays where it is."""
    if not _is_there(folder, value):
        return value
    path = folder / value
    if path.is_dir():
        return str(path.resolve())
    name = path.name if path.name not in files else f"{key}-{path.name}"
    files[name] = _content(path)
    return name


def _largest_profit(client: ClientSpec, metric: Metric) -> float:
    """A power of ten that no profit will exceed."""
    gain = metric.highest - metric.lowest
    if client.worth_curve is not None:
        worths = [worth for _, worth in client.worth_curve]
        gain = max(worths) - min(worths)
    if not math.isfinite(gain):
        gain = _UNBOUNDED
    cost = client.cost_per_round + _SAMPLES * client.cost_per_sample + _STEPS * client.cost_per_step
    largest = max(client.unit_value * gain + cost, abs(client.reported_profit or 0.0))
    return 10.0 ** max(0, math.ceil(math.log10(largest))) if largest > 0 else 1.0


def _code(scenario: Scenario) -> tuple[str, dict[str, bytes]]:
    """The app's task.py, and the modules that it imports from beside it."""
    settings = scenario.task.settings
    if scenario.task.kind == "file":
        path = scenario.task.folder / settings["file"]
        read_task(path)  # a task that cannot run here cannot run there
        content = _content(path)
        return content.decode(), _neighbours(content, path.parent)
    common = pprint.pformat({key: v for key, v in settings.items() if key not in _OF_TASK}, width=110, sort_dicts=False)
    text = (
        f'"""{_ABOUT_THE_TABLE}"""\n\nfrom commonweal.tables.federated import table_task\n\n'
        f"task = table_task({common})\n"
    )
    return text, {}


def _neighbours(content: bytes, folder: Path) -> dict[str, bytes]:
    """The modules and packages in `folder` that this code imports, and those that they import."""
    found: dict[str, bytes] = {}
    waiting = [content]
    while waiting:
        for name in _imported(waiting.pop()):
            module, package = folder / f"{name}.py", folder / name
            paths = [module] if module.is_file() else sorted(package.rglob("*.py")) if package.is_dir() else []
            for path in paths:
                key = path.relative_to(folder).as_posix()
                if key not in found:
                    found[key] = _content(path)
                    waiting.append(found[key])
    return found


def _imported(content: bytes) -> list[str]:
    """The first parts of the names that the code imports."""
    names = []
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.append(node.module)
    return [name.partition(".")[0] for name in names]


def _content(path: Path) -> bytes:
    try:
        return read_bounded(path, LARGEST_DATA)
    except OSError as error:
        raise StorageError(f"Cannot read {path}: {os_reason(error)}.") from None
