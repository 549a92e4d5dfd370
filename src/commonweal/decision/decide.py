"""From the figures of a round to a decision."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from commonweal.decision.envelope import PATH_LIMIT, trace
from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.mu_path import MuPath
from commonweal.decision.objective import objective
from commonweal.decision.problem import Choice, ClipProblem, Problem, choose, used_contributions
from commonweal.decision.raw import RawProblem
from commonweal.decision.transfers import divide
from commonweal.decision.validation import check_figures, check_mu, check_name, check_rules, figure_array
from commonweal.errors import InputError
from commonweal.records import ContributionRule, Decision, Figures, LossRule, Rules


def decide(
    *,
    profits: Mapping[str, float],
    contributions: Mapping[str, float],
    mu: float,
    contribution_rule: ContributionRule = "clip",
    loss_rule: LossRule = "contribution",
    costs: Mapping[str, float] | None = None,
    liability_cap: float | None = None,
    grace: bool = False,
) -> Decision:
    """Decide one round: who stays, and who pays whom.

    `profits` are utility − cost before any transfer, `contributions` any measure of what each client brought;
    the order of `profits` is the order of clients. `costs` serve the loss rule "cost" alone. With `grace`
    nobody is eliminated, and transfers are made as usual.
    """
    figures = Figures(profits=profits, contributions=contributions, costs=costs)
    rules = Rules(mu=mu, contribution_rule=contribution_rule, loss_rule=loss_rule, liability_cap=liability_cap)
    return decide_figures(figures, rules, grace=grace)


def decide_figures(figures: Figures, rules: Rules, *, grace: bool = False) -> Decision:
    """As `decide`, from records."""
    profits, contributions, costs = check_figures(figures)
    check_rules(rules, has_costs=costs is not None)
    used = used_contributions(contributions, rules.contribution_rule)
    if grace or not (profits < 0).any():
        choice = Choice(retained=np.ones(len(profits), np.bool_))
    else:
        choice = choose(make_problem(profits, used, rules.contribution_rule), len(profits), float(rules.mu))
    return _assemble(figures, rules, profits, used, costs, choice, grace=grace)


def decision_with(figures: Figures, rules: Rules, retained: Container[str]) -> Decision:
    """The round as it is when these clients are retained, whether or not a μ would choose them; nothing is solved.

    The objective is that of the rules' μ.
    """
    profits, contributions, costs = check_figures(figures)
    check_rules(rules, has_costs=costs is not None)
    used = used_contributions(contributions, rules.contribution_rule)
    choice = Choice(retained=np.array([client in retained for client in figures.clients], np.bool_))
    return _assemble(figures, rules, profits, used, costs, choice)


def mu_path(
    *,
    profits: Mapping[str, float],
    contributions: Mapping[str, float],
    contribution_rule: ContributionRule = "clip",
    loss_rule: LossRule = "contribution",
    costs: Mapping[str, float] | None = None,
    liability_cap: float | None = None,
    limit: int = PATH_LIMIT,
    progress: Callable[[int], None] | None = None,
) -> MuPath:
    """The decision for every μ from 0 to infinity.

    `limit` bounds the number of breakpoints; `path.complete` tells whether it sufficed. `progress` is called
    with the number of breakpoints found so far.
    """
    figures = Figures(profits=profits, contributions=contributions, costs=costs)
    rules = Rules(mu=0.0, contribution_rule=contribution_rule, loss_rule=loss_rule, liability_cap=liability_cap)
    return mu_path_of_figures(figures, rules, limit=limit, progress=progress)


def mu_path_of_figures(
    figures: Figures,
    rules: Rules,
    *,
    limit: int = PATH_LIMIT,
    progress: Callable[[int], None] | None = None,
) -> MuPath:
    """As `mu_path`, from records; the μ of the rules is not used."""
    profit_array, contribution_array, cost_array = check_figures(figures)
    check_rules(rules, has_costs=cost_array is not None)
    if not isinstance(limit, int) or limit < 0:
        raise InputError(f"limit must be a whole number >= 0, got {limit!r}; it counts breakpoints")
    used = used_contributions(contribution_array, rules.contribution_rule)
    problem = make_problem(profit_array, used, rules.contribution_rule)
    envelope = trace(problem, len(profit_array), limit=limit, progress=progress)

    def decision_at(mu: float) -> Decision:
        known = envelope.retained(mu) if mu < math.inf else np.ones(len(profit_array), np.bool_)
        choice = (
            choose(problem, len(profit_array), mu)
            if known is None
            else Choice(retained=known, proven_gap=envelope.proven_gap)
        )
        return _assemble(figures, replace(rules, mu=mu), profit_array, used, cost_array, choice)

    return MuPath(clients=figures.clients, envelope=envelope, decision_at=decision_at)


def select(
    profits: ArrayLike,
    contributions: ArrayLike,
    *,
    mu: float,
    contribution_rule: ContributionRule = "clip",
) -> BoolArray:
    """Who is retained, at the level of arrays: True = retained."""
    profit_array = _one_dimensional("profits", profits)
    contribution_array = _one_dimensional("contributions", contributions)
    if len(profit_array) != len(contribution_array):
        raise InputError(
            "profits and contributions must be of one length, got "
            f"{len(profit_array)} and {len(contribution_array)}; give one of each for every client"
        )
    mu = check_mu(mu)
    check_name("contribution_rule", contribution_rule, ("clip", "raw"))
    used = used_contributions(contribution_array, contribution_rule)
    return choose(make_problem(profit_array, used, contribution_rule), len(profit_array), mu).retained


def make_problem(
    profits: FloatArray,
    used: FloatArray,
    rule: ContributionRule,
    *,
    stays: int | None = None,
    goes: int | None = None,
) -> Problem:
    """The choice under a contribution rule, optionally with one client's fate given."""
    kind = ClipProblem if rule == "clip" else RawProblem
    return kind(profits, used, stays=stays, goes=goes)


def _one_dimensional(name: str, values: ArrayLike) -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, got {values!r}; give one number for each client") from None
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, got shape {array.shape}; give one round at a time")
    return figure_array(name, array)


def _assemble(
    figures: Figures,
    rules: Rules,
    profits: FloatArray,
    used: FloatArray,
    costs: FloatArray | None,
    choice: Choice,
    *,
    grace: bool = False,
) -> Decision:
    retained = choice.retained
    division = divide(
        profits[retained],
        used[retained],
        loss_rule=rules.loss_rule,
        costs=None if costs is None else costs[retained],
        liability_cap=rules.liability_cap,
    )
    clients = figures.clients
    staying = tuple(c for c, stays in zip(clients, retained.tolist(), strict=True) if stays)

    def by_client(values: FloatArray) -> dict[str, float]:
        return dict(zip(staying, values.tolist(), strict=True))

    return Decision(
        figures=figures,
        rules=rules,
        used_contributions=dict(zip(clients, used.tolist(), strict=True)),
        retained=staying,
        eliminated=tuple(c for c, stays in zip(clients, retained.tolist(), strict=True) if not stays),
        objective=objective(profits, used, retained, 0.0 if grace else float(rules.mu)),
        budget=division.budget,
        shares=by_client(division.shares),
        payoffs=by_client(division.payoffs),
        transfers=by_client(division.transfers),
        proven_gap=choice.proven_gap,
        node_count=choice.node_count,
        limit_reached=choice.limit_reached,
        grace=grace,
    )
