"""The operator's file: the terms of a federation, and its clients.

Every key is described in docs/reference/flower.md.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from commonweal.decision.mechanisms import MECHANISMS
from commonweal.decision.mechanisms.own_file import load_mechanism
from commonweal.errors import CommonwealError
from commonweal.federation.agreed import agreed_rules
from commonweal.ledger.agreed_rules import AgreedRules
from commonweal.ledger.node_keys import read_node_public_key
from commonweal.records import MechanismFile, Rates
from commonweal.scenario.agreement import (
    check_client_count,
    check_distinct_names,
    check_learning,
    check_mechanism,
    check_smooth_score,
    check_who_sees_harm,
)
from commonweal.scenario.algorithms import ALGORITHMS, complete_parameters, parameter_kinds, users_of
from commonweal.scenario.assembly import DEFAULT_SEED, make_mechanism, read_mechanism, subtable
from commonweal.scenario.description import Description, plan_settings
from commonweal.scenario.faults import Faults, shown
from commonweal.scenario.keys import LEARNING_KEYS, SCENARIO_KEYS, TASK_KEYS, Keys
from commonweal.scenario.kinds import Kind, name, number, whole_number
from commonweal.scenario.rates import CLASS, read_rates, take_classes
from commonweal.scenario.spec import LearningSpec, MechanismSpec, TaskSpec
from commonweal.scenario.toml_file import read_tables
from commonweal.scenario.toml_table import TomlTable, present
from commonweal.valuation.rates import rated_cost

DECLARED = (
    "sample_count", "training_count", "validation_count", "accuracy", "previous_accuracy", "profit",
)  # fmt: skip
"""Figures that clients declare and the coordinator cannot check. Contributions follow from the accuracies they sent."""

_LEARNING_KEYS: Keys = MappingProxyType(
    {
        **{key: LEARNING_KEYS[key] for key in ("iteration_limit", "stop_below", "algorithm", "learning_rate")},
        **parameter_kinds(),
    }
)
_NEW_LEARNING_KEYS = ("algorithm", "learning_rate", "parameters")  # that version 0.1.0 did not have
_SECONDS = number("a number of seconds from 1 to 1e6", "600", lambda seconds: 1 <= seconds <= 1e6)
_TERMS_KEYS: Keys = MappingProxyType(
    {
        "quorum": number(
            "a share of the active members, more than 0 and at most 1", "0.5", lambda share: 0 < share <= 1
        ),
        "silence_charge": whole_number(1, 10**15, example=1000),
        "silence_limit": whole_number(1, 10**6, example=3),
    }
)
_WAITING_KEYS: Keys = MappingProxyType({"answer_seconds": _SECONDS, "join_seconds": _SECONDS, "late_seconds": _SECONDS})


def _bounds() -> Kind:
    def read(value: object) -> tuple[float, float]:
        if not isinstance(value, list) or len(value) != 2:
            raise ValueError
        low, high = (_FINITE.read(bound) for bound in value)
        if not low < high:
            raise ValueError
        return low, high

    return Kind(rule="two numbers from -1e30 to 1e30, the smaller first", example="[-1.0, 1.0]", read=read)


_FINITE = number("", "1.0", lambda figure: abs(figure) <= 1e30)
_CLIENT_KEYS: Keys = MappingProxyType(
    {
        "name": name(60, "north"),
        "key_file": name(1000, "north.pub"),
        "profit_bounds": _bounds(),
        "most_samples": whole_number(1, 10**12, example=1000),
        CLASS: name(60, "hospital"),
    }
)
_LARGEST_GAIN, _MOST_SAMPLES = 1e4, 10**6  # of a metric without bounds, and in a round, generously


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTerms:
    """One client as the operator knows it."""

    name: str
    key: str  # its SuperNode's public key: whoever signs with the private one is this client
    profit_bounds: tuple[float, float] = (-1.0, 1.0)  # a client that reports a profit outside them is absent
    most_samples: int | None = None  # that it may declare as new per round; None: any number


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationLearning:
    """When a round has learned enough, and the algorithm that members learn with."""

    iteration_limit: int = LearningSpec().iteration_limit
    stop_below: float = LearningSpec().stop_below
    algorithm: str = LearningSpec().algorithm
    learning_rate: float = LearningSpec().learning_rate
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", complete_parameters(self.algorithm, self.parameters))

    @property
    def for_members(self) -> dict[str, Any]:
        """What members must know of it."""
        return {
            "algorithm": self.algorithm,
            "parameters": dict(self.parameters),
            "learning_rate": self.learning_rate,
            "iteration_limit": self.iteration_limit,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """The terms of a federation, with the keys of its clients."""

    name: str
    description: str
    round_count: int
    seed: int
    clients: tuple[ClientTerms, ...]
    mechanism: MechanismSpec
    learning: FederationLearning
    task: TaskSpec = field(default_factory=TaskSpec)
    answer_seconds: float = 600.0  # a client that has not answered a question by then is absent from the round
    join_seconds: float = 300.0  # how long the first round waits for SuperNodes to connect
    late_seconds: float | None = None  # by how much a client may be later than most, in all in a round; None: as above
    terms: Mapping[str, Any] = field(default_factory=dict, hash=False)  # quorum and what silence costs, where agreed on

    def __post_init__(self) -> None:
        object.__setattr__(self, "mechanism", self.mechanism.seeded(self.seed))

    @property
    def agreed(self) -> AgreedRules:
        """What its ledger states before the first round."""
        return agreed_rules(
            self,
            profit_bounds={client.name: client.profit_bounds for client in self.clients},
            most_samples={
                client.name: client.most_samples for client in self.clients if client.most_samples is not None
            },
            **self.terms,
        )

    @property
    def client_names(self) -> tuple[str, ...]:
        return tuple(client.name for client in self.clients)

    @property
    def keys(self) -> dict[str, str]:
        return {client.name: client.key for client in self.clients}

    def terms_of(self, client: str) -> ClientTerms:
        return next(terms for terms in self.clients if terms.name == client)

    def document(self) -> dict[str, Any]:
        """Everything except how long to wait, in the types of JSON."""
        document = asdict(self)
        del document["answer_seconds"], document["join_seconds"], document["late_seconds"]
        document["mechanism"]["rules"] = self.mechanism.rules.to_document()
        # Digests of older federations depend on the absence of what they could not choose.
        if not self.terms:
            del document["terms"]
        if self.mechanism.rates is None:
            del document["mechanism"]["rates"]
        else:
            document["mechanism"]["rates"] = self.mechanism.rates.to_document()
        if self.mechanism.utility == "gain":
            del document["mechanism"]["utility"]
        for key in ("contribution_score", "scorers", "figures", "harm", "ending"):
            if document["mechanism"][key] == MechanismSpec.__dataclass_fields__[key].default:
                del document["mechanism"][key]
        usual = asdict(FederationLearning())
        if all(document["learning"][key] == usual[key] for key in _NEW_LEARNING_KEYS):
            for key in _NEW_LEARNING_KEYS:
                del document["learning"][key]
        del document["task"]
        task = {"metric": self.task.metric_name, "lower_is_better": self.task.lower_is_better}
        if self.task.settings:
            document["task"] = {**task, "settings": dict(self.task.settings)}
        elif task != {"metric": TaskSpec().metric_name, "lower_is_better": False}:
            document["task"] = task
        return document

    def digest(self) -> str:
        """Identifies the terms that a checkpoint belongs to."""
        return hashlib.sha256(json.dumps(self.document(), sort_keys=True).encode()).hexdigest()

    def description_for_readers(self) -> Description:
        rates = self.mechanism.rates
        return Description(
            settings=plan_settings(self, {"runs on": "Flower", "algorithm": self.learning.algorithm}),
            client_facts={
                client.name: {
                    "SuperNode key": f"{client.key[:24]}…",
                    **({CLASS: rates.classes[client.name]} if rates is not None and rates.classes else {}),
                    "profit bounds": f"{client.profit_bounds[0]:g} to {client.profit_bounds[1]:g}",
                    "unit value and costs": "private",
                }
                for client in self.clients
            },
            document=self.document(),
            declared=DECLARED if rates is None else tuple(figure for figure in DECLARED if figure != "profit"),
        )


def read_federation(path: Path) -> Federation:
    """Read a federation's file; paths of keys are relative to it."""
    document, faults = read_tables(path, "a federation's file", "Write one with `commonweal flower new`.")
    root = TomlTable(given=present(document), path=(), faults=faults)
    top = root.read(
        SCENARIO_KEYS,
        needed=("name", "rounds"),
        tables=("mechanism", "rates", "learning", "waiting", "clients", "task", "terms"),
    )
    mechanism = subtable(root, "mechanism")
    mechanism_values = read_mechanism(mechanism, path.resolve().parent)
    learning_table = subtable(root, "learning")
    learning = learning_table.read(_LEARNING_KEYS)
    check_learning(learning_table, learning)
    refusal = ALGORITHMS[learning.get("algorithm", LearningSpec().algorithm)].remote_refusal
    if refusal:
        faults.add(("learning", "algorithm"), refusal, 'Write e.g. algorithm = "fedavg"')
    task = _task(subtable(root, "task"))
    waiting = subtable(root, "waiting").read(_WAITING_KEYS)
    terms = subtable(root, "terms").read(_TERMS_KEYS)
    clients = _clients(root, path.resolve().parent)
    rates = read_rates(subtable(root, "rates"), mechanism, mechanism_values.get("profits", "private"))
    rates = take_classes(rates, clients, root)
    if rates is not None:
        for client in clients:
            client.setdefault("profit_bounds", _bounds_by(rates.of(client.get("name", "")), client, task))
    check_mechanism(mechanism, mechanism_values, len(clients))
    check_who_sees_harm(mechanism, mechanism_values, len(clients))
    check_smooth_score(mechanism, mechanism_values, learning)
    if mechanism_values.get("loss_rule") == "cost":
        faults.add(
            ("mechanism", "loss_rule"),
            'loss_rule = "cost" needs costs, which never leave the clients',
            'Write loss_rule = "loss", "contribution" or "equal"',
        )
    refusal = _refusal_of_mechanism(mechanism_values)
    if refusal:
        faults.add(("mechanism", "kind"), refusal, "Choose another mechanism")
    faults.raise_if_any()
    return Federation(
        name=top["name"],
        description=top.get("description", ""),
        round_count=top["rounds"],
        seed=top.get("seed", DEFAULT_SEED),
        clients=tuple(ClientTerms(**client) for client in clients),
        mechanism=make_mechanism(mechanism_values, rates),
        learning=_learning(learning),
        task=task,
        terms=terms,
        **waiting,
    )


