"""Claims on total social welfare: C6, C7, C12."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from commonweal.paper.claims.claim import ALL, Claim, Effect, share_without_failure
from commonweal.paper.claims.sample import FINITE, LENIENT, NEVER, STRICT, Sample, Values
from commonweal.paper.claims.sentences import by_mu, joined, mu_text, percent, saturation
from commonweal.paper.experiments import EXPERIMENTS
from commonweal.records import History
from commonweal.records.study import Verdict

FAST = 0.8
"""The share of the peak after a third of the rounds; a steady rise would have reached a third."""


FEWEST_LATE = 0.1
"""The least part of the rounds in the second half that must have taken place for a claim about them."""


def _early_rounds(sample: Sample) -> int:
    return max(sample.round_count // 3, 1)


def _late(sample: Sample) -> Values:
    """TSW by replication and μ, mean over the second half of the rounds."""
    return np.asarray(sample.tsw[:, :, sample.round_count // 2 :].mean(axis=2))


def _share_of_peak(sample: Sample) -> Effect:
    shape, early = sample.tsw.shape[1:], _early_rounds(sample)

    def statistic(means: Values) -> Values:
        return _shares_of_peak(means.reshape(-1, *shape), early)

    return Effect(sample.tsw, statistic, over="all")


def _shares_of_peak(curves: Values, early: int) -> Values:
    """By draw and μ: the maximum up to that round over the maximum of all; 0 where welfare is never positive."""
    peaks = curves.max(axis=2)
    return np.where(peaks > 0, curves[:, :, :early].max(axis=2) / np.where(peaks > 0, peaks, 1), 0.0)


def _falls_later(sample: Sample) -> Effect:
    return Effect(sample.tsw[:, NEVER, _early_rounds(sample) - 1] - sample.tsw[:, NEVER, -1])


def _too_few_late_rounds(sample: Sample) -> str:
    """Where federations at finite μ have ended before, later rounds say nothing about them."""
    share = _late_share(sample)
    if share >= FEWEST_LATE:
        return ""
    return (
        f"Not testable here: of the rounds in the second half, {percent(share)} took place at finite μ, and at least "
        f"{percent(FEWEST_LATE)} are needed"
    )


def _late_share(sample: Sample) -> float:
    """The part of the rounds in the second half that took place at finite μ."""
    lengths = np.array([[len(history.rounds) for history in row[FINITE]] for row in sample.histories])
    first_late = sample.round_count // 2
    return float(np.maximum(lengths - first_late, 0).sum() / (lengths.size * (sample.round_count - first_late)))


def _late_growth(sample: Sample) -> Effect:
    late = _late(sample)
    return Effect(late[:, LENIENT] - late[:, STRICT])


def _late_growth_never(sample: Sample) -> Effect:
    late = _late(sample)
    return Effect(late[:, NEVER] - late[:, STRICT])


def _budget_rises(sample: Sample) -> Effect:
    """The failures and cases of the law in each replication."""
    return Effect(np.array([_budget_counts(row)[:2] for row in sample.histories], dtype=float), share_without_failure)


def _budget_counts(histories: tuple[History, ...]) -> tuple[int, int, int]:
    """Over pairs of μ and rounds with the same history so far: rises of the budget, cases, differing budgets."""
    rises = cases = differing = 0
    for smaller, larger in combinations(histories, 2):  # in the order of μ
        for one, other in zip(smaller.rounds, larger.rounds, strict=False):
            cases += 1
            gap = other.decision.budget - one.decision.budget
            rises += gap > one.decision.rounding
            differing += abs(gap) > one.decision.rounding
            if one.decision.retained != other.decision.retained:
                break
    return rises, cases, differing


def _better_than_strict(sample: Sample) -> Effect:
    """For each μ > 0, the welfare that it gives beyond μ = 0: one of them is enough."""
    final = sample.tsw[:, :, -1]
    return Effect(final[:, STRICT + 1 :] - final[:, [STRICT]], lambda means: means, over="some")


def _rise_driver(sample: Sample, verdict: Verdict) -> str:
    if verdict == "held":
        return ""
    curves, early = sample.tsw.mean(axis=0), _early_rounds(sample)
    shares = _shares_of_peak(curves[None], early)[0]
    worst = int(np.argmin(shares))
    return joined(
        f"At μ = {mu_text(sample.mus[worst])} TSW reaches {curves[worst, :early].max():.3f} up to round {early}; its "
        f"peak is {curves[worst].max():.3f} after round {int(np.argmax(curves[worst])) + 1}"
    )


def _fall_driver(sample: Sample, verdict: Verdict) -> str:
    return joined(saturation(sample))


def _late_driver(sample: Sample, verdict: Verdict) -> str:
    course = f"Mean TSW in the second half of the rounds: {by_mu(sample, _late(sample).mean(axis=0), 3)}"
    return (
        joined(course, _late_rounds(sample))
        if verdict == "held"
        else joined(course, _late_rounds(sample), saturation(sample))
    )


def _late_rounds(sample: Sample) -> str:
    """How many rounds of the second half took place; after an early end TSW keeps its last value."""
    lengths = [len(history.rounds) for row in sample.histories for history in row[FINITE]]
    return (
        f"At finite μ federations end after {np.mean(lengths):.1f} rounds on average, after which TSW keeps its last "
        f"value; {percent(_late_share(sample))} of the rounds in the second half took place"
    )


def _law_driver(sample: Sample, verdict: Verdict) -> str:
    rises, cases, differing = np.sum([_budget_counts(row) for row in sample.histories], axis=0).tolist()
    return joined(
        f"Of {cases} pairs of μ in rounds with the same history so far, the budget differs in {differing} and rises in "
        f"{rises}"
    )


def _whole_driver(sample: Sample, verdict: Verdict) -> str:
    return joined(_final_course(sample)) if verdict == "held" else joined(_final_course(sample), saturation(sample))


def _final_course(sample: Sample) -> str:
    return f"Final TSW: {by_mu(sample, sample.tsw[:, :, -1].mean(axis=0), 3)}"


_TRADE_OFF = (
    "decreasing μ leads to larger social welfare and vice-versa. [...] Hence, there is an inherent trade-off between "
    "the social welfare and client selection fairness terms in the individual rounds which is controlled by the "
    "parameter μ."
)
_LATER = (
    "We observe [...] that in the later data sharing rounds, the total social welfare increases on average by "
    "increasing the parameter μ."
)

CLAIMS = (
    Claim(
        name="C6a",
        quote="We can observe that TSW rises quickly in the initial rounds of federated learning.",
        statement="TSW rises quickly in the initial rounds.",
        experiments=EXPERIMENTS,
        effect="share of the peak of mean TSW that is reached within a third of the rounds, minimum over all μ",
        threshold=FAST,
        measure=_share_of_peak,
        driver=_rise_driver,
        least=0.0,
        most=1.0,
    ),
    Claim(
        name="C6b",
        quote="However, once the model saturates it may decrease because of clients making losses.",
        statement="Once the model saturates, TSW may decrease.",
        experiments=EXPERIMENTS,
        effect="TSW after a third of the rounds minus that at the end, at μ = inf, in units of utility",
        threshold=0.0,
        measure=_falls_later,
        driver=_fall_driver,
    ),
    Claim(
        name="C7a",
        quote=_LATER,
        statement="In later rounds, TSW increases on average with μ.",
        experiments=EXPERIMENTS,
        effect="mean TSW in the second half of the rounds at μ = {mu} minus that at μ = 0, in units of utility",
        threshold=0.0,
        measure=_late_growth,
        driver=_late_driver,
        untestable=_too_few_late_rounds,
    ),
    Claim(
        name="C7b",
        quote=_LATER,
        statement="In later rounds, TSW increases on average with μ, up to never eliminating anybody.",
        experiments=EXPERIMENTS,
        effect="mean TSW in the second half of the rounds at μ = inf minus that at μ = 0, in units of utility",
        threshold=0.0,
        measure=_late_growth_never,
        driver=_late_driver,
        untestable=_too_few_late_rounds,
    ),
    Claim(
        name="C12a",
        quote=_TRADE_OFF,
        statement="Within a round, a smaller μ never gives less welfare.",
        experiments=EXPERIMENTS,
        effect="share of pairs of μ with the same history so far in which the larger μ does not give the larger budget",
        threshold=ALL,
        measure=_budget_rises,
        driver=_law_driver,
        by_construction=True,
    ),
    Claim(
        name="C12b",
        quote="This demonstrates that the federation may benefit from retaining the clients making a temporary loss.",
        statement="Over the whole federation, some μ > 0 gives more welfare than μ = 0.",
        experiments=EXPERIMENTS,
        effect="final TSW at a μ > 0 minus that at μ = 0, the largest of all, in units of utility; the interval holds "
        "for all μ at once",
        threshold=0.0,
        measure=_better_than_strict,
        driver=_whole_driver,
    ),
)
