"""A scenario in words, for run reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from commonweal.decision.mechanism import Mechanism
from commonweal.decision.mechanisms import mechanism_class
from commonweal.records import AgreedRates
from commonweal.records.rounds import DEFAULT_MECHANISM
from commonweal.scenario.document import to_document
from commonweal.scenario.rates import CLASS
from commonweal.scenario.spec import (
    ClientSpec,
    Duplicates,
    FederationPlan,
    LabelFlip,
    LabelNoise,
    Noised,
    NoisedUpdate,
    Scaled,
    Scenario,
    SignFlip,
    TaskSpec,
    Untrained,
)
from commonweal.valuation.registry import MEASURES

FIGURES_IN_WORDS = {
    "measured": "profits as measured",
    "paired": "gains over the model that opened the round",
    "pooled": "gains pooled over clients",
    "forecast": "gains pooled over clients; selection by the expected profit of the next round",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a run report says about a federation, apart from its rounds."""

    settings: Mapping[str, str]
    client_facts: Mapping[str, Mapping[str, str]]
    document: Mapping[str, object]  # the whole scenario, for programs
    declared: tuple[str, ...]  # figures that clients state themselves


def describe(scenario: Scenario) -> Description:
    """A simulated client declares how many samples are new, and may lie; its profit is measured unless it lies."""
    rates = scenario.mechanism.rates
    is_misreported = rates is None and any(client.reported_profit is not None for client in scenario.clients)
    return Description(
        settings=settings(scenario),
        client_facts={client.name: _facts(client, rates) for client in scenario.clients},
        document=to_document(scenario),
        declared=("sample_count", "profit") if is_misreported else ("sample_count",),
    )


def settings(scenario: Scenario) -> dict[str, str]:
    """The settings of a scenario, by a name for people."""
    learning = scenario.learning
    of_learning = {
        **_task(scenario.task),
        "algorithm": learning.algorithm,
        **({"model": learning.model} if scenario.task.kind == "images" else {}),
        "learning rate": f"{learning.learning_rate:g}",
        "batch size": str(learning.batch_size),
    }
    described = plan_settings(scenario, of_learning)
    if scenario.data.label_skew is not None:
        described["label skew"] = f"Dirichlet({scenario.data.label_skew:g})"
    return described


def plan_settings(plan: FederationPlan, of_learning: Mapping[str, str]) -> dict[str, str]:
    """The settings that every federation has, and those of its learning."""
    mechanism = plan.mechanism
    rules = mechanism.rules
    entry = mechanism_class(rules)
    named = {"mechanism": entry.full_label()} if rules.mechanism != DEFAULT_MECHANISM else {}
    described = {
        **named,
        **_honoured(entry, "mu", {"leniency mu": f"{rules.mu:g}"}),
        **{name: f"{value:g}" for name, value in rules.parameters},
        "contribution": MEASURES[mechanism.measure].description,
        **_honoured(entry, "contribution_rule", {"contribution rule": rules.contribution_rule}),
        **_honoured(entry, "loss_rule", {"loss rule": rules.loss_rule}),
        **of_learning,
        "iterations per round": f"at most {plan.learning.iteration_limit}",
        "rounds": str(plan.round_count),
        "seed": str(plan.seed),
    }
    if mechanism.evaluation_limit is not None:
        described["coalition models per round"] = f"at most {mechanism.evaluation_limit}"
    if rules.liability_cap is not None:
        described["liability cap"] = f"{rules.liability_cap:g}"
    if mechanism.grace_rounds:
        described["grace rounds"] = str(mechanism.grace_rounds)
    if plan.task.metric_name != "accuracy":
        described["metric"] = plan.task.metric.label
    if mechanism.scores_coalitions_smoothly:
        described["contributions measured on"] = "the smooth score"
    if mechanism.scorers == "guarded":
        described["scorers"] = "guarded against false scores"
    if mechanism.utility == "advantage":
        described["utility"] = "the advantage over a model trained alone"
    if mechanism.figures != "measured":
        described["figures"] = FIGURES_IN_WORDS[mechanism.figures]
    if mechanism.rates is not None:
        described["profits"] = f"by agreed rates: {mechanism.rates.in_words}"
    if mechanism.harm != "none":
        described["harmful clients"] = "eliminated" if mechanism.harm == "eliminate" else "reported to the operator"
    if mechanism.ending != "none":
        told = "ends the federation" if mechanism.ending == "stop" else "reported to the operator"
        described["no round that pays"] = told
    return described


def _task(task: TaskSpec) -> dict[str, str]:
    """What a task other than images learns from: its settings, apart from nested ones."""
    given = {} if task.kind == "images" else task.settings
    return {name: str(value) for name, value in given.items() if isinstance(value, str | int | float)}


def _honoured(entry: type[Mechanism], rule: str, described: dict[str, str]) -> dict[str, str]:
    return {} if rule in entry.ignored_rules() else described


def _facts(client: ClientSpec, rates: AgreedRates | None) -> dict[str, str]:
    of_images = {"source": client.source, "samples per round": f"{client.samples_per_round:g} on average"}
    facts = {
        **(of_images if client.source else {}),
        **({CLASS: rates.classes[client.name]} if rates is not None and rates.classes else {}),
        "unit value": f"{client.unit_value:g}",
        "cost per sample": f"{client.cost_per_sample:g}",
    }
    if client.cost_per_step:
        facts["cost per step"] = f"{client.cost_per_step:g}"
    if client.cost_per_round:
        facts["cost per round"] = f"{client.cost_per_round:g}"
    if client.defect is not None:
        facts["defect"] = _defect(client)
    if client.reported_profit is not None and rates is not None:
        facts["reported profit"] = f"{client.reported_profit:g}, which nobody asks for: profits follow from rates"
    elif client.reported_profit is not None:
        facts["reported profit"] = f"{client.reported_profit:g} in every round, instead of the truth"
    return facts


def _defect(client: ClientSpec) -> str:
    match client.defect:
        case LabelNoise(probability=probability, training_only=training_only):
            return f"label noise, {probability:.0%} of labels wrong" + " (in training only)" * training_only
        case LabelFlip(fraction=fraction, training_only=training_only):
            return f"flipped labels, {fraction:.0%} of labels" + " (in training only)" * training_only
        case Duplicates(fraction=fraction):
            return f"duplicated data, {fraction:.0%} of declared samples are copies"
        case Untrained():
            return "free rider: returns the model untrained"
        case Noised(deviation=deviation):
            return f"free rider: returns the model with noise of {deviation:g} standard deviations"
        case Scaled(factor=factor):
            return f"free rider: returns the model times {factor:g}"
        case SignFlip(factor=factor):
            return f"poisoner: sends its update times {-factor:g}"
        case NoisedUpdate(ratio=ratio):
            return f"poisoner: adds noise of {ratio:g} times the length of its update"
        case None:
            return "none"
