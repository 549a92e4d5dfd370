"""The paper's mechanism as a game, without deciding the round for each report.

Let the others' reports be fixed, and let client i report a loss l (a report r ≥ 0 is a loss of 0). With E the set that
goes, the objective is, up to a constant,

    Σ_E l − μ · Q(E) / Q(retained).

Sets in which i stays do not depend on its report: let the best of them have the value A. Sets in which i goes depend on
it only through + l: let the best of them have the value G + l. So i stays exactly as long as

    l ≤ A − G,

and while it stays, everybody else's fate is the same whatever it reports. The decision as a function of one report
therefore has a single breakpoint, and the transfers on the side on which i stays are those of `divide`.

If the loss of every other client j is at most g(q_j) = μ q_j / (T − q_j), nobody but i can go: g is convex with
g(0) = 0, so Σ_E g(q) ≤ μ Q(E) / (T − Q(E)). Then A = 0 and the breakpoint is g(q_i).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from commonweal.audit.game import AuditedRound, Bounds, Fate, Outcome, Report
from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.mechanism import view_of
from commonweal.decision.mechanisms.paper import Paper
from commonweal.decision.problem import choose
from commonweal.decision.raw import make_problem
from commonweal.decision.transfers import divide

_TIE_ROOM = 1e-11  # of Σ|profit|: so far from the breakpoint, no tie decides
_BACK_OFF = 1e-9  # of Σ|profit|: best replies stay so far from it, and do not depend on rounding in the others' replies


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a client must do to stay, given what the others report."""

    kept: BoolArray  # who is retained if it stays
    largest_loss: float  # it stays if it reports no larger loss than this; infinite: whatever it reports


