"""The result of `commonweal decide`, before it is shown as text, JSON or a plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from commonweal import metrics
from commonweal.decision.decide import mu_path_of_figures
from commonweal.decision.explain import Fate, explain
from commonweal.decision.mechanisms import make_mechanism
from commonweal.decision.mu_path import MuPath
from commonweal.decision.promises import warnings_of
from commonweal.decision.reasons import reason
from commonweal.federation.replay import Replay, replay
from commonweal.records import DecisionMap, Figures, RoundRecord, Rules

# A μ path takes many solver runs, an explanation only one. Without --mu-path, both are made for short files only: paths
# up to a few breakpoints and for rounds with few loss-makers, explanations for rounds with more loss-makers too.
UNASKED_ROUNDS = 100
UNASKED_CANDIDATES = 40
UNASKED_BREAKPOINTS = 200
UNASKED_CUTS = 2  # after this many incomplete paths, no more are tried
EXPLAINED_CANDIDATES = 1000
EXPLAINED_CLIENTS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedRound:
    """One round with its μ path and the explanations of its decision."""

    record: RoundRecord
    path: MuPath | None  # None: not computed
    fates: dict[str, Fate]  # explanations of loss-makers, as far as computed
    measured: Figures | None = None  # as given, if pooled figures were used
    explained: Mapping[str, str] = field(default_factory=dict)  # by a mechanism without mu

    @property
    def number(self) -> int:
        return self.record.round_number

    @property
    def whole_path(self) -> MuPath | None:
        """The path if it is complete, so that ranges may be shown."""
        return self.path if self.path is not None and self.path.complete else None

    def reason(self, client: str) -> str | None:
        """Why a client is retained or eliminated; None if it is not explained."""
        why = self.fates[client].sentence if client in self.fates else self.explained.get(client)
        return None if why is None else reason(self.record.decision, client, self.record.evidence.get(client), why)

    def map(self, mu: float | None) -> DecisionMap | None:
        path = self.whole_path
        if path is None:
            return None
        return DecisionMap(
            title=f"Round {self.number}",
            clients=path.clients,
            pieces=path.pieces(),
            breakpoints=path.breakpoints,
            mu=mu,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Metrics of the whole history."""

    tsw: tuple[float, ...]
    tsfi: tuple[float, ...]
    tsfi_final_set: tuple[float, ...]
    durations: dict[str, int]
    payoffs: dict[str, float]
    contributions: dict[str, float]
    jain: float | None
    gini: float | None
    correlation: float | None
    irrational_rounds: dict[int, dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideResult:
    """Rounds and totals, with notes and warnings for the reader."""

    rules: Rules
    grace_rounds: int
    replay: Replay
    rounds: tuple[DecidedRound, ...]
    totals: Totals
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def find_outcome(
    rounds: list[tuple[int, Figures]],
    rules: Rules,
    *,
    grace_rounds: int,
    figures_rule: Literal["measured", "pooled"] = "measured",
    paths_wanted: bool,
    path_limit: int,
    on_round: Callable[[int], None] | None = None,
    on_breakpoint: Callable[[int], None] | None = None,
) -> DecideResult:
    """Decide all rounds and gather what to show."""
    replayed = replay(rounds, rules, grace_rounds=grace_rounds, figures_rule=figures_rule, progress=on_round)
    views: list[DecidedRound] = []
    cut_count = 0
    short_file = len(rounds) <= UNASKED_ROUNDS
    takes_mu = make_mechanism(rules).takes_mu
    for record in replayed.history.rounds:
        few = len(record.decision.candidates) <= UNASKED_CANDIDATES
        limit = 0
        if paths_wanted:
            limit = path_limit
        elif short_file and few and cut_count < UNASKED_CUTS:
            limit = min(path_limit, UNASKED_BREAKPOINTS)
        explained = replayed.explained.get(record.round_number, {})
        view = DecidedRound(record=record, path=None, fates={}, explained=explained)
        if takes_mu:
            view = _view(record, rules, path_limit=limit, explain_clients=short_file, on_breakpoint=on_breakpoint)
        view = replace(view, measured=replayed.measured.get(record.round_number))
        cut_count += view.path is not None and not view.path.complete
        views.append(view)
    history = replayed.history
    payoffs = metrics.total_payoffs(history)
    totals = Totals(
        tsw=metrics.tsw(history),
        tsfi=metrics.tsfi(history),
        tsfi_final_set=metrics.tsfi_final_set(history),
        durations=metrics.durations(history),
        payoffs=payoffs,
        contributions=metrics.total_contributions(history),
        jain=metrics.jain(list(payoffs.values())),
        gini=metrics.gini(list(payoffs.values())),
        correlation=metrics.payoff_contribution_correlation(history),
        irrational_rounds=metrics.irrational_rounds(history),
    )
    return DecideResult(
        rules=rules,
        grace_rounds=grace_rounds,
        replay=replayed,
        rounds=tuple(views),
        totals=totals,
        notes=tuple(_notes(replayed, views, rounds)),
        warnings=tuple(
            sentence for view in views for sentence in warnings_of(view.record.decision, f"round {view.number}")
        ),
    )


def _view(
    record: RoundRecord,
    rules: Rules,
    *,
    path_limit: int,
    explain_clients: bool,
    on_breakpoint: Callable[[int], None] | None,
) -> DecidedRound:
    """A round with its path up to `path_limit` breakpoints (0: none), and its clients explained if wanted."""
    decision = record.decision
    if decision.grace:  # nobody can be eliminated at any μ, so there is nothing to explain
        return DecidedRound(record=record, path=None, fates={})
    path = None
    if path_limit:
        path = mu_path_of_figures(decision.figures, rules, limit=path_limit, progress=on_breakpoint)
    view = DecidedRound(record=record, path=path, fates={})
    if not explain_clients or len(decision.candidates) > EXPLAINED_CANDIDATES:
        return view
    # With many candidates or an incomplete path, explanations are expensive: only eliminated clients get one.
    all_of_them = view.whole_path is not None and len(decision.candidates) <= EXPLAINED_CLIENTS
    explained = decision.candidates if all_of_them else decision.eliminated[:EXPLAINED_CLIENTS]
    return replace(view, fates={client: explain(decision, client, view.whole_path) for client in explained})


def _notes(replayed: Replay, views: list[DecidedRound], rounds: list[tuple[int, Figures]]) -> list[str]:
    notes: list[str] = []
    ignored_rows = sum(len(clients) for clients in replayed.ignored.values())
    if ignored_rows:
        clients = dict.fromkeys(client for late in replayed.ignored.values() for client in late)
        notes.append(
            f"ignored {ignored_rows} later row{'s' * (ignored_rows > 1)} of eliminated clients: "
            + _listed(list(clients))
        )
    if replayed.ended_after is not None:
        later = sum(number > replayed.ended_after for number, _ in rounds)
        notes.append(
            f"the federation ended after round {replayed.ended_after} with fewer than two clients; "
            f"{later} later round{'s' * (later > 1)} ignored"
        )
    absences = {view.number: view.record.absent for view in views if view.record.absent}
    if absences:
        shown = [f"round {number}: {_listed(list(absent))}" for number, absent in list(absences.items())[:10]]
        notes.append("absent (no figures, no transfer, may return): " + "; ".join(shown))
    cut = [view.number for view in views if view.path is not None and not view.path.complete]
    if cut:
        longest = max(len(view.path.breakpoints) for view in views if view.path is not None)
        notes.append(
            f"ranges of mu are not shown for round {_listed([str(n) for n in cut])}: the mu path stopped after "
            f"{longest:,} breakpoints; use --mu-path to follow it up to 10,000, with --path-limit N up to N (if losses "
            "are proportional to contributions, n clients can have 2^n)"
        )
    return notes


def _listed(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
