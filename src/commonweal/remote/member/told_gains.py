"""What a member checks before it signs a profit that follows from a gain which the coordinator told it.

The coordinator sends everybody's gains as measured, and the member's own as it is used, pooled or not. The member
compares its row with what it measured itself, and pools the table again. The gain that is expected of the next round
follows from the tables of all rounds; the ledger holds them, and verifying the ledger computes it again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from commonweal.federation.client_set import ToldGain
from commonweal.ledger.member_documents import SignedGain, SignedTable
from commonweal.records import PairedGain, RoundGains
from commonweal.records.gains import table_of
from commonweal.remote.member.store import MemberStore, OpenRound
from commonweal.remote.messages.message import QuestionError
from commonweal.task.measured import Measured, paired_gain
from commonweal.task.metrics import Metric
from commonweal.task.records import Model
from commonweal.valuation.used_gains import FIGURES_VERSIONS, pooled_again

_ROUNDING = 1e-9  # processors round differently


@dataclass(frozen=True, slots=True)
class Told:
    """The gain that the member's profit follows from, and the table that this gain follows from."""

    gain: ToldGain
    table: SignedTable


def own_gain(store: MemberStore, open_round: OpenRound, adopted: str, metric: Metric) -> PairedGain | None:
    """The member's own gain in a round in which it remembered its scores; None if the metric cannot be measured."""
    if open_round.opening not in open_round.measures or adopted not in open_round.measures:
        return None
    now, opening = (_measured(store.get(open_round.measures[digest])) for digest in (adopted, open_round.opening))
    return paired_gain(now, opening, metric, open_round.validation_count)


def check_figures(fields: Mapping[str, Any], figures: str, *, is_late: bool) -> None:
    """Refuse a question for another kind of profit than was agreed: the coordinator may not choose between them.

    A report that comes after its round was settled without the member is on what it measured.
    """
    if ("gains" in fields) == (figures != "measured" and not is_late):
        return
    agreed = (
        "as measured"
        if figures == "measured" or is_late
        else "over the model that opened the round"
        if figures == "paired"
        else f"{figures} with those of the others"
    )
    told = "with a table of gains" if "gains" in fields else "without a table of gains"
    raise QuestionError(f"Gains are used {agreed} in round {fields['round']}, but the question came {told}.")


def read_told(fields: Mapping[str, Any], client: str, own: PairedGain | None, figures: str) -> Told | None:
    """What the question tells of gains; None if profits are used as measured.

    Raises `QuestionError` if the table contradicts what the member measured, or the told gain the table, or if gains
    are used otherwise than agreed.
    """
    if "gains" not in fields:
        return None
    try:
        given = json.loads(fields["gains"])
        told = ToldGain(pooled=_figure(given["pooled"]), expected=_figure(given["expected"], or_none=True))
        gains = RoundGains(
            version=given["table"]["version"],
            table=table_of(given["table"]),
            newcomers=tuple(given["table"]["newcomers"]),
            pooled={client: told.pooled},
            expected=None if told.expected is None else {client: told.expected},
        )
        fault = _fault_of(gains, told, client, own, figures)
        if not fault and gains.table_document(fields["round"]) != given["table"]:
            fault = f"it is not a table of round {fields['round']}"
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        fault = f"it cannot be read ({error!r})"
    if fault:
        raise QuestionError(
            f"The table of gains of round {fields['round']} is wrong: {fault}. {client} signs no profit that follows "
            "from it."
        )
    return Told(told, SignedTable.of(gains, fields["round"]))


def _figure(value: Any, *, or_none: bool = False) -> Any:
    if not (or_none and value is None) and not (type(value) in (int, float) and math.isfinite(value)):
        raise ValueError(f"a gain must be a finite number, got {ascii(value)[:40]}")
    return value


def gains_in_words(signed: SignedGain, metric: Metric) -> str:
    """For the member's log: which gain its profit follows from, and why."""
    measured = "could not be measured here" if signed.measured is None else f"is {signed.measured.gain:+.6g} here"
    expected = ""
    if signed.expected is not None:
        expected = f"; expected next: a gain of {signed.expected:+.6g}, a profit of {signed.expected_profit:+.6g}"
    is_own = signed.measured is not None and signed.pooled == signed.measured.gain
    used = "it" if is_own else f"the gain pooled over all members, {signed.pooled:+.6g}"
    return (
        f". The gain in {metric.label} over the model that opened the round {measured}; the utility follows from "
        f"{used}{expected}"
    )


def _fault_of(gains: RoundGains, told: ToldGain, client: str, own: PairedGain | None, figures: str) -> str:
    """What is wrong with it; empty if nothing is."""
    if gains.version not in FIGURES_VERSIONS.values():
        return f"its version {gains.version!r} is not known here; install the federation's version of commonweal"
    if gains.version.partition("/")[0] != figures:
        return f"gains are {figures} in this federation, but its version is {gains.version!r}"
    impossible = next((other for other, one in gains.table.items() if one.fault is not None), None)
    if impossible is not None:
        return f"no measurement can give the row of {impossible}: {gains.table[impossible].fault}"
    row = gains.table.get(client)
    if own is None or row is None:
        if own is not None:
            return f"it has no row of {client}, which measured a gain of {own.gain:.9g}"
        if row is not None:
            return f"it has a row of {client}, which could not measure a gain"
    elif not _is_same(own, row):
        return (
            f"the row of {client} is {_row(row)}, but {client} measured {_row(own)}; both are gain, samples and "
            "squared change"
        )
    pooled = pooled_again(gains).values.get(client, 0.0)
    if not _is_close(pooled, told.pooled):
        return f"by the table, the pooled gain of {client} is {pooled:.9g}, but {told.pooled:.9g} was told"
    return ""


def _measured(kept: Model) -> Measured:
    """From the arrays that were remembered: scores of samples, or the metric and its draws."""
    if "scores" in kept:
        scores = kept["scores"][0].astype(np.float64)
        return Measured(value=float(scores.mean()), draws=np.empty(0), scores=scores)
    return Measured(value=float(kept["values"][0]), draws=kept["draws"][0])


def _is_same(one: PairedGain, other: PairedGain) -> bool:
    return (
        one.sample_count == other.sample_count
        and one.is_bounded == other.is_bounded
        and _is_close(one.gain, other.gain)
        and _is_close(one.squared_change, other.squared_change)
    )


def _is_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_ROUNDING, abs_tol=_ROUNDING)


def _row(row: PairedGain) -> str:
    return f"{row.gain:.9g}, {row.sample_count} and {row.squared_change:.9g}"
