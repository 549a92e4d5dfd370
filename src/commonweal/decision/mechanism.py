"""What a mechanism is: it takes the figures of a round and its own state, and returns who stays and who pays whom.

A mechanism is one class in one file of `decision/mechanisms`, and one line in the registry there. The federation, the
ledger and the run report know only this protocol. A mechanism selects (who is retained), divides (who pays whom), and
advances its state; each of the three is a pure function, so that anyone can decide a recorded round again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.mu_path import MuPath
from commonweal.decision.problem import Choice, used_contributions
from commonweal.decision.returned import checked_division, checked_retained, checked_state
from commonweal.decision.transfers import Division
from commonweal.decision.validation import check_figures, expected_profits
from commonweal.errors import InputError
from commonweal.records import Decision, Figures, Rules

COMMON_RULES = ("contribution_rule", "loss_rule", "liability_cap")
"""Rules that several mechanisms may honour, by their name in `Rules` and in scenarios."""

State = Mapping[str, Any]
"""What a mechanism remembers between rounds, in the types of JSON; empty before the first round."""

_DEFAULT_RULES = Rules(mu=math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundView:
    """What a mechanism may read of a round, one entry per client that took part. Amounts are in units of utility."""

    clients: tuple[str, ...]
    profits: FloatArray
    contributions: FloatArray  # after the contribution rule
    costs: FloatArray | None = None  # None unless the mechanism reads costs
    sample_counts: Mapping[str, int] = field(default_factory=dict)  # declared as new in this round; may be missing
    grace: bool = False  # nobody may be eliminated; `select` is not asked
    expected: FloatArray | None = None  # profits of the next round, where figures are forecast

    @property
    def selecting(self) -> FloatArray:
        """The profits that selection goes by: the expected ones, if there are any. Money never goes by these."""
        return self.profits if self.expected is None else self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A number that only one mechanism has, with the range it must lie in."""

    default: float
    minimum: float
    maximum: float
    meaning: str


class Mechanism(ABC):
    """A way to decide rounds. Subclasses are final; `divide` is the only method that they must define."""

    name: ClassVar[str]  # in scenarios: [mechanism] kind = "..."
    version: ClassVar[str]  # in ledgers; a class that decides the same figures differently needs a new one
    earlier_versions: ClassVar[tuple[str, ...]] = ()  # that the class also decides by, if the rules are of that version
    label: ClassVar[str]  # for people, with the source and how much of it this implements
    takes_mu: ClassVar[bool] = False
    honours: ClassVar[tuple[str, ...]] = ()  # of COMMON_RULES; scenarios refuse the others
    needs_costs: ClassVar[bool] = False
    parameters: ClassVar[Mapping[str, Parameter]] = {}

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def check(self, *, has_costs: bool) -> None:
        """Raise `InputError` if the rules do not suit the mechanism."""
        for rule in self.ignored_rules():
            if rule != "mu" and getattr(self.rules, rule) != getattr(_DEFAULT_RULES, rule):
                raise InputError(f"Mechanism {self.name!r} has no {rule}. Remove it.")
        given = dict(self.rules.parameters)
        for name, value in given.items():
            known = self.parameters.get(name)
            if known is None:
                names = ", ".join(self.parameters) or "none"
                raise InputError(f"Mechanism {self.name!r} has no parameter {name!r}. Its parameters: {names}.")
            if not known.minimum <= value <= known.maximum:
                raise InputError(
                    f"{name} must be between {known.minimum:g} and {known.maximum:g}, got {value!r}. "
                    f"The default is {known.default:g}."
                )
        if self.needs_costs and not has_costs:
            raise InputError(f"Mechanism {self.name!r} needs the cost of each client. Give costs.")

    @property
    def version_in_ledgers(self) -> str:
        """What a ledger calls the version by which these rules are decided."""
        return self.version

    @classmethod
    def of_version(cls, version: str, rules: Rules) -> Mechanism:
        """The mechanism as a ledger's round was decided by it."""
        return cls(rules)

    @classmethod
    def ignored_rules(cls) -> tuple[str, ...]:
        """The rules without effect on this mechanism."""
        return ("mu",) * (not cls.takes_mu) + tuple(rule for rule in COMMON_RULES if rule not in cls.honours)

    @property
    def reads_costs(self) -> bool:
        """Whether the view has costs. They are then part of what the clients sign, and of what a ledger records."""
        return self.needs_costs or self.rules.loss_rule == "cost"

    def parameter(self, name: str) -> float:
        """The value in the rules, or the default."""
        return dict(self.rules.parameters).get(name, self.parameters[name].default)

    def describe(self) -> str:
        """The label with mu and the parameters, for people: "FLI, Yu et al. 2020 (full), omega 1"."""
        mu = [f"mu {self.rules.mu:g}"] if self.takes_mu else []
        return ", ".join([self.label, *mu, *(f"{name} {self.parameter(name):g}" for name in self.parameters)])

    def select(self, view: RoundView, state: State) -> Choice:
        """Who is retained; everybody unless a mechanism eliminates. Not called in grace rounds."""
        return _everybody(view)

    @abstractmethod
    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        """What each of the retained clients pays or receives, in their order; transfers sum to zero."""

    def advance(self, view: RoundView, state: State, decision: Decision) -> State:
        """The state after this round."""
        return state

    def objective(self, view: RoundView, retained: BoolArray) -> float:
        """What the selection maximises: the welfare of the retained clients unless a mechanism says otherwise."""
        return math.fsum(view.profits[retained].tolist())

    def mu_path(self, figures: Figures, *, limit: int) -> MuPath | None:
        """The decision for every mu; None for a mechanism without mu, or if there are more breakpoints than `limit`."""
        return None

    def explain(self, view: RoundView, state: State, decision: Decision, client: str, path: MuPath | None) -> str:
        """Why the client stays or is eliminated, in a sentence or two. `state` is the state before the round."""
        if client in decision.eliminated:
            return f"{client} is eliminated by the mechanism {self.name}."
        return f"{client} stays: the mechanism {self.name} retains it."


