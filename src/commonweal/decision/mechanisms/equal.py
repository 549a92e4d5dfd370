"""Equal split, a baseline: nobody is eliminated, and the budget B = Σ profit is divided equally, also if it is a loss.

payoff = B / N, in units of utility. Transfers sum to zero.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from commonweal.decision.exact import BoolArray
from commonweal.decision.mechanism import Fidelity, Mechanism, RoundView, State
from commonweal.decision.transfers import Division, divide


class Equal(Mechanism):
    """Everybody ends with the same payoff."""

    name: ClassVar[str] = "equal"
    version: ClassVar[str] = "equal/1"
    label: ClassVar[str] = "equal split"
    fidelity: ClassVar[Fidelity] = "baseline"
    reads: ClassVar[frozenset[str]] = frozenset({"profit"})

    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        profits = view.profits[retained]
        return divide(profits, np.ones(len(profits)))
