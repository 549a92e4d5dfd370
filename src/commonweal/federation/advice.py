"""Who gains by federating, who does better alone, and whether the federation should be founded at all.

The answer rests on differences: how much better, by the metric, the federation's model is at a client than the model
that the client trains alone; above 0 the federation's model is better, also if the metric is an error. There are two
sources of differences, with an interval of about 95 % each:

- one run: the difference of a client's last round ± twice its bootstrap error. The mean over N clients has the error
  √(Σ e²) / N, because clients validate on samples of their own. The interval is about other validation samples, with
  the models as they were trained.
- many splits: the mean over splits ± Student's t times its error. The interval is about other splits of the same rows,
  not about other rows: these can differ more, as every split shares most of its rows with every other. Clients where
  the metric can be measured in fewer than half of the splits are left out.

A client gains if its interval lies above 0, and loses if it lies below. The federation's verdict is the same question
about the mean over clients, in which each client weighs the same, however many samples it has. Money is left out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.records import Advice, ClientAdvice, Estimate, Improvement, MetricName, RoundReport

ERROR_LIMIT = 2.0  # a difference beyond this many bootstrap errors counts as real
_TAIL = 0.975  # of Student's t, for an interval of 95 %


def advise(
    differences: Mapping[str, Sequence[float]], *, metric: MetricName, reasons: Mapping[str, str] | None = None
) -> Advice:
    """Advice from many splits.

    `differences` has one figure per client and split, above 0 where the federation's model is better, and NaN where the
    metric could not be measured; the n-th figures of all clients belong to the same split. `reasons` says for clients
    why theirs cannot be measured, in one sentence each.
    """
    counts = {client: len(row) for client, row in differences.items()}
    if len(set(counts.values())) > 1:
        one, other = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        raise InputError(
            f"Every client needs one difference per split (NaN where the metric cannot be measured), but {one!r} has "
            f"{counts[one]} and {other!r} has {counts[other]}."
        )
    rows = {client: np.asarray(row, dtype=np.float64) for client, row in differences.items()}
    measured = {client: row for client, row in rows.items() if np.isfinite(row).sum() >= max(2, len(row) / 2)}
    untold = {
        client: _few_splits(client, int(np.isfinite(row).sum()), len(row), metric)
        for client, row in rows.items()
        if client not in measured
    }
    return _advice(
        list(differences),
        {client: _mean_over_splits([row]) for client, row in measured.items()},
        _mean_over_splits(list(measured.values())) if measured else None,
        untold
        | {client: reason for client, reason in (reasons or {}).items() if client in untold and not _any(rows[client])},
        metric,
    )


def advise_on_run(rounds: Sequence[RoundReport], *, metric: MetricName) -> Advice | None:
    """Advice from the last round of each client in one run; None if no client trained a model alone."""
    last: dict[str, Estimate] = {}
    reasons: dict[str, str] = {}
    for each in rounds:
        last |= {client: figures.advantage for client, figures in each.clients.items() if figures.advantage is not None}
        reasons |= {event.client: event.text for event in each.events if event.kind == "unmeasurable" and event.client}
    if not last:
        return None
    sign = 1.0 if metric.higher_is_better else -1.0
    known: dict[str, tuple[float, float]] = {}
    untold: dict[str, str] = {}
    for client, difference in last.items():
        if math.isnan(difference.value):
            untold[client] = reasons.get(client) or _unmeasurable(client, metric)
        elif difference.standard_error is None or (difference.standard_error == 0 and difference.value != 0):
            untold[client] = f"The error of {client}'s difference is not known, so nothing can be said about it."
        else:
            known[client] = sign * difference.value, difference.standard_error
    return _advice(
        list(last),
        {client: _within(value, ERROR_LIMIT * error) for client, (value, error) in known.items()},
        _mean_over_clients(list(known.values())) if known else None,
        untold,
        metric,
    )


def _any(row: NDArray[np.float64]) -> bool:
    return bool(np.isfinite(row).any())


def _within(value: float, half: float) -> Improvement:
    return Improvement(mean=value, low=value - half, high=value + half)


def _mean_over_clients(known: Sequence[tuple[float, float]]) -> Improvement:
    error = math.sqrt(math.fsum(error**2 for _, error in known)) / len(known)
    return _within(math.fsum(value for value, _ in known) / len(known), ERROR_LIMIT * error)


def _mean_over_splits(rows: Sequence[NDArray[np.float64]]) -> Improvement:
    """The mean of the clients' means m_c over their n_c splits, with Student's interval over all S splits.

    Split s moves the mean by w_s = Σ_c (d_cs − m_c) / n_c / N, so its variance is S / (S − 1) · Σ_s w_s². If nothing is
    missing, this is the variance of the mean of the splits' means.
    """
    from scipy.stats import t

    means = [float(np.nanmean(row)) for row in rows]
    moves = [(row - mean) / np.isfinite(row).sum() for row, mean in zip(rows, means, strict=True)]
    by_split = np.nan_to_num(np.array(moves)).sum(axis=0) / len(rows)
    split_count = int(np.isfinite(np.array(rows)).any(axis=0).sum())
    error = math.sqrt(split_count / (split_count - 1) * float(by_split @ by_split))
    return _within(math.fsum(means) / len(means), float(t.ppf(_TAIL, split_count - 1)) * error)


def _advice(
    clients: Sequence[str],
    improvements: Mapping[str, Improvement],
    mean: Improvement | None,
    untold: Mapping[str, str],
    metric: MetricName,
) -> Advice:
    text = _Text(metric, list(improvements.values()))
    told = {
        client: text.of_client(client, improvements[client])
        if client in improvements
        else ClientAdvice(verdict="unmeasurable", improvement=None, sentence=untold[client])
        for client in clients
    }
    return text.of_federation(told, mean)


class _Text:
    """The sentences; figures are written as federation minus alone, as a reader would subtract them."""

    def __init__(self, metric: MetricName, improvements: Sequence[Improvement]) -> None:
        self._metric = metric
        self._sign = 1.0 if metric.higher_is_better else -1.0
        self._decimals = _decimals([one.high - one.mean for one in improvements], is_share=metric.is_share)

    def of_client(self, client: str, improvement: Improvement) -> ClientAdvice:
        if improvement.low > 0:
            sentence = f"{client} gains by federating ({self._figures(improvement)})."
            return ClientAdvice(verdict="gains", improvement=improvement, sentence=sentence)
        if improvement.high < 0:
            sentence = f"{client} would not miss the federation: it does better alone ({self._figures(improvement)})."
            return ClientAdvice(verdict="loses", improvement=improvement, sentence=sentence)
        sentence = f"{client} may not miss the federation: the difference may be chance ({self._figures(improvement)})."
        return ClientAdvice(verdict="unclear", improvement=improvement, sentence=sentence)

    def of_federation(self, told: Mapping[str, ClientAdvice], mean: Improvement | None) -> Advice:
        counts = Counter(one.verdict for one in told.values())
        who = ", ".join(
            phrase
            for phrase in (
                f"{counts['gains']} of {_counted(len(told), 'client')} gain{'s' * (counts['gains'] == 1)}",
                f"{counts['loses'] or 'none'} {'do' if counts['loses'] > 1 else 'does'} better alone",
                f"at {counts['unclear']} no difference can be seen" if counts["unclear"] else "",
                f"{counts['unmeasurable']} cannot be measured" if counts["unmeasurable"] else "",
            )
            if phrase
        )
        if mean is None:
            sentence = f"Undecided: {self._metric.label} cannot be compared at any client."
            return Advice(verdict="undecided", improvement=None, sentence=sentence, clients=told)
        figures = f"mean {self._figures(mean)}"
        if mean.low > 0:
            leave = " Those who do better alone need not join." if counts["loses"] else ""
            sentence = f"Federate: models are better together than alone ({figures}). {_capital(who)}.{leave}"
            return Advice(verdict="federate", improvement=mean, sentence=sentence, clients=told)
        if mean.high < 0:
            some = " Those who gain may still found a smaller one." if counts["gains"] > 1 else ""
            sentence = f"Do not federate: pooling does not help ({figures}). {_capital(who)}.{some}"
            return Advice(verdict="do not federate", improvement=mean, sentence=sentence, clients=told)
        sentence = f"Undecided: the difference between together and alone may be chance ({figures}). {_capital(who)}."
        return Advice(verdict="undecided", improvement=mean, sentence=sentence, clients=told)

    def _figures(self, one: Improvement) -> str:
        low, high = sorted((self._sign * one.low, self._sign * one.high))
        unit = " points" if self._metric.is_share else ""
        lower = "" if self._metric.higher_is_better else "; lower is better"
        mean = self._number(self._sign * one.mean)
        interval = f"95 % {self._number(low)} to {self._number(high)}"
        return f"difference in {self._metric.label} {mean}{unit}, {interval}{lower}"

    def _number(self, value: float) -> str:
        text = f"{abs(100 * value if self._metric.is_share else value):.{self._decimals}f}"
        return text if float(text) == 0 else f"{'+' if value > 0 else '−'}{text}"


def _decimals(half_widths: Sequence[float], *, is_share: bool) -> int:
    """One of percentage points; otherwise three, or as many as show two digits of the typical half-width."""
    if is_share:
        return 1
    typical = float(np.median(half_widths)) if half_widths else 0.0
    if not 0 < typical < math.inf or 0.001 <= typical < 1:
        return 3
    return max(0, 1 - math.floor(math.log10(typical)))


def _unmeasurable(client: str, metric: MetricName) -> str:
    return f"{_capital(metric.label)} cannot be measured at {client} on its validation samples."


def _few_splits(client: str, count: int, split_count: int, metric: MetricName) -> str:
    if count == 0:
        return _unmeasurable(client, metric)
    return (
        f"{_capital(metric.label)} cannot be measured at {client}: this was possible in only {count} of "
        f"{_counted(split_count, 'split')}."
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