def view_of(
    mechanism: Mechanism,
    figures: Figures,
    *,
    grace: bool = False,
    sample_counts: Mapping[str, int] | None = None,
) -> RoundView:
    """The figures of a round, checked, as the mechanism reads them: what it does not declare is not there to read."""
    profits, contributions, costs = check_figures(figures)
    return RoundView(
        clients=figures.clients,
        profits=profits,
        contributions=used_contributions(contributions, mechanism.rules.contribution_rule),
        costs=costs if mechanism.reads_costs else None,
        sample_counts=sample_counts or {},
        grace=grace,
        expected=expected_profits(figures),
    )


def decide_round(
    mechanism: Mechanism,
    figures: Figures,
    state: State,
    *,
    grace: bool = False,
    sample_counts: Mapping[str, int] | None = None,
) -> tuple[Decision, State]:
    """Decide one round: check, select, divide, advance."""
    view = view_of(mechanism, figures, grace=grace, sample_counts=sample_counts)
    mechanism.check(has_costs=view.costs is not None)
    choice = _everybody(view) if grace else mechanism.select(view, state)
    decision = decision_of(mechanism, figures, view, state, choice)
    return decision, checked_state(mechanism.name, mechanism.advance(view, state, decision))


def _everybody(view: RoundView) -> Choice:
    return Choice(retained=np.ones(len(view.clients), np.bool_))


def decision_of(mechanism: Mechanism, figures: Figures, view: RoundView, state: State, choice: Choice) -> Decision:
    """The round's decision if these clients are retained; refused if the mechanism divides their budget wrongly."""
    retained = checked_retained(mechanism.name, choice, len(view.clients))
    division = checked_division(mechanism.name, mechanism.divide(view, state, retained), view.profits[retained])
    fates = list(zip(view.clients, retained.tolist(), strict=True))
    staying = tuple(client for client, stays in fates if stays)

    def by_client(values: FloatArray) -> dict[str, float]:
        return dict(zip(staying, values.tolist(), strict=True))

    return Decision(
        figures=figures,
        rules=mechanism.rules,
        used_contributions=dict(zip(view.clients, view.contributions.tolist(), strict=True)),
        retained=staying,
        eliminated=tuple(client for client, stays in fates if not stays),
        objective=mechanism.objective(view, retained),
        budget=division.budget,
        shares=by_client(division.shares),
        payoffs=by_client(division.payoffs),
        transfers=by_client(division.transfers),
        proven_gap=choice.proven_gap,
        node_count=choice.node_count,
        limit_reached=choice.limit_reached,
        grace=view.grace,
    )


class RoundDecider:
    """A mechanism and its state: decides one round after another."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self.state: State = {}

    def decide(
        self, figures: Figures, *, grace: bool = False, sample_counts: Mapping[str, int] | None = None
    ) -> Decision:
        """Decide the next round."""
        decision, self.state = decide_round(
            self.mechanism, figures, self.state, grace=grace, sample_counts=sample_counts
        )
        return decision

    def advance(self, decision: Decision, *, sample_counts: Mapping[str, int] | None = None) -> None:
        """Take over a round that was decided before."""
        view = view_of(self.mechanism, decision.figures, grace=decision.grace, sample_counts=sample_counts)
        self.state = checked_state(self.mechanism.name, self.mechanism.advance(view, self.state, decision))
