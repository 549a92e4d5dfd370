"""Which figures and rules a decision accepts. Each error gives the rule, the value that breaks it, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.errors import InputError
from commonweal.records import ContributionRule, Figures, LossRule, Rules
from commonweal.records.rounds import RULES_VERSION, SIMILARITY

# Beyond these sizes, products of three figures can leave the range of doubles; no real figure comes close.
SMALLEST, LARGEST = 1e-50, 1e50


@runtime_checkable
class _Series(Protocol):
    """What a pandas Series offers, without importing pandas."""

    def items(self) -> Iterable[tuple[Any, Any]]: ...


Named = Mapping[str, float] | _Series | ArrayLike
"""A number per client: a mapping or a pandas Series by name, or an array in the order of `clients`."""


def by_client(what: str, values: Named, clients: Sequence[str] | None) -> Mapping[str, float]:
    """The values by client name."""
    if isinstance(values, Mapping):
        return values
    if isinstance(values, _Series):
        named = dict(values.items())
        if not all(isinstance(client, str) for client in named):
            raise InputError(f"The index of {what} must contain the names of the clients, got {list(named)[:3]!r}.")
        return named
    if clients is None:
        raise InputError(
            f"{what} must be a dict or a pandas Series by client, or an array together with clients=[...], "
            f"got {type(values).__name__} without clients."
        )
    array = np.asarray(values)
    if array.shape != (len(clients),):
        raise InputError(
            f"{what} must have one number for each of the {len(clients)} clients, got an array of shape {array.shape}."
        )
    if len(set(clients)) < len(clients):
        twice = next(client for client in clients if list(clients).count(client) > 1)
        raise InputError(f"clients must be distinct, got {twice!r} more than once.")
    return dict(zip(clients, array.tolist(), strict=True))


def admissible(values: FloatArray) -> BoolArray:
    """True where a figure is zero or of a size that the solver can compute with."""
    sizes: FloatArray = np.abs(values)
    good: BoolArray = (sizes == 0) | ((sizes >= SMALLEST) & (sizes <= LARGEST))
    return good


def figure_array(name: str, values: FloatArray, clients: tuple[str, ...] | None = None) -> FloatArray:
    """The values, refused unless each is finite and of a sensible size."""
    good = admissible(values)
    if not good.all():
        bad = np.flatnonzero(~good)
        where = f"client {clients[bad[0]]!r}" if clients else f"position {bad[0]}"
        raise InputError(
            f"{name} must be a finite number, 0 or between {SMALLEST:g} and {LARGEST:g} in size, "
            f"got {float(values[bad[0]])!r} for {where}; correct it, or leave that client out"
        )
    return values


def _column(name: str, figures: Mapping[str, float], clients: tuple[str, ...]) -> FloatArray:
    try:
        values = np.array([figures[client] for client in clients], dtype=np.float64)
    except (TypeError, ValueError):
        odd = next(c for c in clients if not isinstance(figures[c], int | float | np.number))
        raise InputError(f"{name} must be a number, got {figures[odd]!r} for client {odd!r}; give a number") from None
    return figure_array(name, values, clients)


def check_figures(figures: Figures) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Profits, contributions and costs as arrays in the order of the profits."""
    clients = figures.clients
    if not clients:
        raise InputError("a decision needs at least one client, got none; give a profit for each client")
    others = {"contributions": figures.contributions, "costs": figures.costs, "expected profits": figures.expected}
    for name, other in others.items():
        if other is not None and other.keys() != figures.profits.keys():
            odd = next(iter(set(other).symmetric_difference(clients)))
            lacking = name if odd in figures.profits else "profits"
            raise InputError(
                f"profits and {name} must name the same clients, got no entry for {odd!r} in {lacking}; "
                "add one, or leave that client out"
            )
    costs = None
    if figures.costs is not None:
        costs = _column("cost", figures.costs, clients)
        if (costs < 0).any():
            odd = clients[int(np.argmax(costs < 0))]
            raise InputError(
                f"cost must be >= 0, got {figures.costs[odd]!r} for client {odd!r}; a gain belongs in the profit"
            )
    return (
        _column("profit", figures.profits, clients),
        _column("contribution", figures.contributions, clients),
        costs,
    )


def expected_profits(figures: Figures) -> FloatArray | None:
    """The expected profits as an array in the order of the profits; None if selection goes by the profits."""
    return None if figures.expected is None else _column("expected profit", figures.expected, figures.clients)


def further_column(mechanism: str, figures: Figures, name: str, *, unmeasurable: float | None = None) -> FloatArray:
    """A further figure of each client that the mechanism reads; `unmeasurable` stands for clients without it."""
    given = figures.further.get(name)
    lacking = None if given is None else next((client for client in figures.clients if client not in given), None)
    if given is None or (lacking is not None and unmeasurable is None):
        whose = "each client" if lacking is None else f"client {lacking!r}"
        raise InputError(f"Mechanism {mechanism} needs the {name} of {whose}. Give it, or choose another mechanism.")
    known = tuple(client for client in figures.clients if client in given)
    values = dict(zip(known, _column(name, given, known).tolist(), strict=True))
    return np.array([values.get(client, unmeasurable) for client in figures.clients], dtype=np.float64)


def similarity_matrix(mechanism: str, figures: Figures) -> FloatArray:
    """The cosines between the clients' updates, one row and one column per client."""
    names = [f"{SIMILARITY}{client}" for client in figures.clients]
    return np.array([further_column(mechanism, figures, name) for name in names]).T


def check_mu(mu: float) -> float:
    """μ as a float in [0, ∞]."""
    if isinstance(mu, bool) or not isinstance(mu, int | float | np.number) or math.isnan(mu) or mu < 0:
        raise InputError(
            f"mu must be a number >= 0 or infinity, got {mu!r}; 0 is the least lenient, inf keeps everybody"
        )
    if not (mu == 0 or mu == math.inf or SMALLEST <= mu <= LARGEST):
        raise InputError(
            f"mu must be 0, inf or between {SMALLEST:g} and {LARGEST:g}, got {mu!r}; use 0 for less and inf for more"
        )
    return float(mu)


def check_rules(rules: Rules, *, has_costs: bool) -> None:
    if rules.version not in range(1, RULES_VERSION + 1):
        raise InputError(
            f"Rules must be of version 1 to {RULES_VERSION}, got {rules.version!r}. Use a newer version of commonweal."
        )
    check_mu(rules.mu)
    check_name("contribution_rule", rules.contribution_rule, get_args(ContributionRule))
    check_name("loss_rule", rules.loss_rule, get_args(LossRule))
    if rules.loss_rule == "cost" and not has_costs:
        raise InputError(
            "the loss rule 'cost' divides a loss in proportion to cost, got no costs; "
            "give costs or use another loss rule"
        )
    cap = rules.liability_cap
    if cap is not None and not (isinstance(cap, int | float | np.number) and 0 <= cap < math.inf):
        raise InputError(f"liability_cap must be a finite number >= 0, got {cap!r}; leave it out for no cap")


def check_name(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise InputError(f"{what} must be one of {', '.join(known)}, got {name!r}; choose one of those")
