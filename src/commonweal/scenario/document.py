"""A scenario as a plain document with the keys of its TOML file, for JSON and for comparisons; and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict

from commonweal.decision.mechanisms import mechanism_class
from commonweal.records import AgreedRates
from commonweal.records.rates import MEMBERS
from commonweal.scenario.agreement import ignored_keys
from commonweal.scenario.assembly import assemble
from commonweal.scenario.faults import Faults
from commonweal.scenario.keys import defect_kind
from commonweal.scenario.rates import CLASS
from commonweal.scenario.spec import ClientSpec, Defect, LearningSpec, MechanismSpec, Scenario, TaskSpec

# The first version listed this parameter with every algorithm; digests of older runs depend on it.
_ALWAYS_LISTED = {"proximal_weight": None}


def to_document(scenario: Scenario) -> dict[str, object]:
    """All values, including defaults, in a stable order; what does not apply is None, and an infinite μ is "inf"."""
    is_images = scenario.task.kind == "images"
    defaults = {} if scenario.site_defaults is None else {"defaults": dict(scenario.site_defaults)}
    return {
        "name": scenario.name,
        "description": scenario.description,
        "rounds": scenario.round_count,
        "seed": scenario.seed,
        "mechanism": _mechanism(scenario.mechanism),
        **_rates(scenario.mechanism.rates),
        "learning": _learning(scenario.learning, scenario.task),
        **({"data": asdict(scenario.data)} if is_images else {}),
        **_task(scenario.task),
        **defaults,
        "clients": [_client(client, scenario.mechanism.rates) for client in scenario.clients],
    }


def from_document(document: Mapping[str, object], origin: str = "the document") -> Scenario:
    """The scenario of a document, checked like a TOML file; `origin` names it in messages."""
    return assemble(document, Faults(origin))


def digest(scenario: Scenario) -> str:
    """SHA-256 of the scenario's content, in hexadecimal; how its file is written does not matter."""
    canonical = json.dumps(
        to_document(scenario), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(canonical.encode()).hexdigest()


def _mechanism(mechanism: MechanismSpec) -> dict[str, object]:
    rules = mechanism.rules.to_document()
    rules.pop("seed", None)  # that of the scenario
    kind = {"kind": rules.pop("mechanism"), **rules.pop("parameters")} if "mechanism" in rules else {}
    rules |= dict.fromkeys(mechanism_class(mechanism.rules).ignored_rules())
    # Digests of older runs depend on the absence of what they could not choose.
    utility = {} if mechanism.utility == "gain" else {"utility": mechanism.utility}
    score = {} if mechanism.contribution_score == "metric" else {"contribution_score": mechanism.contribution_score}
    scorers = {} if mechanism.scorers == "all" else {"scorers": mechanism.scorers}
    return {
        "mu": rules.pop("mu"),
        "contribution": mechanism.measure,
        **rules,
        **kind,
        "grace_rounds": mechanism.grace_rounds,
        "evaluation_limit": mechanism.evaluation_limit,
        **utility,
        **score,
        **scorers,
        **({} if mechanism.figures == "measured" else {"figures": mechanism.figures}),
        **({} if mechanism.harm == "none" else {"harm": mechanism.harm}),
        **({} if mechanism.ending == "none" else {"ending": mechanism.ending}),
        **({} if mechanism.rates is None else {"profits": "rates"}),
    }


def _rates(rates: AgreedRates | None) -> dict[str, object]:
    """The table [rates]; clients have their classes with them."""
    if rates is None:
        return {}
    return {"rates": {key: value for key, value in rates.to_document().items() if key != MEMBERS}}


def _task(task: TaskSpec) -> dict[str, object]:
    """What differs from images and accuracy; digests of older runs depend on its absence."""
    metric = {} if task.metric_name == "accuracy" else {"metric": task.metric_name}
    direction = {"lower_is_better": True} if task.lower_is_better else {}
    document = {**task.settings, **metric, **direction}
    return {"task": document} if document else {}


def _learning(learning: LearningSpec, task: TaskSpec) -> dict[str, object]:
    document: dict[str, object] = {}
    ignored = ignored_keys(task)["learning"]
    for key, value in asdict(learning).items():
        document |= {**_ALWAYS_LISTED, **value} if key == "parameters" else {key: value}
    return {key: value for key, value in document.items() if key not in ignored}


def _client(client: ClientSpec, rates: AgreedRates | None) -> dict[str, object]:
    document = asdict(client) | {"defect": None if client.defect is None else defect_document(client.defect)}
    default = asdict(ClientSpec(name=client.name))
    for key in ("worth_curve", "reported_profit", "settings", "source", "samples_per_round"):
        if document[key] == default[key]:  # digests of older runs depend on the absence of the first three
            del document[key]
    own_class = {} if rates is None or not rates.classes else {CLASS: rates.classes[client.name]}
    return document | own_class


def defect_document(defect: Defect) -> dict[str, object]:
    """A defect with the keys of its table."""
    return {"kind": defect_kind(defect), **asdict(defect)}
