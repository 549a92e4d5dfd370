"""Power-of-Choice, Cho et al. (2020): of some candidates, those with the largest loss take part. The variant rpow-d.

With p_k the client's part of all data, K clients and m = max(C K, 1) places:

    1. d candidates are drawn without replacement, with probabilities p_k (m ≤ d ≤ K)
    2. of these, the m with the largest loss take part; ties are broken at random

In the authors' pow-d, candidates report their loss under the current model; in rpow-d the server takes the mean loss
that each of them reported when it last trained, and +∞ for a client that never did. Nobody pays, is paid or is
eliminated.

Mapping. The loss is the mean training loss in the round's last iteration; p_k follows the new samples of the last
round that the client took part in. m is `fraction` of the active clients (C) and d is `candidates` of them, both
rounded down, at least 1 and m. Clients without a count are drawn like the largest. The first round has everybody.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.lots import drawn, place_count
from commonweal.decision.mechanism import Fidelity, Mechanism, Parameter, RoundView, State
from commonweal.decision.mu_path import MuPath
from commonweal.decision.payments import without_money
from commonweal.decision.readings import given, sample_counts
from commonweal.decision.transfers import Division
from commonweal.records import Decision, Instructions
from commonweal.seeds import stream


def choose_participants(
    losses: FloatArray, data: FloatArray, candidate_count: int, places: int, rng: np.random.Generator
) -> list[int]:
    """The positions of the clients that take part; those without data are candidates only if others do not suffice."""
    with np.errstate(divide="ignore"):
        candidates = drawn(np.log(data), candidate_count, rng)
    missing = np.zeros(len(data))
    missing[candidates] = -math.inf
    candidates += drawn(missing, candidate_count - len(candidates), rng)
    shuffled = rng.permutation(candidates)
    by_loss = shuffled[np.argsort(-losses[shuffled], kind="stable")]
    return sorted(by_loss[:places].tolist())


class PowerOfChoice(Mechanism):
    """Of some candidates, those with the largest loss take part."""

    name: ClassVar[str] = "power-of-choice"
    version: ClassVar[str] = "power-of-choice/1"
    label: ClassVar[str] = "Power-of-Choice (rpow-d), Cho et al. 2020"
    fidelity: ClassVar[Fidelity] = "full"
    reads: ClassVar[frozenset[str]] = frozenset({"loss", "sample_count", "seed"})
    decides: ClassVar[frozenset[str]] = frozenset({"participants"})
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "fraction": Parameter(default=0.6, minimum=0.0, maximum=1.0, meaning="of the active clients that take part"),
        "candidates": Parameter(default=0.8, minimum=0.0, maximum=1.0, meaning="of the active clients, d"),
    }

    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        return without_money(view.profits[retained])

    def advance(self, view: RoundView, state: State, decision: Decision) -> State:
        counts, losses = sample_counts(self.name, view), given(view.losses)
        after = dict(state)
        for client, count, loss in zip(view.clients, counts.tolist(), losses.tolist(), strict=True):
            last = state.get(client, [count, None])[1]
            after[client] = [count, loss if math.isfinite(loss) else last]
        return after

    def plan(self, view: RoundView, state: State, active: tuple[str, ...]) -> Instructions:
        largest = max((state[client][0] for client in active if client in state), default=1.0)
        known = [state.get(client, [largest, None]) for client in active]
        places = place_count(self.parameter("fraction"), len(active))
        chosen = choose_participants(
            np.array([math.inf if loss is None else loss for _, loss in known], dtype=np.float64),
            np.array([count for count, _ in known], dtype=np.float64),
            max(place_count(self.parameter("candidates"), len(active)), places),
            places,
            stream(view.seed or 0, "power-of-choice", view.round_number),
        )
        return Instructions(participants=tuple(active[position] for position in chosen))

    def explain(self, view: RoundView, state: State, decision: Decision, client: str, path: MuPath | None) -> str:
        return f"{client} stays: Power-of-Choice eliminates nobody, and asks those with the largest loss."
