"""From the figures of a round to a decision."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

import numpy as np
from numpy.typing import ArrayLike

from commonweal.decision.envelope import PATH_LIMIT
from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.mechanism import decide_round, decision_of, view_of
from commonweal.decision.mechanisms import make_mechanism
from commonweal.decision.mechanisms.paper import Paper
from commonweal.decision.mu_path import MuPath
from commonweal.decision.problem import Choice, choose, used_contributions
from commonweal.decision.raw import make_problem
from commonweal.decision.validation import Named, by_client, check_mu, check_name, figure_array
from commonweal.errors import InputError
from commonweal.records import ContributionRule, Decision, Figures, LossRule, Rules


def decide(
    *,
    profits: Named,
    contributions: Named,
    mu: float,
    contribution_rule: ContributionRule = "clip",
    loss_rule: LossRule = "contribution",
    costs: Named | None = None,
    liability_cap: float | None = None,
    clients: Sequence[str] | None = None,
    grace: bool = False,
    expected: Named | None = None,
) -> Decision:
    """Decide one round: who stays, and who pays whom.

    `profits` are utility − cost before any transfer, `contributions` any measure of what each client contributed.
    Both are dicts or pandas Series by client name, or arrays in the order of `clients`. The order of `profits` is the
    order of clients. `costs` are needed only for the loss rule "cost". With `grace` nobody is eliminated; transfers
    are made as usual. If `expected` profits of the next round are given, they decide who stays, and `profits` who pays
    whom.
    """
    figures = _named_figures(profits, contributions, costs, clients, expected)
    rules = Rules(mu=mu, contribution_rule=contribution_rule, loss_rule=loss_rule, liability_cap=liability_cap)
    return decide_figures(figures, rules, grace=grace)


def _named_figures(
    profits: Named, contributions: Named, costs: Named | None, clients: Sequence[str] | None, expected: Named | None
) -> Figures:
    return Figures(
        profits=by_client("profits", profits, clients),
        contributions=by_client("contributions", contributions, clients),
        costs=None if costs is None else by_client("costs", costs, clients),
        expected=None if expected is None else by_client("expected", expected, clients),
    )


def decide_figures(figures: Figures, rules: Rules, *, grace: bool = False) -> Decision:
    """As `decide`, from records; a mechanism that remembers earlier rounds decides as if this were the first."""
    return decide_round(make_mechanism(rules), figures, {}, grace=grace)[0]


def decision_with(figures: Figures, rules: Rules, retained: Container[str]) -> Decision:
    """The round if these clients are retained, whether or not any mu would choose them; nothing is solved.

    The objective is that of the rules' mu.
    """
    mechanism = make_mechanism(rules)
    view = view_of(mechanism, figures)
    mechanism.check(has_costs=view.costs is not None)
    choice = Choice(retained=np.array([client in retained for client in figures.clients], np.bool_))
    return decision_of(mechanism, figures, view, {}, choice)


def mu_path(
    *,
    profits: Named,
    contributions: Named,
    contribution_rule: ContributionRule = "clip",
    loss_rule: LossRule = "contribution",
    costs: Named | None = None,
    liability_cap: float | None = None,
    clients: Sequence[str] | None = None,
    expected: Named | None = None,
    limit: int = PATH_LIMIT,
    progress: Callable[[int], None] | None = None,
) -> MuPath:
    """The decision for every μ from 0 to infinity.

    The figures are given as for `decide`. `limit` bounds the number of breakpoints; `path.complete` tells whether it
    was enough. `progress` is called with the number of breakpoints found so far.
    """
    figures = _named_figures(profits, contributions, costs, clients, expected)
    rules = Rules(mu=0.0, contribution_rule=contribution_rule, loss_rule=loss_rule, liability_cap=liability_cap)
    return mu_path_of_figures(figures, rules, limit=limit, progress=progress)


def mu_path_of_figures(
    figures: Figures,
    rules: Rules,
    *,
    limit: int = PATH_LIMIT,
    progress: Callable[[int], None] | None = None,
) -> MuPath:
    """As `mu_path`, from records; the mu of the rules is not used."""
    if not isinstance(limit, int) or limit < 0:
        raise InputError(f"limit must be a whole number of at least 0, got {limit!r}. It counts breakpoints.")
    return Paper(rules).whole_path(figures, limit=limit, progress=progress)


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
            "profits and contributions must have the same length, got "
            f"{len(profit_array)} and {len(contribution_array)}; give one of each for every client"
        )
    mu = check_mu(mu)
    check_name("contribution_rule", contribution_rule, ("clip", "raw"))
    used = used_contributions(contribution_array, contribution_rule)
    return choose(make_problem(profit_array, used, contribution_rule), len(profit_array), mu).retained


def _one_dimensional(name: str, values: ArrayLike) -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, got {values!r}; give one number for each client") from None
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, got shape {array.shape}; give one round at a time")
    return figure_array(name, array)