def _bounds_by(rates: Rates | None, client: Mapping[str, Any], task: TaskSpec) -> tuple[float, float]:
    """Where the file states no profit bounds: a power of ten that no profit by these rates will exceed."""
    if rates is None:
        return -1.0, 1.0  # a fault of the file
    width = task.metric.highest - task.metric.lowest
    spent = rated_cost(rates, client.get("most_samples", _MOST_SAMPLES))
    largest = rates.gain * (width if math.isfinite(width) else _LARGEST_GAIN) + spent
    bound = 10.0 ** max(0, math.ceil(math.log10(largest))) if largest > 0 else 1.0
    return -bound, bound


def _refusal_of_mechanism(values: Mapping[str, Any]) -> str:
    """Why members on other machines cannot use the mechanism; "" if they can, or if it is not known."""
    kind = values.get("kind")
    if kind is None:
        return ""
    entry = load_mechanism(kind) if isinstance(kind, MechanismFile) else MECHANISMS[kind]
    refusal = entry.remote_refusal()
    return f'kind = "{entry.name}" {refusal}' if refusal else ""


def _learning(values: Mapping[str, Any]) -> FederationLearning:
    parameters = {key: value for key, value in values.items() if users_of(key)}
    return FederationLearning(**{key: v for key, v in values.items() if key not in parameters}, parameters=parameters)


