"""Which loss rule hurts members least? Every rule divides the same rounds of one or more result sets.

    commonweal reproduce quickstart --replications 6 --mu 0,0.05,0.2,inf --out out/quickstart
    python -m benchmarks.loss_rules out/quickstart [...]

Prints, for each rule, over all replications and μ:

    IR fails      retained clients with a payoff below zero, as a share of those in rounds with a loss
    by, at most   how far these payoffs are below zero, on average and at worst
    of earners    where IR fails, as a share of the clients that earned something in the round themselves
    pushed down   clients whose transfer brings them below both zero and their own profit
    largest part  of a round's loss that one client bears, on average
    total below 0 clients whose payoffs over all their rounds sum to less than zero
    error         standard error of a payoff due to the errors of the figures, in rounds with a loss
    a lie pays    what a client gains by reporting a profit that is smaller by d, as a part of d
    a jump        how far payoffs move where the budget passes zero: money that depends on the sign of a sum alone

Amounts are in units of utility, for all rules on the same retained sets: welfare is the same under all of them. "none"
is not a loss rule of commonweal: nobody pays anybody where the federation made a loss.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from commonweal.decision.exact import FloatArray
from commonweal.decision.transfers import divide
from commonweal.study.outcomes import Outcome, gather
from commonweal.study.result_set import read_results

RULES = ("contribution", "equal", "cost", "loss", "none")
DRAWS = 200


def payoffs(rule: str, profits: FloatArray, contributions: FloatArray, costs: FloatArray) -> FloatArray:
    if rule == "none" and math.fsum(profits.tolist()) < 0:
        return profits
    used = np.maximum(contributions, 0.0)
    return divide(profits, used, loss_rule="contribution" if rule == "none" else rule, costs=costs).payoffs  # type: ignore[arg-type]


def rounds_of(outcome: Outcome) -> Iterator[tuple[tuple[str, ...], dict[str, FloatArray]]]:
    """The retained clients of each round with their figures and errors."""
    by_round: dict[int, list[dict[str, float]]] = {}
    for row in outcome._rows:
        if row["retained"]:
            by_round.setdefault(row["round"], []).append(dict(row))
    for rows in by_round.values():
        columns = ("profit", "contribution", "cost", "profit_error", "contribution_error")
        figures = {name: np.array([row[name] or 0.0 for row in rows], np.float64) for name in columns}
        yield tuple(str(row["client"]) for row in rows), figures


def main() -> None:
    outcomes = [
        outcome
        for folder in sys.argv[1:]
        for of_key in gather(*read_results(Path(folder))).values()
        for replication in of_key.replications.values()
        for outcome in replication
    ]
    rounds = [(outcome, clients, figures) for outcome in outcomes for clients, figures in rounds_of(outcome)]
    at_a_loss = [(clients, f) for _, clients, f in rounds if math.fsum(f["profit"].tolist()) < 0]
    print(f"{len(outcomes)} histories, {len(rounds)} rounds, {len(at_a_loss)} of them with a loss")
    headings = (
        "IR fails", "by", "at most", "of earners", "pushed down", "largest part", "total below 0", "error",
        "a lie pays", "a jump",
    )  # fmt: skip
    print(f"{'rule':14}" + "".join(f"{heading:>14}" for heading in headings))
    for rule in RULES:
        print(f"{rule:14}" + "".join(f"{value:14.4f}" for value in _measured(rule, rounds, at_a_loss)))


def _measured(rule: str, rounds: list, at_a_loss: list) -> list[float]:  # type: ignore[type-arg]
    random = np.random.default_rng(1)
    failing, amounts, of_earners, pushed, largest, errors, lies, jumps = [], [], [], [], [], [], [], []
    for _, f in at_a_loss:
        figures = (f["profit"], f["contribution"], f["cost"])
        given = payoffs(rule, *figures)
        rounding = 1e-12 * np.abs(f["profit"]).sum()
        below, earns = given < -rounding, f["profit"] >= 0
        failing += below.tolist()
        of_earners += below[earns].tolist()
        amounts += (-given[below]).tolist()
        pushed += (given < np.minimum(f["profit"], 0.0) - rounding).tolist()
        largest.append(float(np.maximum(-given, 0).max() / -math.fsum(f["profit"].tolist())))
        drawn = [
            payoffs(
                rule,
                f["profit"] + f["profit_error"] * random.standard_normal(len(given)),
                f["contribution"] + f["contribution_error"] * random.standard_normal(len(given)),
                f["cost"],
            )
            for _ in range(DRAWS)
        ]
        errors += np.std(drawn, axis=0, ddof=1).tolist()
        step = 0.01 * np.abs(f["profit"]).sum()
        for place in range(len(given)):
            lie = np.zeros(len(given))
            lie[place] = step
            lies.append(float((payoffs(rule, f["profit"] - lie, *figures[1:]) - given)[place] + step) / step)
        jumps.append(_jump(rule, *figures))
    totals: dict[tuple[int, str], float] = {}
    for outcome, clients, f in rounds:
        for client, payoff in zip(clients, payoffs(rule, f["profit"], f["contribution"], f["cost"]), strict=True):
            totals[id(outcome), client] = totals.get((id(outcome), client), 0.0) + float(payoff)
    return [
        float(np.mean(failing)),
        float(np.mean(amounts)),
        max(amounts),
        *(float(np.mean(values)) for values in (of_earners, pushed, largest)),
        float(np.mean([total < -1e-12 for total in totals.values()])),
        *(float(np.mean(values)) for values in (errors, lies, jumps)),
    ]


def _jump(rule: str, profits: FloatArray, contributions: FloatArray, costs: FloatArray) -> float:
    """Σ |change of payoff| over a hair's breadth of the budget around zero, all profits shifted alike."""
    centred, hair = profits - profits.mean(), 1e-9 * np.abs(profits).sum() / len(profits)
    after, before = (payoffs(rule, centred + shift, contributions, costs) for shift in (hair, -hair))
    return float(np.abs(after - before).sum())


if __name__ == "__main__":
    main()
