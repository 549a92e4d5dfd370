"""What a mechanism is: it takes the figures of a round and its own state, and returns who stays and who pays whom.

A mechanism is one class in one file of `decision/mechanisms`, and one line in the registry there. The federation, the
ledger and the run report know only this protocol. A mechanism selects (who is retained), divides (who pays whom),
advances its state, and may plan the next round; each of these is a pure function, so that anyone can decide a recorded
round again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.mu_path import MuPath
from commonweal.decision.problem import Choice, used_contributions
from commonweal.decision.returned import (
    checked_division,
    checked_explanation,
    checked_instructions,
    checked_objective,
    checked_retained,
    checked_state,
)
from commonweal.decision.transfers import Division
from commonweal.decision.validation import check_figures, expected_profits, further_column, similarity_matrix
from commonweal.errors import InputError
from commonweal.records import Decision, Figures, Instructions, Rules

COMMON_RULES = ("contribution_rule", "loss_rule", "liability_cap")
"""Rules that several mechanisms may honour, by their name in `Rules` and in scenarios."""

READABLE = ("profit", "contribution", "cost", "utility", "sample_count", "metric", "loss", "similarity", "seed")
"""What a mechanism can declare that it reads of a round."""

PRIVATE = frozenset({"profit", "cost", "utility"})
"""The figures among them that only the client itself knows."""

CARRIED_OUT = frozenset({"participants", "data", "iterations"})
"""What the simulator carries out of what a mechanism may decide about the next round."""

Fidelity = Literal["full", "partial", "reconstruction", "baseline", "derived"]
"""How much of its source a mechanism implements."""

State = Mapping[str, Any]
"""What a mechanism remembers between rounds, in the types of JSON; empty before the first round."""

_DEFAULT_RULES = Rules(mu=math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundView:
    """What a mechanism may read of a round, one entry per client that took part. Amounts are in units of utility."""

    clients: tuple[str, ...]
    profits: FloatArray
    contributions: FloatArray  # after the contribution rule
    measured: FloatArray  # contributions as measured, before any rule
    grace: bool = False  # nobody may be eliminated; `select` is not asked
    expected: FloatArray | None = None  # profits of the next round, where figures are forecast
    round_number: int = 1
    # None unless the mechanism declares that it reads them:
    costs: FloatArray | None = None
    utilities: FloatArray | None = None
    sample_counts: Mapping[str, int] = field(default_factory=dict)  # declared as new in this round; {} in place of None
    metrics: FloatArray | None = None  # of the round's model at each client; NaN where it cannot be measured
    losses: FloatArray | None = None  # mean training loss of each client in the last iteration; NaN if not finite
    similarities: FloatArray | None = None  # N × N: cosines of the clients' updates in this round
    seed: int | None = None  # for `commonweal.seeds.stream`, so that lots are drawn alike whenever a round is decided

    @property
    def selecting(self) -> FloatArray:
        """The profits that selection goes by: the expected ones, if there are any. Money never goes by these."""
        return self.profits if self.expected is None else self.expected

    def drawn(self, profits: FloatArray, contributions: FloatArray, expected: FloatArray | None = None) -> RoundView:
        """The same round in one draw of its figures. Costs are certain, so utilities move with profits."""
        return replace(
            self,
            profits=profits,
            contributions=contributions,
            expected=self.expected if expected is None else expected,
            utilities=None if self.utilities is None else self.utilities + (profits - self.profits),
        )


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
    label: ClassVar[str]  # for people, with the source
    fidelity: ClassVar[Fidelity | None] = None  # how much of the source this implements; None: there is no source
    reads: ClassVar[frozenset[str]] = frozenset({"profit", "contribution"})  # of READABLE
    decides: ClassVar[frozenset[str]] = frozenset()  # what `plan` decides, by the words of `returned.DECISIONS`
    takes_external_money: ClassVar[bool] = False  # money from or to the outside, or from those who go
    takes_mu: ClassVar[bool] = False
    honours: ClassVar[tuple[str, ...]] = ()  # of COMMON_RULES; scenarios refuse the others
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
        if "cost" in self.reads and not has_costs:
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
    def remembers(self) -> bool:
        """Whether a round may be decided by the rounds before it."""
        return type(self).advance is not Mechanism.advance

    @property
    def reads_costs(self) -> bool:
        """Whether the view has costs. They are then part of what the clients sign, and of what a ledger records."""
        return "cost" in self.reads or self.rules.loss_rule == "cost"

    @classmethod
    def remote_refusal(cls) -> str:
        """Why members on other machines cannot use it; "" if they can. Reports have profits and counts only."""
        unsent = sorted(cls.reads - {"profit", "contribution", "sample_count", "seed"})
        if unsent:
            what = {"cost": "costs", "utility": "utilities", "metric": "metrics", "loss": "losses"}
            needed = " and ".join(what.get(name, "similarities") for name in unsent)
            return f"needs {needed}, which never leave the clients"
        if cls.decides:
            return f"also decides about {' and '.join(sorted(cls.decides))}, which only the simulator carries out"
        return ""

    @property
    def reads_further(self) -> frozenset[str]:
        """What it reads of a round that only `Figures.further` has."""
        return self.reads & {"utility", "metric", "loss", "similarity"}

    def parameter(self, name: str) -> float:
        """The value in the rules, or the default."""
        return dict(self.rules.parameters).get(name, self.parameters[name].default)

    @classmethod
    def full_label(cls) -> str:
        """The label with how much of the source is implemented."""
        return cls.label if cls.fidelity is None else f"{cls.label} ({cls.fidelity})"

    def describe(self) -> str:
        """The label with mu and the parameters, for people: "FLI, Yu et al. 2020 (full), omega 1"."""
        mu = [f"mu {self.rules.mu:g}"] if self.takes_mu else []
        parameters = [f"{name} {self.parameter(name):g}" for name in self.parameters]
        left_out = self.decides - CARRIED_OUT
        limits = [f"{' and '.join(sorted(left_out))} not carried out"] if left_out else []
        return ", ".join([self.full_label(), *mu, *parameters, *limits])

    def select(self, view: RoundView, state: State) -> Choice:
        """Who is retained; everybody unless a mechanism eliminates. Not called in grace rounds."""
        return _everybody(view)

    @abstractmethod
    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        """What each of the retained clients pays or receives, in their order; the money sums to zero."""

    def advance(self, view: RoundView, state: State, decision: Decision) -> State:
        """The state after this round."""
        return state

    def plan(self, view: RoundView, state: State, active: tuple[str, ...]) -> Instructions:
        """What the next round is to be like; by default everybody takes part with everything.

        `state` is the state after this round. `active` are all clients that are still in the federation: it may have
        clients that were not in this round, because they rested or did not answer, and lacks those that left.
        """
        return Instructions()

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
    round_number: int = 1,
) -> RoundView:
    """The figures of a round, checked, as the mechanism reads them: what it does not declare is not there to read."""
    profits, contributions, costs = check_figures(figures)
    reads, named = mechanism.reads, repr(mechanism.name)
    view = RoundView(
        clients=figures.clients,
        profits=profits,
        contributions=used_contributions(contributions, mechanism.rules.contribution_rule),
        measured=contributions,
        grace=grace,
        expected=expected_profits(figures),
        round_number=round_number,
        costs=costs if mechanism.reads_costs else None,
        utilities=further_column(named, figures, "utility") if "utility" in reads else None,
        sample_counts=(sample_counts or {}) if "sample_count" in reads else {},
        metrics=further_column(named, figures, "metric", unmeasurable=math.nan) if "metric" in reads else None,
        losses=further_column(named, figures, "loss", unmeasurable=math.nan) if "loss" in reads else None,
        similarities=similarity_matrix(named, figures) if "similarity" in reads else None,
        seed=(mechanism.rules.seed or 0) if "seed" in reads else None,
    )
    for array in (
        view.profits, view.contributions, view.measured, view.expected, view.costs, view.utilities, view.metrics,
        view.losses, view.similarities,
    ):  # fmt: skip
        if array is not None:
            array.flags.writeable = False  # a mechanism that changed them would be settled by other figures
    return view


def decide_round(
    mechanism: Mechanism,
    figures: Figures,
    state: State,
    *,
    grace: bool = False,
    sample_counts: Mapping[str, int] | None = None,
    harmful: Collection[str] = (),
    finished: bool = False,
    round_number: int = 1,
) -> tuple[Decision, State]:
    """Decide one round: check, select, divide, advance.

    Harmful clients are eliminated whatever their figures, and the mechanism decides on the others as if they alone had
    taken part. If the federation is finished, nobody is eliminated for a loss, as in a grace round.
    """
    others = figures.without(harmful)
    view = view_of(mechanism, others, grace=grace or finished, sample_counts=sample_counts, round_number=round_number)
    decision = decide_view(mechanism, others, view, state)
    if mechanism.rules.file is not None:  # what cannot be explained is not settled
        for client in others.clients:
            checked_explanation(mechanism.name, mechanism.explain(view, state, decision, client, None))
    state = checked_state(mechanism.name, mechanism.advance(view, state, decision))
    return _with_harmful(replace(decision, grace=grace, finished=finished), figures), state


def decide_view(mechanism: Mechanism, figures: Figures, view: RoundView, state: State) -> Decision:
    """Check, select and divide; the state is not advanced, which for some mechanisms takes longer than the decision."""
    mechanism.check(has_costs=view.costs is not None)
    choice = _everybody(view) if view.grace else mechanism.select(view, state)
    return decision_of(mechanism, figures, view, state, choice)


def _with_harmful(decision: Decision, figures: Figures) -> Decision:
    """A decision on some of the clients, with all others eliminated as harmful."""
    harmful = tuple(client for client in figures.clients if client not in decision.used_contributions)
    if not harmful:
        return decision
    given = np.array([figures.contributions[client] for client in harmful])
    used = used_contributions(given, decision.rules.contribution_rule).tolist()
    by_client = {**decision.used_contributions, **dict(zip(harmful, used, strict=True))}
    return replace(
        decision,
        figures=figures,
        used_contributions={client: by_client[client] for client in figures.clients},
        eliminated=tuple(client for client in figures.clients if client not in decision.payoffs),
        harmful=harmful,
    )


def _everybody(view: RoundView) -> Choice:
    return Choice(retained=np.ones(len(view.clients), np.bool_))


def decision_of(mechanism: Mechanism, figures: Figures, view: RoundView, state: State, choice: Choice) -> Decision:
    """The round's decision if these clients are retained; refused if the mechanism divides their budget wrongly."""
    retained = checked_retained(mechanism.name, choice, len(view.clients))
    division = checked_division(
        mechanism.name,
        mechanism.divide(view, state, retained),
        view.profits,
        retained,
        takes_external_money=mechanism.takes_external_money,
        is_raw=mechanism.rules.contribution_rule == "raw",
    )
    fates = list(zip(view.clients, retained.tolist(), strict=True))
    staying = tuple(client for client, stays in fates if stays)
    going = tuple(client for client, stays in fates if not stays)
    assert division.charges is not None, "filled in where the division is checked"

    def by_client(values: FloatArray) -> dict[str, float]:
        return dict(zip(staying, values.tolist(), strict=True))

    return Decision(
        figures=figures,
        rules=mechanism.rules,
        used_contributions=dict(zip(view.clients, view.contributions.tolist(), strict=True)),
        retained=staying,
        eliminated=going,
        objective=checked_objective(mechanism.name, mechanism.objective(view, retained)),
        budget=division.budget,
        shares=by_client(division.shares),
        payoffs=by_client(division.payoffs),
        transfers=by_client(division.transfers),
        proven_gap=choice.proven_gap,
        node_count=choice.node_count,
        limit_reached=choice.limit_reached,
        grace=view.grace,
        external=division.external,
        charges={client: charge for client, charge in zip(going, division.charges.tolist(), strict=True) if charge},
    )


