"""Split by quantity, a baseline: nobody is eliminated, and the budget B = Σ profit is divided by new samples.

payoff(n) = s(n) / Σ s · B, in units of utility, with s the samples that a client declares as new in the round;
equally if nobody has any. Transfers sum to zero.
"""

from __future__ import annotations

from typing import ClassVar

from commonweal.decision.exact import BoolArray
from commonweal.decision.mechanism import Fidelity, Mechanism, RoundView, State
from commonweal.decision.readings import sample_counts
from commonweal.decision.transfers import Division, divide


class Quantity(Mechanism):
    """Payoffs follow the number of new samples."""

    name: ClassVar[str] = "quantity"
    version: ClassVar[str] = "quantity/1"
    label: ClassVar[str] = "split by quantity"
    fidelity: ClassVar[Fidelity] = "baseline"
    reads: ClassVar[frozenset[str]] = frozenset({"profit", "sample_count"})

    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        return divide(view.profits[retained], sample_counts(self.name, view)[retained])