def _task(table: TomlTable) -> TaskSpec:
    """The metric, and the settings that all members have in common, which are sent as JSON.

    A metric that is not built in is a function in the task's file, which members have.
    """
    values = replace(table, given={key: table.given[key] for key in TASK_KEYS if key in table.given}).read(TASK_KEYS)
    settings = {key: value for key, value in table.given.items() if key not in TASK_KEYS}
    for key, value in settings.items():
        try:
            json.dumps(value)
        except TypeError:
            table.faults.add(
                (*table.path, key), f"{key} must be a text, a number, true or false, or an array or table of them"
            )
    return TaskSpec(
        kind="file",
        metric_name=values.get("metric", TaskSpec().metric_name),
        lower_is_better=values.get("lower_is_better", False),
        settings=settings,
    )


def _clients(root: TomlTable, folder: Path) -> list[dict[str, Any]]:
    given = root.given.get("clients", [])
    if not isinstance(given, list) or not all(isinstance(client, Mapping) for client in given):
        root.faults.add(
            ("clients",),
            f"clients must be an array of tables, got {shown(given)}",
            "Write [[clients]] above each client",
        )
        return []
    check_client_count(len(given), root.faults)
    clients = []
    for position, client in enumerate(given):
        whose = f" for client {shown(client.get('name', f'number {position + 1}'))}"
        table = TomlTable(given=present(client), path=("clients", position), faults=root.faults, whose=whose)
        values = table.read(_CLIENT_KEYS, needed=("name", "key_file"))
        _read_key(values, folder, position, root.faults)
        clients.append(values)
    check_distinct_names(clients, root.faults)
    _check_distinct_keys(clients, root.faults)
    return clients


def _read_key(values: dict[str, Any], folder: Path, position: int, faults: Faults) -> None:
    """Replace the name of the key's file with the key."""
    if "key_file" not in values:
        return
    file = folder / values.pop("key_file")
    try:
        values["key"] = read_node_public_key(file)
    except CommonwealError as error:
        faults.add(("clients", position, "key_file"), str(error))


def _check_distinct_keys(clients: list[dict[str, Any]], faults: Faults) -> None:
    """No two clients may have the same key, since money is paid to the owner of a key."""
    seen: dict[str, int] = {}
    for position, client in enumerate(clients):
        first = seen.setdefault(client["key"], position) if "key" in client else position
        if first != position:
            faults.add(
                ("clients", position, "key_file"),
                f"clients {first + 1} and {position + 1} have the same key",
                "Each client must create its own key",
            )
