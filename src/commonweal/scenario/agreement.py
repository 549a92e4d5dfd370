"""Rules that involve several keys. Each is checked only if its keys are valid, so that no error is reported twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from commonweal.names import look_alikes
from commonweal.scenario.algorithms import ALGORITHMS, users_of
from commonweal.scenario.faults import Faults, shown
from commonweal.scenario.keys import (
    FEWEST_CLIENTS,
    MOST_CLIENTS,
    RAW_RULE_CLIENTS,
    defect_kind,
)
from commonweal.scenario.spec import DataDefect, LearningSpec, MechanismSpec, TaskSpec
from commonweal.scenario.toml_table import TomlTable
from commonweal.valuation.harm import FEWEST_SCORERS
from commonweal.valuation.measure import Measure
from commonweal.valuation.registry import MEASURES

Values = Mapping[str, Any]
_DEFAULT_MEASURE = MechanismSpec.__dataclass_fields__["measure"].default


def check_mechanism(table: TomlTable, values: Values, client_count: int) -> None:
    faults, path = table.faults, table.path
    if values.get("contribution_rule") == "raw" and client_count > RAW_RULE_CLIENTS:
        faults.add(
            (*path, "contribution_rule"),
            f'contribution_rule = "raw" allows at most {RAW_RULE_CLIENTS} clients, got {client_count}',
            'Write contribution_rule = "clip"',
        )
    if values.get("utility") == "advantage" and values.get("figures", "measured") != "measured":
        faults.add(
            (*path, "figures"),
            f'figures = "{values["figures"]}" pools gains over the last round, and utility = "advantage" counts the '
            "advantage over a model trained alone instead",
            'Write figures = "measured", or remove utility = "advantage"',
        )
    _check_harm_and_ending(table, values)
    if not _sound(table, values, "contribution", "evaluation_limit"):
        return
    measure = MEASURES[values.get("contribution", _DEFAULT_MEASURE)]
    limit = values.get("evaluation_limit")
    if measure.client_limit is not None and client_count > measure.client_limit:
        faults.add(
            (*path, "contribution"),
            f'contribution = "{measure.name}" allows at most {measure.client_limit} clients, got {client_count}',
            'Write contribution = "adaptive" and evaluation_limit = 500',
        )
    _check_scorers(table, values, measure)
    if not measure.is_sampled:
        if limit is not None:
            sampled = ", ".join(name for name, other in MEASURES.items() if other.is_sampled)
            faults.add(
                (*path, "evaluation_limit"),
                f'evaluation_limit is only for {sampled}, not for contribution = "{measure.name}"',
                "Remove it",
            )
        return
    fewest = measure.fewest_evaluations(client_count)
    if limit is None:
        faults.add(
            (*path, "contribution"),
            f'contribution = "{measure.name}" needs evaluation_limit, the most coalition models per round',
            f"Add e.g. evaluation_limit = {max(64, 4 * fewest)}",
        )
    elif limit < fewest:
        faults.add(
            (*path, "evaluation_limit"),
            f'evaluation_limit must be at least {fewest} for "{measure.name}" and {client_count} clients, got {limit}',
            f"Write e.g. {max(64, 4 * fewest)}",
        )


def _check_harm_and_ending(table: TomlTable, values: Values) -> None:
    """Harm is seen in the effects on each scorer, and the end in what is expected of the next round."""
    harm, ending = values.get("harm", "none"), values.get("ending", "none")
    measure = values.get("contribution", _DEFAULT_MEASURE)
    if harm != "none" and measure != "path" and _sound(table, values, "contribution"):
        table.faults.add(
            (*table.path, "harm"),
            f'harm = "{harm}" needs contribution = "path", got "{measure}": by other measures, a negative contribution '
            "is no sign of harm",
            'Write contribution = "path", or remove harm',
        )
    figures = values.get("figures", "measured")
    if ending != "none" and figures != "forecast" and _sound(table, values, "figures"):
        table.faults.add(
            (*table.path, "ending"),
            f'ending = "{ending}" needs figures = "forecast", got "{figures}": only forecasts say what the next round '
            "brings",
            'Write figures = "forecast", or remove ending',
        )


def check_who_sees_harm(table: TomlTable, values: Values, client_count: int) -> None:
    """Where clients are known from the start; the sites of a table are not."""
    harm = values.get("harm", "none")
    if harm != "none" and client_count <= FEWEST_SCORERS:
        table.faults.add(
            (*table.path, "harm"),
            f'harm = "{harm}" needs at least {FEWEST_SCORERS + 1} clients, got {client_count}: with fewer, too few '
            "others can say who does harm",
            "Remove harm",
        )


def _check_scorers(table: TomlTable, values: Values, measure: Measure) -> None:
    faults, path = table.faults, table.path
    if measure.uses_gradients and values.get("contribution_score") == "metric":
        faults.add(
            (*path, "contribution_score"),
            f'contribution = "{measure.name}" is measured on the smooth score, since a metric has no gradient',
            'Write contribution_score = "smooth", or leave it out',
        )
    if measure.name == "quantity":
        for key in ("contribution_score", "scorers"):
            if key in values:
                problem = f'contribution = "quantity" counts samples, so {key} has no effect'
                faults.add((*path, key), problem, "Remove it")


def check_smooth_score(table: TomlTable, values: Values, learning: Values) -> None:
    """What contributions on a smooth score, or by its gradient, do not go together with."""
    faults, path = table.faults, table.path
    refusal = ALGORITHMS[learning.get("algorithm", LearningSpec().algorithm)].path_refusal
    measure = MEASURES[values.get("contribution", _DEFAULT_MEASURE)]
    if measure.uses_gradients and refusal:
        faults.add((*path, "contribution"), refusal, 'Write contribution = "marginal", or another algorithm')
    is_smooth = not measure.uses_gradients and values.get("contribution_score") == "smooth"
    if is_smooth and learning.get("score") == "probability":
        faults.add(
            (*path, "contribution_score"),
            'score = "probability" in [learning] already measures everything on the smooth score',
            "Remove one of them",
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
                f"{key} is only for the algorithm {' or '.join(users)}, not for {algorithm}",
                f'Remove it, or write algorithm = "{users[0]}"',
            )


_ONLY_IMAGES = {
    "learning": ("model", "score", "batch_size", "local_epochs"),
    "data": ("validation_share", "label_skew"),
    "defaults": ("source", "samples_per_round"),
}
_OF_TABLE = ("batch_size", "local_epochs", "validation_share", "model")


def ignored_keys(task: TaskSpec) -> Mapping[str, tuple[str, ...]]:
    """The keys of each table that the task would ignore."""
    if task.kind == "images":
        return dict.fromkeys(_ONLY_IMAGES, ())
    return _ONLY_IMAGES


def check_task(
    tables: Mapping[str, TomlTable], values: Mapping[str, Values], clients: Sequence[Values], task: TaskSpec
) -> None:
    """Keys that only built-in images have are refused with other tasks, where they would be ignored."""
    _check_curves(tables, values, clients, task)
    if task.kind == "images":
        return
    faults = tables["learning"].faults
    what = "the task's own file" if task.kind == "file" else "a table"
    for name, keys in _ONLY_IMAGES.items():
        for key in keys:
            if key in values[name]:
                way_out = "Move it to [task]" if task.kind == "table" and key in _OF_TABLE else "Remove it"
                faults.add((name, key), f"{key} is only for images, and this task is {what}", way_out)
    rate = task.settings.get("learning_rate")
    common = values["learning"].get("learning_rate", LearningSpec().learning_rate)
    if task.kind == "table" and values["learning"].get("algorithm") == "scaffold" and rate not in (None, common):
        faults.add(
            ("task", "learning_rate"),
            f"SCAFFOLD needs the learning rate of [learning], which is {common:g}, got {shown(rate)} in [task]",
            "Write it in [learning] only",
        )
    for position, client in enumerate(clients):
        for key in _ONLY_IMAGES["defaults"]:
            if key in client and key not in values["defaults"]:
                faults.add(
                    ("clients", position, key), f"{key} is only for images, and this task is {what}", "Remove it"
                )
        if isinstance(client["defect"], DataDefect):
            kind, name = defect_kind(client["defect"]), shown(client.get("name"))
            faults.add(
                ("clients", position, "defect"),
                f"defects of the data are only for images, and this task is {what}, got {kind} for client {name}",
                "Change the client's data instead",
            )


def _check_curves(
    tables: Mapping[str, TomlTable], values: Mapping[str, Values], clients: Sequence[Values], task: TaskSpec
) -> None:
    """A better metric must not be worth less."""
    metric = task.metric
    for position, client in enumerate(clients):
        worths = [worth for _, worth in client.get("worth_curve") or ()]
        ordered = worths if metric.higher_is_better else worths[::-1]
        if any(later < earlier for earlier, later in pairwise(ordered)):
            path = ("defaults",) if client["worth_curve"] is values["defaults"].get("worth_curve") else None
            direction = "falls" if metric.higher_is_better else "rises"
            tables["learning"].faults.add(
                (*(path or ("clients", position)), "worth_curve"),
                f"worth_curve {direction} with {metric.label}, so a better model would be worth less",
                "Reverse it",
            )
            if path is not None:
                return


def check_client_count(count: int, faults: Faults) -> None:
    if count == 0:
        faults.add(
            ("clients",),
            f"a federation needs at least {FEWEST_CLIENTS} clients, got none",
            "Add a [[clients]] table for each",
        )
    elif count < FEWEST_CLIENTS:
        faults.add(
            ("clients", 0),
            f"a federation needs at least {FEWEST_CLIENTS} clients, got only this one",
            "Add another [[clients]] table",
        )
    elif count > MOST_CLIENTS:
        faults.add(
            ("clients", MOST_CLIENTS),
            f"a federation can have at most {MOST_CLIENTS} clients, got {count}",
            "Split it into several federations",
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
                f"clients {first + 1} and {position + 1} have the same name {shown(client['name'])}",
                "Rename one of them",
            )
    if (pair := look_alikes(seen)) is not None:
        one, other = (seen[name] for name in pair)
        faults.add(
            ("clients", other, "name"),
            f"clients {one + 1} and {other + 1} have names that look the same, {pair[0]!a} and {pair[1]!a}",
            "Rename one of them",
        )


def _sound(table: TomlTable, values: Values, *keys: str) -> bool:
    """Whether none of these keys was given with an invalid value."""
    return all(key in values or key not in table.given for key in keys)