@dataclass(frozen=True, kw_only=True)
class PaperGame:
    """A round decided by the paper's mechanism; figures are arrays in the order of the clients."""

    mechanism: Paper
    clients: tuple[str, ...]
    profits: FloatArray
    expected: FloatArray | None  # that selection goes by, if figures are forecast
    contributions: FloatArray  # after the contribution rule
    costs: FloatArray | None  # only for the loss rule "cost"
    spares_losses: bool
    known_retained: BoolArray | None = None  # by these reports, where it is known already
    _places: dict[int, Place] = field(default_factory=dict)

    @classmethod
    def of(cls, mechanism: Paper, audited: AuditedRound) -> PaperGame:
        """The game in which everybody reports the truth."""
        view = view_of(mechanism, audited.figures)
        mechanism.check(has_costs=view.costs is not None)
        return cls(
            mechanism=mechanism,
            clients=view.clients,
            profits=view.profits,
            expected=view.expected,
            contributions=view.contributions,
            costs=view.costs,
            spares_losses=audited.spares_losses,
        )

    @cached_property
    def scale(self) -> float:
        return float(np.abs(self.profits).sum())

    def report_of(self, client: str) -> Report:
        position = self._positions[client]
        return Report(
            profit=float(self.profits[position]),
            expected=None if self.expected is None else float(self.expected[position]),
            cost=None if self.costs is None else float(self.costs[position]),
        )

    def outcome(self) -> Outcome:
        transfers = np.zeros(len(self.clients))
        transfers[self.retained] = self._transfers(self.profits, self.costs, self.retained)
        pairs = zip(self.clients, self.retained.tolist(), transfers.tolist(), strict=True)
        return Outcome(fates={client: Fate(stays=stays, transfer=transfer) for client, stays, transfer in pairs})

    def fate(self, client: str, report: Report) -> Fate:
        position, place = self._positions[client], self.place(client)
        selecting = report.profit if report.expected is None else report.expected
        room = place.largest_loss + selecting
        if selecting < 0 and abs(room) <= _TIE_ROOM * (self.scale + abs(selecting)):
            return self.with_reports({client: report}).outcome().fates[client]
        if selecting < 0 and room < 0:
            return Fate(stays=False, transfer=0.0)
        lied = self.with_reports({client: report})
        transfers = self._transfers(lied.profits, lied.costs, place.kept)
        return Fate(stays=True, transfer=float(transfers[int(place.kept[:position].sum())]))

    def with_reports(self, reports: Mapping[str, Report]) -> PaperGame:
        profits = self.profits.copy()
        expected = None if self.expected is None else self.expected.copy()
        costs = None if self.costs is None else self.costs.copy()
        for client, report in reports.items():
            position = self._positions[client]
            profits[position] = report.profit
            if expected is not None and report.expected is not None:
                expected[position] = report.expected
            if costs is not None and report.cost is not None:
                costs[position] = report.cost
        return PaperGame(
            mechanism=self.mechanism,
            clients=self.clients,
            profits=profits,
            expected=expected,
            contributions=self.contributions,
            costs=costs,
            spares_losses=self.spares_losses,
        )

    def after_staying(self, client: str, report: Report) -> PaperGame:
        """The game after the client gave a report with which it stays; who is retained need not be found again."""
        return replace(self.with_reports({client: report}), known_retained=self.place(client).kept)

    def without(self, clients: Sequence[str]) -> PaperGame:
        left = np.array([client not in clients for client in self.clients], np.bool_)
        return PaperGame(
            mechanism=self.mechanism,
            clients=tuple(client for client in self.clients if client not in clients),
            profits=self.profits[left],
            expected=None if self.expected is None else self.expected[left],
            contributions=self.contributions[left],
            costs=None if self.costs is None else self.costs[left],
            spares_losses=self.spares_losses,
        )

    def lowest_report(self, client: str, bounds: Bounds) -> Report:
        """The lowest profit with which the client stays.

        Under the rule "clip" no report with which it stays pays more: its transfer falls with the profit that it
        reports, by 1 − share, and neither the loss rules nor a liability cap change that.
        """
        return self._at_most(self.report_of(client), self.place(client).largest_loss, bounds)

    def _at_most(self, own: Report, largest: float, bounds: Bounds) -> Report:
        """The lowest report within the bounds whose loss is below the largest by no more than the back-off."""
        inside = 0.0 if math.isinf(largest) else _BACK_OFF * (self.scale + largest)
        least = -max(largest - inside, 0.0)
        if own.expected is not None:  # money goes by the profit, the place by the expected one
            stays = own.expected >= least
            return Report(profit=bounds.low, expected=own.expected if stays else least, cost=own.cost)
        return Report(profit=max(bounds.low, least), cost=own.cost)

    def unbeatable_report(self, client: str, bounds: Bounds) -> Report:
        """The lowest profit with which the client stays as long as all others report so, too: a loss of g(q).

        Beyond it a client stays only while another one goes. That one can undercut it by next to nothing, and be
        undercut in turn, until nobody reports a loss above g(q): all best replies end here.
        """
        threshold = math.inf if self._nobody_goes else float(self._alone_thresholds[self._positions[client]])
        return self._at_most(self.report_of(client), threshold, bounds)

    @cached_property
    def retained(self) -> BoolArray:
        """Who is retained if all report as they do now."""
        return self._chosen(self._selecting) if self.known_retained is None else self.known_retained

    def place(self, client: str) -> Place:
        """What the client must do to stay; found once."""
        position = self._positions[client]
        if position not in self._places:
            self._places[position] = self._found_place(position)
        return self._places[position]

    def _found_place(self, position: int) -> Place:
        everybody = np.ones(len(self.clients), np.bool_)
        if self._nobody_goes:
            return Place(kept=everybody, largest_loss=math.inf)
        alone = self._alone_threshold(position)
        if alone is not None:
            return Place(kept=everybody, largest_loss=alone)
        mu, q = float(self.mechanism.rules.mu), self.contributions
        kept = self.retained
        if not kept[position]:
            staying = self._selecting.copy()
            staying[position] = 0.0
            kept = self._chosen(staying)
        if mu == 0:
            return Place(kept=kept, largest_loss=0.0)
        if self.is_clipped and not np.delete(q, position).any():  # without it, nothing would be contributed
            return Place(kept=kept, largest_loss=math.inf if q[position] > 0 else 0.0)
        gone = self.retained
        if gone[position]:
            gone = self._best_without(position)
        best_staying, best_going = self._value(kept, position), self._value(gone, position)
        if best_going == -math.inf:  # no set without it has an objective
            return Place(kept=kept, largest_loss=math.inf)
        return Place(kept=kept, largest_loss=max(best_staying - best_going, 0.0))

    def _alone_threshold(self, position: int) -> float | None:
        """g(q_i), if every other client's loss is at most g(q_j); None if not."""
        if not self.is_clipped or self.mechanism.rules.mu == 0:
            return None
        is_too_large = self._losses > self._alone_thresholds
        is_too_large[position] = False
        return None if is_too_large.any() else float(self._alone_thresholds[position])

    @cached_property
    def _alone_thresholds(self) -> FloatArray:
        """g(q) of each client: infinite for one that contributes everything, 0 for one that contributes nothing."""
        q = self.contributions
        others = q.sum() - q
        for position in np.flatnonzero(others < 1e-3 * q):  # where rounding would matter
            others[position] = math.fsum(np.delete(q, position).tolist())
        certain = np.where(q > 0, math.inf, 0.0)
        np.divide(float(self.mechanism.rules.mu) * q, others, out=certain, where=(others > 0) & (q > 0))
        return certain

    def _value(self, retained: BoolArray, position: int) -> float:
        """The objective of a set, without the loss of one client; relative to the set in which everybody stays."""
        losses = self._losses.copy()
        losses[position] = 0.0
        q = self.contributions
        kept, gone = math.fsum(q[retained].tolist()), math.fsum(q[~retained].tolist())
        saved = math.fsum(losses[~retained].tolist())
        if gone == 0:
            return saved
        return -math.inf if kept == 0 else saved - float(self.mechanism.rules.mu) * gone / kept

    def _chosen(self, selecting: FloatArray) -> BoolArray:
        if self._nobody_goes or not (selecting < 0).any():
            return np.ones(len(selecting), np.bool_)
        rules = self.mechanism.rules
        problem = make_problem(selecting, self.contributions, rules.contribution_rule, version=rules.version)
        return choose(problem, len(selecting), float(rules.mu)).retained

    def _best_without(self, position: int) -> BoolArray:
        """One of the best sets in which a client goes: only their value matters, so ties need not be decided."""
        rule, mu = self.mechanism.rules.contribution_rule, float(self.mechanism.rules.mu)
        return make_problem(self._selecting, self.contributions, rule, version=1, goes=position).best(mu).retained

    def _transfers(self, profits: FloatArray, costs: FloatArray | None, retained: BoolArray) -> FloatArray:
        rules = self.mechanism.rules
        return divide(
            profits[retained],
            self.contributions[retained],
            loss_rule=rules.loss_rule,
            costs=None if costs is None else costs[retained],
            liability_cap=rules.liability_cap,
        ).transfers

    @property
    def _nobody_goes(self) -> bool:
        return self.spares_losses or self.mechanism.rules.mu == math.inf

    @property
    def is_clipped(self) -> bool:
        """Whether negative contributions count as 0, as the closed forms need."""
        return self.mechanism.rules.contribution_rule == "clip"

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {client: position for position, client in enumerate(self.clients)}

    @property
    def _selecting(self) -> FloatArray:
        return self.profits if self.expected is None else self.expected

    @cached_property
    def _losses(self) -> FloatArray:
        return np.maximum(-self._selecting, 0.0)
