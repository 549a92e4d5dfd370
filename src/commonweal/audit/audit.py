"""The audit of known rounds: every lie of a report, in every round, by every client and by pairs of them.

Rounds are taken one by one: whoever has figures in a round takes part in it, also after a round in which a lie, or the
truth, would have cost its place. A mechanism that remembers earlier rounds is led through all of them in order: a liar
then lies in each, and the mechanism remembers what it was told. Best replies are those of a client that told the truth
until then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import TypeVar

import numpy as np

from commonweal.audit.best_reply import best_exit, best_joint_reply, best_reply
from commonweal.audit.cases import Case, Cases
from commonweal.audit.game import ROUNDING, AuditedRound, Bounds, DecidedGame, Fate, Game, Report, heard, report_in
from commonweal.audit.lies import (
    BEST,
    EXIT,
    LIES,
    RATED_LIES,
    RATED_TITLES,
    SHIFT,
    SILENCE,
    TITLES,
    Lie,
    reason_not_to_try,
)
from commonweal.audit.paper_game import PaperGame
from commonweal.audit.unravelling import summary, unravel
from commonweal.decision.mechanism import Mechanism, State
from commonweal.decision.mechanisms.paper import Paper
from commonweal.errors import InputError
from commonweal.records.audit import AuditReport, LieResult, NotTried
from commonweal.seeds import stream

PAIR_LIMIT = 1000
"""Pairs that are tried in all rounds together; if there are more, some are drawn in each round."""

DECISION_LIMIT = 40_000
"""Decisions that searches may take, for mechanisms whose best reply has no closed form; rounds are left out beyond."""

_DECISIONS_PER_REPLY = 60
_SWEEPS = 4  # that a round is expected to take, to plan how many rounds can be searched

Item = TypeVar("Item")
OnStep = Callable[[int, int], None]
"""Called with the steps that are done, and with the number of all steps."""


@dataclass(frozen=True, kw_only=True)
class RoundsAudit:
    """An audit of rounds whose figures are the truth."""

    mechanism: Mechanism
    rounds: Sequence[AuditedRound]
    bounds: Bounds
    on_step: OnStep | None = None
    tries_pairs: bool = True  # whether two members that lie together are tried, too
    decision_limit: int = DECISION_LIMIT
    rates: str | None = None  # in words, if profits follow from agreed rates
    _steps: list[int] = field(default_factory=lambda: [0])

    def __post_init__(self) -> None:
        if not self.rounds:
            raise InputError("There are no rounds to audit.")
        for audited in self.rounds:
            if len(audited.figures.clients) < 2:
                raise InputError(
                    f"An audit needs at least two clients per round, got {len(audited.figures.clients)} in round "
                    f"{audited.number}: nobody could gain from anybody."
                )

    def report(self, source: str, *, replication_count: int | None = None) -> AuditReport:
        """Audit all rounds."""
        results = self.lies()
        profits_are_read = reason_not_to_try("profit", self.mechanism, self.rounds) is None
        unravelled = [
            replace(unravel(self._games[place], self.bounds), profits=self.rounds[place].made)
            for place in self._stepped(self._unravelled_places)
        ]
        payoffs = [
            profit + self._truths[place][client].transfer
            for place, audited in enumerate(self.rounds)
            for client, profit in audited.made.items()
        ]
        mechanism = self.mechanism
        return AuditReport(
            source=source,
            mechanism=mechanism.name,
            mechanism_text=mechanism.describe(),
            fidelity=mechanism.fidelity,
            mu=mechanism.rules.mu if mechanism.takes_mu else None,
            clients=self.clients,
            round_count=len(self.rounds),
            replication_count=replication_count,
            bounds=(self.bounds.low, self.bounds.high),
            shift=self.shift,
            mean_payoff=math.fsum(payoffs) / len(payoffs),
            lies=tuple(results),
            not_tried=tuple(self._not_tried(results)),
            unravelling=summary(unravelled) if profits_are_read and unravelled else None,
            notes=tuple(self._notes()),
            rates=self.rates,
        )

    @cached_property
    def clients(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(client for audited in self.rounds for client in audited.figures.clients))

    @cached_property
    def shift(self) -> float:
        """The size of a shifted profit."""
        sizes = [abs(profit) for audited in self.rounds for profit in audited.figures.profits.values()]
        return SHIFT * math.fsum(sizes) / len(sizes)

    # ---- what is tried ----

    @cached_property
    def _lies(self) -> list[Lie]:
        return [lie for lie in self._known_lies if reason_not_to_try(lie.about, self.mechanism, self.rounds) is None]

    @property
    def _known_lies(self) -> tuple[Lie, ...]:
        return LIES if self.rates is None else RATED_LIES

    @property
    def _titles(self) -> Mapping[str, str]:
        return TITLES if self.rates is None else RATED_TITLES

    @property
    def _is_stateful(self) -> bool:
        return type(self.mechanism).advance is not Mechanism.advance

    @property
    def _is_exact(self) -> bool:
        """Whether best replies have a closed form, and need no search."""
        return isinstance(self.mechanism, Paper)

    @cached_property
    def _games(self) -> list[Game]:
        """The rounds in which everybody tells the truth, and has told it before."""
        if isinstance(self.mechanism, Paper):
            return [PaperGame.of(self.mechanism, audited) for audited in self.rounds]
        games: list[Game] = []
        state: State = {}
        for place, audited in enumerate(self.rounds):
            if place and audited.replication != self.rounds[place - 1].replication:
                state = {}
            game = DecidedGame(mechanism=self.mechanism, round=audited, state=state)
            games.append(game)
            if self._is_stateful:
                state = game.state_after
        return games

    @cached_property
    def _truths(self) -> list[Mapping[str, Fate]]:
        return [game.outcome().fates for game in self._games]

    @cached_property
    def _searched_places(self) -> list[int]:
        """The rounds in which best replies are searched for."""
        return self._affordable(_DECISIONS_PER_REPLY)

    @cached_property
    def _unravelled_places(self) -> list[int]:
        return self._affordable(_DECISIONS_PER_REPLY * _SWEEPS) if self._reads_profits else []

    def _affordable(self, decisions_per_client: int) -> list[int]:
        """As many rounds as the limit allows."""
        everything = list(range(len(self.rounds)))
        if self._is_exact:
            return everything
        mean_size = np.mean([len(audited.figures.clients) for audited in self.rounds])
        return _spread(everything, max(1, int(self.decision_limit / (decisions_per_client * mean_size))))

    @cached_property
    def _reads_profits(self) -> bool:
        return reason_not_to_try("profit", self.mechanism, self.rounds) is None

    @cached_property
    def _pairs(self) -> list[list[tuple[str, str]]]:
        """The pairs that collude, by round."""
        if not self.tries_pairs:
            return [[] for _ in self.rounds]
        everybody = [list(combinations(audited.figures.clients, 2)) for audited in self.rounds]
        if sum(map(len, everybody)) <= PAIR_LIMIT:
            return everybody
        each = max(1, PAIR_LIMIT // len(self.rounds))
        drawn = []
        for place, pairs in enumerate(everybody):
            places = stream(0, "pairs that collude", place).choice(len(pairs), min(each, len(pairs)), replace=False)
            drawn.append([pairs[one] for one in sorted(places.tolist())])
        return drawn

    # ---- trying it ----

    def lies(self) -> list[LieResult]:
        """What each lie gains that can be told."""
        alone = {lie.name: Cases(name=lie.name, title=lie.title) for lie in self._lies}
        together = {lie.name: Cases(name=lie.name, title=lie.title, liar_count=2) for lie in self._lies}
        for name in (SILENCE, BEST, EXIT):
            alone[name] = Cases(name=name, title=self._titles[name], never_loses=name == BEST)
        for name in (SILENCE, BEST):
            together[name] = Cases(name=name, title=self._titles[name], liar_count=2, never_loses=name == BEST)
        if self._is_stateful:
            self._fold_lies(alone, together)
        else:
            for place in self._stepped(range(len(self.rounds))):
                self._tell_lies(place, alone, together)
        if self._reads_profits:
            for place in self._stepped(self._searched_places):
                self._search(place, alone, together)
        tried = [*alone.values(), *together.values()]
        return [cases.result() for cases in tried if cases.cases]

    def _tell_lies(self, place: int, alone: dict[str, Cases], together: dict[str, Cases]) -> None:
        """Each lie, in a round of a mechanism that does not remember earlier ones."""
        game, truths = self._games[place], self._truths[place]
        for client in game.clients:
            for lie in self._lies:
                told = self._told(place, client, lie)
                fate = truths[client] if told is None else game.fate(client, told)
                self._add(alone[lie.name], place, (client,), [fate])
            self._add(alone[SILENCE], place, (client,), [_SILENT])
        for pair in self._pairs[place]:
            for lie in self._lies:
                reports = self._told_by(place, pair, lie)
                fates = game.with_reports(reports).outcome().fates if reports else truths
                self._add(together[lie.name], place, pair, [fates[client] for client in pair])
            self._add(together[SILENCE], place, pair, [_SILENT, _SILENT])

    def _told(self, place: int, client: str, lie: Lie) -> Report | None:
        """What the mechanism hears of a lie; None if that is the truth."""
        audited = self.rounds[place]
        true = report_in(audited, client)
        told = heard(audited, client, lie.tell(true, self.shift))
        return None if told == heard(audited, client, true) else told

    def _told_by(self, place: int, liars: Sequence[str], lie: Lie) -> dict[str, Report]:
        told = {client: self._told(place, client, lie) for client in liars}
        return {client: report for client, report in told.items() if report is not None}

    def _fold_lies(self, alone: dict[str, Cases], together: dict[str, Cases]) -> None:
        """Each lie in all rounds, one after another, under a mechanism that remembers what it was told."""
        few = max(1, PAIR_LIMIT // len(self.rounds))
        pairs = list(combinations(self.clients, 2)) if self.tries_pairs else []
        if len(pairs) > few:
            places = stream(0, "pairs that collude").choice(len(pairs), few, replace=False)
            pairs = [pairs[one] for one in sorted(places.tolist())]
        groups: list[tuple[str, ...]] = [*((client,) for client in self.clients), *pairs]
        for liars in self._stepped(groups):
            tables = alone if len(liars) == 1 else together
            for lie in self._lies:
                self._fold(liars, lie, tables[lie.name])
            self._fold(liars, None, tables[SILENCE])

    def _fold(self, liars: tuple[str, ...], lie: Lie | None, cases: Cases) -> None:
        """One lie through all rounds; None: the liars are silent."""
        state: State = {}
        for place, audited in enumerate(self.rounds):
            if place and audited.replication != self.rounds[place - 1].replication:
                state = {}
            game = DecidedGame(mechanism=self.mechanism, round=audited, state=state)
            present = [client for client in liars if client in game.clients]
            if lie is not None:
                game = game.with_reports(self._told_by(place, present, lie))
            elif len(present) < len(game.clients):
                game = game.without(present)
            else:
                continue  # nobody reports, so nothing is decided
            state = game.state_after
            if len(present) == len(liars):
                fates = game.outcome().fates
                self._add(cases, place, liars, [fates.get(client, _SILENT) for client in liars])

    def _search(self, place: int, alone: dict[str, Cases], together: dict[str, Cases]) -> None:
        """Best replies in one round."""
        game = self._games[place]
        trues = {client: game.report_of(client) for client in game.clients}
        for client, true in trues.items():
            reply = best_reply(game, client, self.bounds, truth=true)
            self._add(alone[BEST], place, (client,), [reply.fate])
            leaving = best_exit(game, client, self.bounds.around(true.profit))
            if leaving is not None:
                self._add(alone[EXIT], place, (client,), [leaving.fate])
        for pair in self._pairs[place]:
            reports, _ = best_joint_reply(game, pair, self.bounds, truths=[trues[client] for client in pair])
            fates = game.with_reports(reports).outcome().fates
            self._add(together[BEST], place, pair, [fates[client] for client in pair])

    def _add(self, cases: Cases, place: int, liars: tuple[str, ...], fates: Sequence[Fate]) -> None:
        """Add a case: these fates of the liars, beside those that the truth gives them."""
        truths = [self._truths[place][client] for client in liars]
        gain = math.fsum(fate.transfer for fate in fates) - math.fsum(fate.transfer for fate in truths)
        profits = self.rounds[place].made
        cases.cases.append(
            Case(
                replication=self.rounds[place].replication,
                round_place=place,
                liars=liars,
                gain=gain,
                payoff_size=sum(
                    abs(profits[client] + fate.transfer) for client, fate in zip(liars, truths, strict=True)
                ),
                pays=gain > ROUNDING * self._games[place].scale,
                loses_place=any(true.stays and not fate.stays for true, fate in zip(truths, fates, strict=True)),
                wins_place=any(fate.stays and not true.stays for true, fate in zip(truths, fates, strict=True)),
            )
        )

    # ---- what is said about it ----

    def _not_tried(self, results: Sequence[LieResult]) -> list[NotTried]:
        reasons = [
            (lie.name, lie.title, reason_not_to_try(lie.about, self.mechanism, self.rounds)) for lie in self._known_lies
        ]
        left_out = [NotTried(name=name, title=title, reason=reason) for name, title, reason in reasons if reason]
        found = {(one.name, one.liar_count) for one in results}
        why = reason_not_to_try("profit", self.mechanism, self.rounds)
        if why is not None:
            left_out += [NotTried(name=name, title=self._titles[name], reason=why) for name in (BEST, EXIT)]
        elif (EXIT, 1) not in found:
            reason = "No report within the bounds costs a place."
            left_out.append(NotTried(name=EXIT, title=self._titles[EXIT], reason=reason))
        return left_out

    def _notes(self) -> list[str]:
        notes = []
        count = len(self.rounds)
        if self.rates is not None:
            notes.append(
                "Profits follow from agreed rates. A lie about a profit is not heard; best replies are told by false "
                "scores, which change nothing else here, neither contributions nor the gain of the next round."
            )
        pair_count = sum(
            len(audited.figures.clients) * (len(audited.figures.clients) - 1) // 2 for audited in self.rounds
        )
        if pair_count > PAIR_LIMIT:
            notes.append(f"Of {pair_count:,} pairs in all rounds, about {PAIR_LIMIT:,} were tried, drawn at random.")
        if len(self._unravelled_places) < count and self._reads_profits:
            notes.append(f"Best replies were repeated in {len(self._unravelled_places):,} of {count:,} rounds.")
        if self._reads_profits and not self._is_exact:
            notes.append(
                f"Best replies were searched for in {len(self._searched_places):,} of {count:,} rounds. A search can "
                "miss a better reply; a gain that it finds is real."
            )
        if self.mechanism.decides:
            notes.append(
                f"The mechanism also decides about the next round ({', '.join(sorted(self.mechanism.decides))}). Gains "
                "are in money alone: what a lie changes there is not counted."
            )
        if self._is_stateful:
            notes.append(
                "The mechanism remembers earlier rounds. A liar lies in every round; best replies are those of a "
                "client that told the truth until then."
            )
        return notes

    def _stepped(self, items: Sequence[Item]) -> Iterator[Item]:
        """The items, counted as steps of the audit."""
        for item in items:
            yield item
            self._steps[0] += 1
            if self.on_step is not None:
                self.on_step(self._steps[0], self._step_count)

    @cached_property
    def _step_count(self) -> int:
        searching = len(self._searched_places) if self._reads_profits else 0
        lying = len(self.clients) * (len(self.clients) + 1) // 2 if self._is_stateful else len(self.rounds)
        return lying + searching + len(self._unravelled_places)


def _spread(places: Sequence[int], limit: int) -> list[int]:
    """At most so many of the places, evenly spread."""
    if len(places) <= limit:
        return list(places)
    return [places[one] for one in np.linspace(0, len(places) - 1, limit).round().astype(int).tolist()]


_SILENT = Fate(stays=True, transfer=0.0)
"""Who does not report is absent: it neither pays nor receives, and may return."""
