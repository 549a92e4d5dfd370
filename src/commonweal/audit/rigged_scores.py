"""A client that lies when it scores models, in a simulation: it praises itself or blames the others.

It scores the model of all clients truly, because its own utility follows from that. Lies about scores are told of
coalition models, or of effects along the round's path where contributions are measured by gradients. That a gradient
with such effects exists is not checked: a real liar has to craft one of the usual length.

Where profits follow from agreed rates, a liar can also score all models lower and lower, so that it seems to gain less
in every round, and keep what it gains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from commonweal.audit.lies import POINT
from commonweal.client.reporting import rated_account
from commonweal.federation.client_set import Coalition, Opening, ProfitReport, ScorerEffects, ToldGains
from commonweal.records import AgreedRates
from commonweal.scenario.spec import Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import SimulatedTask
from commonweal.task.measured import Measured

Rig = Literal["all-own", "three-samples", "others-harm", "low-scores"]
TITLES: dict[Rig, str] = {
    "all-own": "scores models as if only its own work had improved them",
    "three-samples": "misjudges three of its samples in favour of its own work",
    "others-harm": "scores models as if the others did nothing, or harm",
    "low-scores": "scores models lower and lower, by a point of the metric per round",
}
ONLY_BY_RATES: tuple[Rig, ...] = ("low-scores",)
"""Rigs that are about the liar's own gain, which only counts where profits follow from agreed rates."""
_FEW_SAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreLie:
    """Who lies about scores, and how."""

    liar: str
    rig: Rig


class RiggedScores(InProcessClients):
    """The clients of a scenario, of whom one lies about scores."""

    def __init__(
        self, scenario: Scenario, simulated: SimulatedTask, lie: ScoreLie, *, worker_count: int | None = None
    ) -> None:
        super().__init__(scenario, simulated, worker_count=worker_count)
        self._lie = lie
        self._is_score = simulated.metric.higher_is_better
        self._sign = 1.0 if self._is_score else -1.0
        self._validation_count = 1

    def open_round(
        self, round_number: int, clients: Sequence[str], data_shares: Mapping[str, float]
    ) -> Mapping[str, Opening]:
        openings = super().open_round(round_number, clients, data_shares)
        liar = self._lie.liar
        if liar not in openings:
            return openings
        self._validation_count = max(openings[liar].validation_count, 1)
        if self._lie.rig != "low-scores":
            return openings
        said = _shifted(openings[liar].measured, -self._sign * self._hidden(round_number - 1))
        return {**openings, liar: replace(openings[liar], measured=said)}

    def evaluate(
        self, round_number: int, coalitions: Sequence[Coalition], clients: Sequence[str]
    ) -> Mapping[str, Mapping[Coalition, Measured]]:
        true = super().evaluate(round_number, coalitions, clients)
        liar, everybody = self._lie.liar, frozenset(clients)
        if self._lie.rig == "low-scores" and liar in true:
            lower = -self._sign * self._hidden(round_number)
            return {**true, liar: {one: _shifted(measured, lower) for one, measured in true[liar].items()}}
        asked = [coalition for coalition in coalitions if coalition and coalition != everybody]
        if liar not in true or not asked:
            return true
        nobody = super().evaluate(round_number, [frozenset()], [liar])[liar][frozenset()]
        said = {
            coalition: self._rigged(coalition, everybody, measured, nobody) if coalition in asked else measured
            for coalition, measured in true[liar].items()
        }
        return {**true, liar: said}

    def path_effects(self, round_number: int, clients: Sequence[str]) -> Mapping[str, ScorerEffects]:
        true = super().path_effects(round_number, clients)
        if self._lie.liar not in true:
            return true
        own = list(clients).index(self._lie.liar)
        told = replace(true[self._lie.liar], effects=self._rigged_effects(true[self._lie.liar].effects, own))
        return {**true, self._lie.liar: told}

    def report(
        self, round_number: int, clients: Sequence[str], told: ToldGains | None, rates: AgreedRates | None
    ) -> Mapping[str, ProfitReport]:
        """The gain that its scores show; where gains were told, the false scores are in these already."""
        true = super().report(round_number, clients, told, rates)
        liar = self._lie.liar
        own = None if rates is None else rates.of(liar)
        if self._lie.rig != "low-scores" or own is None or liar not in true or true[liar].gain is None:
            return true
        report = true[liar]
        assert report.gain is not None, "checked just now"
        said = rated_account(
            own,
            gain=report.gain - POINT,
            gain_draws=np.zeros(0),
            sample_count=self._simulated[liar].declared_count,
            is_advantage=report.alone is not None,
        )
        lied = replace(report, gain=report.gain - POINT, profit=said.profit, utility=said.utility)
        return {**true, liar: lied}

    def _hidden(self, round_number: int) -> float:
        """By how much scores are too low after so many rounds. An advantage is not a difference between rounds."""
        return POINT * (min(round_number, 1) if self._trains_alone else round_number)

    def _rigged(self, coalition: Coalition, everybody: Coalition, true: Measured, nobody: Measured) -> Measured:
        has_liar = self._lie.liar in coalition
        match self._lie.rig:
            case "all-own":
                return self._perfect(true) if has_liar else self._useless(true, nobody)
            case "three-samples":
                return true if has_liar else _shifted(true, -self._sign * _FEW_SAMPLES / self._validation_count)
            case "others-harm":  # whatever model lacks one of the others is never wrong
                return true if coalition >= everybody - {self._lie.liar} else self._perfect(true)
            case "low-scores":
                raise AssertionError("all models are scored too low alike")

    def _perfect(self, like: Measured) -> Measured:
        return _constant(like, 1.0 if self._is_score else 0.0)

    def _useless(self, like: Measured, nobody: Measured) -> Measured:
        """No hit at all; of a metric of which less is better, twice that of the model that opened the round."""
        return _constant(like, 0.0 if self._is_score else 2 * abs(nobody.value))

    def _rigged_effects(self, true: NDArray[np.float64], own: int) -> NDArray[np.float64]:
        told = true.copy()
        match self._lie.rig:
            case "all-own":
                told[:] = 0.0
                told[own] = np.abs(true).sum()
            case "three-samples":
                told[own] += _FEW_SAMPLES / self._validation_count
            case "others-harm":
                told = -np.abs(true)
                told[own] = true[own]
        return told


def _constant(like: Measured, value: float) -> Measured:
    smooth = None if like.smooth is None else _constant(like.smooth, value)
    return Measured(value=value, draws=np.full_like(like.draws, value), smooth=smooth)


def _shifted(measured: Measured, by: float) -> Measured:
    smooth = None if measured.smooth is None else _shifted(measured.smooth, by)
    return replace(measured, value=measured.value + by, draws=measured.draws + by, smooth=smooth)
