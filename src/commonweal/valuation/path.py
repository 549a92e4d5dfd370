"""Path: what the client's updates added to the score along the round's way (Aumann and Shapley, midpoint rule).

    q_n = a_n ∇v(½(w_open + w̄)) · U_n,   U_n = Σ_l (w_{n,l} − w̄_{l−1})

v is the mean over scorers of each one's mean smooth score. The effects on each scorer come from those who have models
and gradients (see `learning.path`); here they become contributions.
"""

from __future__ import annotations

from collections.abc import Sequence

from commonweal.valuation.measure import Contributions, Measure, ValuationInputs
from commonweal.valuation.scorers import Effects, ScorersRule, combine, jackknife_errors


def path(clients: Sequence[str], effects: Effects, scorers: ScorersRule = "all") -> Contributions:
    """Contributions from `effects[k, n]`, the effect of client n's updates on the score of client k."""
    return Contributions(
        measure="path",
        values=dict(zip(clients, combine(effects, scorers).tolist(), strict=True)),
        standard_errors=dict(zip(clients, jackknife_errors(effects, scorers).tolist(), strict=True)),
        evaluation_count=0,
    )


def _compute(inputs: ValuationInputs) -> Contributions:
    assert inputs.effects is not None, "a measure that uses gradients is given effects"
    return path(inputs.clients, inputs.effects, inputs.scorers)


PATH = Measure(
    name="path",
    description="path: what the client's updates added to the score along the round",
    compute=_compute,
    uses_gradients=True,
)
