"""CGSV, Xu et al. (2021), "Gradient-Driven Rewards to Guarantee Fairness in Collaborative Machine Learning".

Clients are rewarded in model quality, not in money. With u_i the update of client i, normalised to a common length,
and importances r that sum to 1 (equal at first):

    u_N = Σ_i r_i u_i,    φ_i = cos(u_i, u_N)                    what the update adds to the common direction
    r_i ← α r_i + (1 − α) φ_i, at least 0.001, then divided by the sum
    share of u_N's components, the largest first, that client i downloads: tanh(β r_i) / max_j tanh(β r_j)

Mapping. Only the cosines S_ij of the round's updates are needed: φ_i = Σ_j r_j S_ij / sqrt(Σ_ij r_i r_j S_ij). A
round counts as one of the authors' iterations. The defaults α = 0.95 and β = 1 are from the authors' code, and so is
the least importance; a client that joins later starts with the mean importance. Nobody pays, is paid or is eliminated
(the authors may remove clients whose importance falls too low). The model shares are not carried out: everybody gets
the whole model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.mechanism import Fidelity, Mechanism, Parameter, RoundView, State
from commonweal.decision.mu_path import MuPath
from commonweal.decision.payments import without_money
from commonweal.decision.readings import given
from commonweal.decision.transfers import Division
from commonweal.records import Decision, Instructions

_LEAST = 0.001  # importance


def alignments(similarities: FloatArray, importances: FloatArray) -> FloatArray:
    """φ: the cosine of each update with their sum by importance; 0 if that sum is zero."""
    toward = similarities @ importances
    length = math.sqrt(max(float(importances @ toward), 0.0))
    return toward / length if length > 0 else np.zeros(len(importances))


def next_importances(importances: FloatArray, similarities: FloatArray, alpha: float) -> FloatArray:
    """r after a round."""
    moved = alpha * importances + (1 - alpha) * alignments(similarities, importances)
    kept = np.maximum(moved, _LEAST)
    return np.asarray(kept / kept.sum())


def model_shares(importances: FloatArray, beta: float) -> FloatArray:
    """The part of the update that each client downloads, from 0 to 1."""
    altruism = np.tanh(beta * importances)
    return np.asarray(altruism / altruism.max())


class CGSV(Mechanism):
    """Better updates earn a better model."""

    name: ClassVar[str] = "cgsv"
    version: ClassVar[str] = "cgsv/1"
    label: ClassVar[str] = "CGSV, Xu et al. 2021"
    fidelity: ClassVar[Fidelity] = "partial"
    reads: ClassVar[frozenset[str]] = frozenset({"similarity"})
    decides: ClassVar[frozenset[str]] = frozenset({"model quality"})
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "alpha": Parameter(default=0.95, minimum=0.0, maximum=1.0, meaning="weight of past importance"),
        "beta": Parameter(default=1.0, minimum=1e-6, maximum=1e3, meaning="the larger, the more equal the models"),
    }

    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        return without_money(view.profits[retained])

    def advance(self, view: RoundView, state: State, decision: Decision) -> State:
        before = np.array([state.get(client, math.nan) for client in view.clients], dtype=np.float64)
        known = before[~np.isnan(before)]
        before = np.where(np.isnan(before), known.mean() if len(known) else 1.0, before)
        after = next_importances(before / before.sum(), given(view.similarities), self.parameter("alpha"))
        return {**state, **dict(zip(view.clients, after.tolist(), strict=True))}

    def plan(self, view: RoundView, state: State, active: tuple[str, ...]) -> Instructions:
        known = [client for client in active if client in state]
        if not known:
            return Instructions()
        shares = model_shares(np.array([state[client] for client in known]), self.parameter("beta"))
        return Instructions(model_shares=dict(zip(known, shares.tolist(), strict=True)))

    def explain(self, view: RoundView, state: State, decision: Decision, client: str, path: MuPath | None) -> str:
        importance = self.advance(view, state, decision)[client]
        return f"{client} stays: CGSV eliminates nobody. Its updates have the importance {importance:.3f}."
