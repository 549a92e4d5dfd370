"""Why a client is retained or eliminated, in numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from commonweal.decision.exact import BoolArray
from commonweal.decision.mu_path import MuPath
from commonweal.decision.objective import exact_objective, objective
from commonweal.decision.problem import choose
from commonweal.decision.raw import make_problem
from commonweal.decision.ties import tie_width, wins_tie
from commonweal.errors import InputError
from commonweal.records import Decision, MuRange

_ROUNDING = 1e-15  # of an objective, relative to the amounts it consists of

Tie = Literal["larger", "earlier"]
_TIES: Mapping[Tie, str] = {
    "larger": "tie, and ties go to the larger set",
    "earlier": "of equal size tie, and ties go to clients earlier in the order",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """One client's outcome, and what the best decision with the opposite outcome would have scored."""

    client: str
    stays: bool
    profit: float  # that selection goes by
    may_go: bool  # a loss-maker in a round without grace, at a finite μ
    runner_up_retained: tuple[str, ...] | None  # the best set with the opposite outcome; None if there is no choice
    runner_up_objective: float | None
    gain: float | None  # objective − runner-up's: what this outcome gains over the opposite one
    ranges: tuple[MuRange, ...] | None  # the μ at which the client stays; None if not asked for
    is_expected: bool = False  # `profit` is the one expected of the next round
    is_harmful: bool = False  # eliminated for that, not by the mechanism
    spared: str = ""  # why not even a loss-maker can be eliminated in this round
    rounding: float = 0.0  # a smaller gain is none
    tie: Tie | None = None  # why this outcome wins, if the runner-up ties with it

    @property
    def is_tie(self) -> bool:
        """Whether the runner-up ties, so that the tie rule decided."""
        return self.tie is not None

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""
        if self.is_harmful:
            return f"{self.client} is eliminated as harmful, whatever its profit."
        fate = "stays" if self.stays else "is eliminated"
        would = "stays" if self.stays else "would stay"
        stays_at = "" if self.ranges is None else f" It {would} {_at(self.ranges)}."
        if not self.may_go:
            no_loss = "no loss is expected of it in the next round" if self.is_expected else "it makes no loss"
            reason = no_loss if self.profit >= 0 else self.spared
            return f"{self.client} stays: {reason}.{stays_at}"
        if self.gain is None or self.runner_up_retained is None:
            return f"{self.client} {fate}: there is no alternative.{stays_at}"
        doing = "keeping it" if self.stays else "eliminating it"
        opposite = "without it" if self.stays else "with it"
        names = self.runner_up_retained
        others = (", ".join(names) or "nobody") if len(names) <= 6 else f"{len(names)} clients"
        gained = f"{doing} gains {self.gain:.6g}"
        if self.gain <= self.rounding:  # with many candidates, or by version 1 of the rules
            gained = "no other set is better by more than rounding"
        if self.tie is not None:
            gained = f"two sets {_TIES[self.tie]}"
        by = "by expected profits, " if self.is_expected else ""
        return (
            f"{self.client} {fate}: {by}{gained}; the best set {opposite} ({others}) "
            f"scores {self.runner_up_objective:.6g}.{stays_at}"
        )


def describe(ranges: tuple[MuRange, ...]) -> str:
    """Ranges of μ for a table."""
    return " or ".join(str(range_) for range_ in ranges) or "never"


def _at(ranges: tuple[MuRange, ...]) -> str:
    """Ranges of μ in a sentence: "for mu >= 0.05", "only at mu = inf", "at any mu"."""
    if len(ranges) == 1 and (point := _point(ranges[0])):
        return f"only at mu = {point}"
    return " or ".join(map(_in_words, ranges)) or "at no mu"


def _in_words(range_: MuRange) -> str:
    if point := _point(range_):
        return f"at mu = {point}"
    text = str(range_)
    return "at any mu" if text == "any" else f"for mu {'in ' if text[0] in '[(' else ''}{text}"


def _point(range_: MuRange) -> str:
    """The only μ of a range as it is shown; "" if there are more."""
    value, _, rest = str(range_).partition(" ")
    return value if rest == "only" else ""


def _spared(decision: Decision) -> str:
    if decision.grace:
        return "in a grace round nobody can be eliminated"
    if decision.finished:
        return "the federation is finished, and nobody is eliminated for a loss"
    return "at mu = inf nobody is ever eliminated"


def explain(decision: Decision, client: str, path: MuPath | None = None) -> Fate:
    """Explain one client's outcome; with the round's μ path, also give the ranges of μ in which it stays."""
    clients = decision.figures.clients
    if client not in decision.figures.profits:
        raise InputError(f"Client {client!r} is not in this round. Its clients: {', '.join(clients[:10])}.")
    is_harmful = client in decision.harmful
    if not is_harmful:
        decision = decision.without_harmful
        clients = decision.figures.clients
    selecting = decision.figures.selecting
    profit = selecting[client]
    stays = client not in decision.eliminated
    may_go = profit < 0 and not decision.spares_losses and decision.mu < math.inf and not is_harmful
    runner_up: tuple[str, ...] | None = None
    runner_up_objective: float | None = None
    rounding = 0.0
    tie: Tie | None = None
    if may_go:
        profits = np.array([selecting[c] for c in clients], dtype=np.float64)
        used = np.array([decision.used_contributions[c] for c in clients])
        position = clients.index(client)
        rule = decision.rules.contribution_rule
        problem = make_problem(
            profits,
            used,
            rule,
            version=1,  # the largest objective, not the largest set that ties with it
            stays=None if stays else position,
            goes=position if stays else None,
        )
        retained = choose(problem, len(clients), decision.mu).retained
        retained[position] = not stays
        score = objective(profits, used, retained, decision.mu)
        if score > -math.inf:
            runner_up = tuple(c for c, kept in zip(clients, retained.tolist(), strict=True) if kept)
            runner_up_objective = score
            rounding = _ROUNDING * max(float(np.abs(profits).sum()), abs(decision.objective), abs(score))
            width = tie_width(profits, decision.rules.version)
            if decision.objective - score <= rounding + float(width):
                # The retained set may itself fall short of the best one.
                best = choose(make_problem(profits, used, rule, version=1), len(clients), decision.mu).retained
                largest, reached = (exact_objective(profits, used, kept, decision.mu) for kept in (best, retained))
                if largest - reached <= width:
                    tie = _tie(np.array([c in decision.eliminated for c in clients]), ~retained)
    return Fate(
        client=client,
        stays=stays,
        profit=profit,
        may_go=may_go,
        runner_up_retained=runner_up,
        runner_up_objective=runner_up_objective,
        gain=None if runner_up_objective is None else decision.objective - runner_up_objective,
        ranges=None if path is None or is_harmful else path.stays(client),
        is_expected=decision.figures.expected is not None,
        is_harmful=is_harmful,
        spared=_spared(decision),
        rounding=rounding,
        tie=tie,
    )


def _tie(goes: BoolArray, other: BoolArray) -> Tie | None:
    """By which part of the tie rule a set (True = goes) wins against another one; None: it does not."""
    if not wins_tie(goes, other):
        return None
    return "larger" if goes.sum() < other.sum() else "earlier"
