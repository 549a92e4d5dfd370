"""A federation's plan as the agreed rules of its ledger, and the plan that follows their amendments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from commonweal.decision.mechanisms import make_mechanism, mechanism_of_version
from commonweal.errors import FederationError
from commonweal.ledger.agreed_rules import AgreedRules
from commonweal.ledger.canonical import first_difference
from commonweal.scenario.spec import FederationPlan

_FOLLOWED = ("rules", "round_count", "grace_rounds", "rates")  # a running federation takes these over from an amendment
_FIXED = (
    "figures", "measure", "contribution_score", "scorers", "evaluation_limit", "utility", "metric", "harm", "ending",
    "profit_bounds", "most_samples",
)  # fmt: skip


def agreed_rules(plan: FederationPlan, **others: Any) -> AgreedRules:
    """What a ledger states of a plan before its first round; `others` are rules that not every plan has."""
    mechanism = plan.mechanism
    return AgreedRules(
        rules=mechanism.rules,
        rules_version=make_mechanism(mechanism.rules).version_in_ledgers,
        round_count=plan.round_count,
        grace_rounds=mechanism.grace_rounds,
        figures=mechanism.figures,
        measure=mechanism.measure,
        contribution_score=mechanism.contribution_score,
        scorers=mechanism.scorers,
        evaluation_limit=mechanism.evaluation_limit,
        utility=mechanism.utility,
        metric=plan.task.metric_name,
        harm=mechanism.harm,
        ending=mechanism.ending,
        rates=mechanism.rates,
        **others,
    )


def check_same_rules(own: AgreedRules, first: AgreedRules, in_force: AgreedRules) -> None:
    """Refuse a federation whose rules are neither those that its ledger was opened with nor those in force."""
    differences = [difference for terms in (first, in_force) if (difference := _difference(terms, own)) is not None]
    if len(differences) == 2:
        field, agreed, here = differences[-1]
        raise FederationError(
            f"The federation departs from the terms of its ledger: {field} is {agreed} in the terms and {here} here. "
            "Restore the federation's settings, use another ledger, or amend the terms."
        )


def _difference(terms: AgreedRules, own: AgreedRules) -> tuple[str, str, str] | None:
    names = (*_FOLLOWED, *_FIXED)
    one, other = terms.to_document(), own.to_document()
    return first_difference({name: one.get(name) for name in names}, {name: other.get(name) for name in names})


def plan_by_terms(plan: FederationPlan, own: AgreedRules, in_force: AgreedRules) -> FederationPlan:
    """The plan with the rules, grace rounds, rates and number of rounds in force; no other amendment is followed."""
    for name in _FIXED:
        if getattr(in_force, name) != getattr(own, name):
            raise _cannot_follow(name, getattr(in_force, name), getattr(own, name))
    if in_force.rules.mechanism != plan.mechanism.rules.mechanism:
        raise _cannot_follow("mechanism", in_force.rules.mechanism, plan.mechanism.rules.mechanism)
    own_file = replace(in_force.rules, file=plan.mechanism.rules.file)
    rules = mechanism_of_version(in_force.rules_version, own_file).rules
    rules = replace(rules, parameters=_in_order(plan, rules.parameters))
    changed: Any = plan  # every plan is a dataclass
    followed: FederationPlan = replace(
        changed,
        round_count=plan.round_count if in_force.round_count is None else in_force.round_count,
        mechanism=replace(plan.mechanism, rules=rules, grace_rounds=in_force.grace_rounds, rates=in_force.rates),
    )
    return followed


def _in_order(plan: FederationPlan, parameters: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
    """The parameters in the order in which the plan has them, so that unchanged rules are equal."""
    places = [name for name, _ in plan.mechanism.rules.parameters]
    return tuple(sorted(parameters, key=lambda each: places.index(each[0]) if each[0] in places else len(places)))


def _cannot_follow(name: str, in_force: object, own: object) -> FederationError:
    return FederationError(
        f"The terms of the ledger were amended, and a federation that has begun cannot follow: {name} is {in_force} in "
        f"the terms and {own} in the federation. Amend the terms back, or start a new federation with another ledger."
    )