class RoundDecider:
    """A mechanism and its state: decides one round after another."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self.state: State = {}

    def decide(
        self,
        figures: Figures,
        *,
        grace: bool = False,
        sample_counts: Mapping[str, int] | None = None,
        harmful: Collection[str] = (),
        finished: bool = False,
        round_number: int = 1,
    ) -> Decision:
        """Decide the next round."""
        decision, self.state = decide_round(
            self.mechanism,
            figures,
            self.state,
            grace=grace,
            sample_counts=sample_counts,
            harmful=harmful,
            finished=finished,
            round_number=round_number,
        )
        return decision

    def plan(
        self,
        decision: Decision,
        active: Sequence[str],
        *,
        sample_counts: Mapping[str, int] | None = None,
        round_number: int = 1,
    ) -> Instructions:
        """What the mechanism decides about the round after this one, which was decided just now."""
        if not self.mechanism.decides:
            return Instructions()
        view = self._view(decision, sample_counts, round_number)
        planned = self.mechanism.plan(view, self.state, tuple(active))
        return checked_instructions(self.mechanism.name, planned, active, self.mechanism.decides)

    def advance(
        self, decision: Decision, *, sample_counts: Mapping[str, int] | None = None, round_number: int = 1
    ) -> None:
        """Take over a round that was decided before."""
        own = decision.without_harmful
        view = self._view(decision, sample_counts, round_number)
        self.state = checked_state(self.mechanism.name, self.mechanism.advance(view, self.state, own))

    def explanations(
        self,
        decision: Decision,
        state: State,
        *,
        sample_counts: Mapping[str, int] | None = None,
        round_number: int = 1,
    ) -> dict[str, str]:
        """Why each eliminated client goes, in the mechanism's words; `state` is the state before the round."""
        view = self._view(decision, sample_counts, round_number)
        own = decision.without_harmful
        return {client: self.mechanism.explain(view, state, own, client, None) for client in own.eliminated}

    def _view(self, decision: Decision, sample_counts: Mapping[str, int] | None, round_number: int) -> RoundView:
        own = decision.without_harmful
        return view_of(
            self.mechanism,
            own.figures,
            grace=own.spares_losses,
            sample_counts=sample_counts,
            round_number=round_number,
        )
