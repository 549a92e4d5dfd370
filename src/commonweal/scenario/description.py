"""A scenario in words, for people."""

from __future__ import annotations

from commonweal.scenario.spec import ClientSpec, Duplicates, LabelNoise, Noised, Scaled, Scenario, Untrained

_MEASURES = {
    "quantity": "quantity: new samples",
    "marginal": "marginal: what the model loses without the client",
    "shapley": "exact Shapley value",
}


def settings(scenario: Scenario) -> dict[str, str]:
    """What was run."""
    learning, mechanism = scenario.learning, scenario.mechanism
    described = {
        "leniency mu": f"{mechanism.rules.mu:g}",
        "contribution": _MEASURES.get(mechanism.measure, f"Shapley value, estimated ({mechanism.measure})"),
        "contribution rule": mechanism.rules.contribution_rule,
        "loss rule": mechanism.rules.loss_rule,
        "algorithm": learning.algorithm,
        "model": learning.model,
        "learning rate": f"{learning.learning_rate:g}",
        "batch size": str(learning.batch_size),
        "iterations a round": f"at most {learning.iteration_limit}",
        "rounds": str(scenario.round_count),
        "seed": str(scenario.seed),
    }
    if mechanism.evaluation_limit is not None:
        described["coalition models a round"] = f"at most {mechanism.evaluation_limit}"
    if mechanism.rules.liability_cap is not None:
        described["liability cap"] = f"{mechanism.rules.liability_cap:g}"
    if mechanism.grace_rounds:
        described["grace rounds"] = str(mechanism.grace_rounds)
    if scenario.data.label_skew is not None:
        described["label skew"] = f"Dirichlet({scenario.data.label_skew:g})"
    return described


def client_facts(scenario: Scenario) -> dict[str, dict[str, str]]:
    """What each client is."""
    return {client.name: _facts(client) for client in scenario.clients}


def _facts(client: ClientSpec) -> dict[str, str]:
    facts = {
        "source": client.source,
        "samples a round": f"{client.samples_per_round:g} on average",
        "unit value": f"{client.unit_value:g}",
        "cost per sample": f"{client.cost_per_sample:g}",
    }
    if client.cost_per_step:
        facts["cost per step"] = f"{client.cost_per_step:g}"
    if client.cost_per_round:
        facts["cost per round"] = f"{client.cost_per_round:g}"
    if client.defect is not None:
        facts["defect"] = _defect(client)
    return facts


def _defect(client: ClientSpec) -> str:
    match client.defect:
        case LabelNoise(probability=probability, training_only=training_only):
            return f"label noise, {probability:.0%} of labels wrong" + " (in training only)" * training_only
        case Duplicates(fraction=fraction):
            return f"duplicated data, {fraction:.0%} of declared samples are copies"
        case Untrained():
            return "free rider: returns the model untrained"
        case Noised(deviation=deviation):
            return f"free rider: returns the model with noise of {deviation:g} standard deviations"
        case Scaled(factor=factor):
            return f"free rider: returns the model times {factor:g}"
        case None:
            return "none"
