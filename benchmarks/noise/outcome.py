"""What a rule leads to in one seeded federation at one μ, compared with the truth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from benchmarks.noise.histories import Facts, Histories, RetainedSets
from benchmarks.noise.rules import Rule

from commonweal.decision.decide import decision_with, select
from commonweal.decision.ending import find_ending
from commonweal.records import Figures, Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Amounts are in units of utility, over all rounds."""

    true_welfare: float  # Σ true profits of all who took part
    tsw: float  # the paper's: Σ measured profits of those retained
    hindsight: float  # the most that keeping everybody up to one common round would have yielded
    eliminations: int
    wrong_eliminations: int  # those that the mechanism on true figures of the round would not have made
    error_of_money: float  # Σ |transfer − transfer on true profits|
    money_moved: float  # Σ of the transfers received, on true profits
    mean_duration: float  # rounds in which a client took part

    @property
    def gap(self) -> float:
        """Welfare lost against hindsight; negative where a rule does better."""
        return self.hindsight - self.true_welfare


def follow(histories: Histories, rule: Rule, mu: float) -> Outcome:
    """Run the federation by the rule."""
    scenario = histories.scenario
    history: RetainedSets = ()
    rounds: list[Facts] = []
    durations = dict.fromkeys(scenario.client_names, 0)
    welfare, tsw, error, moved = 0.0, 0.0, 0.0, 0.0
    eliminations = wrong = 0
    while True:
        facts = histories.round(history)
        rounds.append(facts)
        last = len(rounds) == scenario.round_count
        active = tuple(facts)
        following = histories.round((*history, active)) if rule.sees_next_round and not last else None
        profits = rule.profits(rounds, following)
        contributions = [facts[client].contribution for client in active]
        finished = rule.stops and find_ending(profits.selection) is not None
        retained = active if finished else _retained(profits.selection, contributions, mu)
        by_truth = _retained({client: one.true_profit for client, one in facts.items()}, contributions, mu)
        welfare += math.fsum(one.true_profit for one in facts.values())
        tsw += math.fsum(facts[client].profit for client in retained)
        for client in active:
            durations[client] += 1
        gone = [client for client in active if client not in retained]
        eliminations += len(gone)
        wrong += sum(client in by_truth for client in gone)
        if retained:
            paid = _transfers(profits.money, facts, retained)
            true = _transfers({client: one.true_profit for client, one in facts.items()}, facts, retained)
            error += math.fsum(abs(paid[client] - true[client]) for client in retained)
            moved += math.fsum(amount for amount in true.values() if amount > 0)
        if last or finished or len(retained) < 2:
            break
        history = (*history, retained)
    return Outcome(
        true_welfare=welfare,
        tsw=tsw,
        hindsight=hindsight(histories),
        eliminations=eliminations,
        wrong_eliminations=wrong,
        error_of_money=error,
        money_moved=moved,
        mean_duration=float(np.mean(list(durations.values()))),
    )


def hindsight(histories: Histories) -> float:
    """The largest cumulated true welfare of keeping everybody up to one common round."""
    scenario = histories.scenario
    everybody = (histories.round((scenario.client_names,) * number) for number in range(scenario.round_count))
    return float(np.cumsum([math.fsum(one.true_profit for one in facts.values()) for facts in everybody]).max())


def _retained(profits: Mapping[str, float], contributions: list[float], mu: float) -> tuple[str, ...]:
    stays = select(list(profits.values()), contributions, mu=mu)
    return tuple(client for client, kept in zip(profits, stays.tolist(), strict=True) if kept)


def _transfers(profits: Mapping[str, float], facts: Facts, retained: tuple[str, ...]) -> dict[str, float]:
    figures = Figures(profits=dict(profits), contributions={client: one.contribution for client, one in facts.items()})
    return dict(decision_with(figures, Rules(mu=0.0), retained).transfers)
