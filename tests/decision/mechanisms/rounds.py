"""Random rounds with every figure that a mechanism can read, and rounds decided one after another."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from commonweal.decision.mechanism import RoundDecider
from commonweal.decision.mechanisms import make_mechanism
from commonweal.records import Figures, Rules

amounts = st.floats(-1.0, 1.0).map(lambda x: round(x, 6))


def mechanism(name, *, mu=math.inf, seed=None, **parameters):
    return make_mechanism(Rules(mu=mu, mechanism=name, parameters=tuple(parameters.items()), seed=seed))


def sizeable(value):
    """Figures are 0 or of a size to compute with."""
    return value if abs(value) > 1e-40 else 0.0


@st.composite
def rounds(draw, *, least=1, most=6):
    """Figures and sample counts of one round; similarities are cosines of vectors."""
    names = [f"c{n}" for n in range(draw(st.integers(least, most)))]

    def column(values):
        return {name: draw(values) for name in names}

    costs, utilities = column(amounts.map(abs)), column(amounts)
    vectors = np.random.default_rng(draw(st.integers(0, 2**32))).normal(size=(len(names), 3)) + draw(st.floats(0, 2))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = np.clip(vectors @ vectors.T, -1, 1)
    further = {
        "utility": utilities,
        "metric": column(st.floats(0.0, 1.0)),
        "loss": column(st.floats(0.0, 5.0)),
        **{f"similarity:{name}": dict(zip(names, cosines[n].tolist(), strict=True)) for n, name in enumerate(names)},
    }
    figures = Figures(
        profits={name: utilities[name] - costs[name] for name in names},
        contributions=column(amounts),
        costs=costs,
        further={
            name: {c: v if abs(v) > 1e-50 else 0.0 for c, v in column.items()} for name, column in further.items()
        },
    )
    return figures, column(st.integers(0, 300))


def decided(mechanism, given_rounds):
    """Decisions, instructions and the state after each round."""
    decider, results = RoundDecider(mechanism), []
    for number, (figures, counts) in enumerate(given_rounds, start=1):
        decision = decider.decide(figures, sample_counts=counts, round_number=number)
        instructions = decider.plan(decision, decision.retained, sample_counts=counts, round_number=number)
        results.append((decision, instructions, decider.state))
    return results


def money_left(decision):
    """Σ transfers + Σ charges + external, which is zero but for rounding."""
    return math.fsum([*decision.transfers.values(), *decision.charges.values(), decision.external])


def money_moved(decision):
    return math.fsum(map(abs, [*decision.transfers.values(), *decision.charges.values(), decision.external]))
