"""The lies that are told in a report, each a function from the truth to what is reported instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from commonweal.audit.game import AuditedRound, Report
from commonweal.decision.mechanism import Mechanism

About = Literal["profit", "cost", "sample_count", "metric", "gain"]

SHIFT = 0.1
"""How far a shifted profit is from the true one, as a share of the mean |profit| of all rounds."""

POINT = 0.01
"""How far a false gain is from the true one, in the metric, where profits follow from agreed rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lie:
    """A rule by which a client reports in every round."""

    name: str
    title: str  # "reports ..."
    about: About
    tell: Callable[[Report, float], Report]  # from the true report and the size of a shift


def _scaled(factor: float) -> Callable[[Report, float], Report]:
    return lambda true, shift: true.with_profit(factor * true.profit, _each(true, lambda profit: factor * profit))


def _shifted(sign: float) -> Callable[[Report, float], Report]:
    return lambda true, shift: true.with_profit(
        true.profit + sign * shift, _each(true, lambda profit: profit + sign * shift)
    )


def _no_profit(true: Report, shift: float) -> Report:
    return true.with_profit(min(true.profit, 0.0), _each(true, lambda profit: profit))


def _dearer(true: Report, shift: float) -> Report:
    assert true.cost is not None, "told only where there are costs"
    more = 0.5 * true.cost
    told = replace(true, cost=true.cost + more)
    lower = true.profit - more
    return replace(told, profit=lower, expected=None if true.expected is None else true.expected - more)


def _twice_the_samples(true: Report, shift: float) -> Report:
    assert true.sample_count is not None, "told only where there are counts"
    return replace(true, sample_count=2 * true.sample_count)


def _best_metric(true: Report, shift: float) -> Report:
    return true if true.metric is None else replace(true, metric=1.0)  # None: it cannot be measured


def _a_point_less(true: Report, shift: float) -> Report:
    assert true.gain is not None, "told only where gains are known"
    expected = None if true.expected_gain is None else true.expected_gain - POINT
    return replace(true, gain=true.gain - POINT, expected_gain=expected)


def _each(true: Report, change: Callable[[float], float]) -> float | None:
    """The expected profit as the lie tells it."""
    return None if true.expected is None else change(true.expected)


LIES = (
    Lie(name="half", title="reports half of its profit or loss", about="profit", tell=_scaled(0.5)),
    Lie(name="double", title="reports twice its profit or loss", about="profit", tell=_scaled(2.0)),
    Lie(name="less", title="reports a little less than it made", about="profit", tell=_shifted(-1.0)),
    Lie(name="more", title="reports a little more than it made", about="profit", tell=_shifted(1.0)),
    Lie(name="no-profit", title="reports no profit where it made one", about="profit", tell=_no_profit),
    Lie(name="cost", title="reports half again its cost", about="cost", tell=_dearer),
    Lie(name="count", title="declares twice its samples", about="sample_count", tell=_twice_the_samples),
    Lie(name="metric", title="claims a metric of 1 for its model", about="metric", tell=_best_metric),
)
RATED_LIES = (
    *LIES,
    Lie(
        name="own-scores",
        title="scores its model a point too low",
        about="gain",
        tell=_a_point_less,
    ),
)
"""Where profits follow from agreed rates, and a lie about them must be told by scores."""

BEST = "best-reply"
EXIT = "exit"
SILENCE = "silence"
TITLES = {
    BEST: "reports what pays most and keeps its place",
    EXIT: "reports so great a loss that it is eliminated",
    SILENCE: "takes the round's model and reports nothing",
}
RATED_TITLES = {
    **TITLES,
    BEST: "scores its model so that it is paid most and keeps its place",
    EXIT: "scores its model so low that it is eliminated",
}


def reason_not_to_try(about: About, mechanism: Mechanism, rounds: Sequence[AuditedRound]) -> str | None:
    """Why a figure cannot be lied about under this mechanism; None if it can."""
    private = {"profit", "cost", "utility"} & mechanism.reads
    is_rated = all(audited.rated is not None for audited in rounds)
    if about == "profit" and not {"profit", "utility"} & mechanism.reads:
        return f"The mechanism {mechanism.name} reads no profits, so a false one changes nothing."
    if about == "cost":
        if not (mechanism.reads_costs or "utility" in private or is_rated):
            return f"The mechanism {mechanism.name} reads no costs apart from profits."
        if any(audited.figures.costs is None for audited in rounds):
            return "The figures have no costs."
    if about == "sample_count":
        if "sample_count" not in mechanism.reads and not is_rated:
            return f"The mechanism {mechanism.name} reads no sample counts."
        if any(client not in audited.sample_counts for audited in rounds for client in audited.figures.clients):
            return "The figures have no sample counts."
    if about == "metric" and "metric" not in mechanism.reads:
        return f"The mechanism {mechanism.name} reads no metrics."
    return None
