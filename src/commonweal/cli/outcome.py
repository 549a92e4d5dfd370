"""Everything `commonweal decide` found out, before it is shown as text, JSON or picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from commonweal import metrics
from commonweal.decision.decide import mu_path_of_figures
from commonweal.decision.explain import Fate, explain
from commonweal.decision.mu_path import MuPath
from commonweal.decision.promises import shares_outside
from commonweal.federation.replay import Replay, replay
from commonweal.records import DecisionMap, Figures, RoundRecord, Rules

# Ranges and explanations cost many solves a round. Unasked they are made for short files with few loss-makers,
# up to a short path; --mu-path asks for them in full.
UNASKED_ROUNDS = 100
UNASKED_CANDIDATES = 40
UNASKED_BREAKPOINTS = 200
UNASKED_CUTS = 2  # after so many paths that were cut, no more are tried


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundView:
    """One round with what explains it."""

    record: RoundRecord
    path: MuPath | None  # None: not made
    fates: dict[str, Fate]  # of the loss-makers, where made

    @property
    def number(self) -> int:
        return self.record.round_number

    @property
    def ranges_known(self) -> bool:
        return self.path is not None and self.path.complete

    def map(self, mu: float | None) -> DecisionMap | None:
        if self.path is None or not self.path.complete:
            return None
        return DecisionMap(
            title=f"Round {self.number}",
            clients=self.path.clients,
            pieces=self.path.pieces(),
            breakpoints=self.path.breakpoints,
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
class Outcome:
    """Rounds, totals, and what a reader should be told beside them."""

    rules: Rules
    grace_rounds: int
    round_count: int
    replay: Replay
    rounds: tuple[RoundView, ...]
    totals: Totals
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def find_outcome(
    rounds: list[tuple[int, Figures]],
    rules: Rules,
    *,
    grace_rounds: int,
    paths_wanted: bool,
    path_limit: int,
    on_round: Callable[[int], None] | None = None,
    on_breakpoint: Callable[[int], None] | None = None,
) -> Outcome:
    """Decide all rounds and gather what is to be shown."""
    replayed = replay(rounds, rules, grace_rounds=grace_rounds, progress=on_round)
    views: list[RoundView] = []
    cut_count = 0
    for record in replayed.history.rounds:
        unasked = len(rounds) <= UNASKED_ROUNDS and cut_count < UNASKED_CUTS
        view = _view(
            record, rules, wanted=paths_wanted, unasked=unasked, path_limit=path_limit, on_breakpoint=on_breakpoint
        )
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
    return Outcome(
        rules=rules,
        grace_rounds=grace_rounds,
        round_count=len(rounds),
        replay=replayed,
        rounds=tuple(views),
        totals=totals,
        notes=tuple(_notes(replayed, views, rounds)),
        warnings=tuple(_warnings(views)),
    )


def _view(
    record: RoundRecord,
    rules: Rules,
    *,
    wanted: bool,
    unasked: bool,
    path_limit: int,
    on_breakpoint: Callable[[int], None] | None,
) -> RoundView:
    decision = record.decision
    if decision.grace:  # nobody may go at any μ: there is nothing to range over or to explain
        return RoundView(record=record, path=None, fates={})
    few = unasked and len(decision.candidates) <= UNASKED_CANDIDATES
    path = None
    if wanted or few:
        path = mu_path_of_figures(
            decision.figures,
            rules,
            limit=path_limit if wanted else min(path_limit, UNASKED_BREAKPOINTS),
            progress=on_breakpoint,
        )
    known = path if path is not None and path.complete else None
    # Where even the path is cut, each explanation is dear: only those let go get theirs.
    explained = decision.candidates if known is not None else decision.eliminated[:UNASKED_CANDIDATES]
    fates = {client: explain(decision, client, known) for client in explained} if few else {}
    return RoundView(record=record, path=path, fates=fates)


def _notes(replayed: Replay, views: list[RoundView], rounds: list[tuple[int, Figures]]) -> list[str]:
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
            f"ranges of mu are not shown for round {_listed([str(n) for n in cut])}: the mu path was given up after "
            f"{longest:,} breakpoints; --mu-path follows it to 10,000, --path-limit N to N (losses in proportion to "
            "contribution can have 2^n)"
        )
    return notes


def _warnings(views: list[RoundView]) -> list[str]:
    warnings: list[str] = []
    for view in views:
        decision = view.record.decision
        below = decision.irrational
        if below:
            worst = sorted(below.items(), key=lambda item: -item[1])
            told = ", ".join(f"{client} by {amount:.6g}" for client, amount in worst[:5])
            more = f" and {len(worst) - 5} more" if len(worst) > 5 else ""
            warnings.append(
                f"individual rationality fails in round {view.number}: the payoff is below zero for {told}{more}"
            )
        outside = shares_outside(decision)
        if outside:
            told = ", ".join(f"{client} {share:.6g}" for client, share in list(outside.items())[:5])
            warnings.append(f"raw contributions give shares outside 0..1 in round {view.number}: {told}")
        if decision.limit_reached:
            warnings.append(
                f"round {view.number} is not proven best: the solver stopped at its node limit; "
                f"no set scores more than {decision.proven_gap:.3g} better"
            )
    return warnings


def _listed(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
