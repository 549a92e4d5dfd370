"""A comparison made up for tests of pages and figures: no training."""

from __future__ import annotations

from commonweal.comparison.contenders import find_contenders
from commonweal.comparison.table_one import TICKS
from commonweal.decision.mechanism import CARRIED_OUT, PRIVATE, READABLE
from commonweal.records import Rules
from commonweal.records.audit import LieResult
from commonweal.records.comparison import COLUMNS, Column, ComparedMechanism, Comparison, Figure, Skipped
from commonweal.records.study import Interval
from commonweal.seeds import stream


def made_comparison(*, is_heterogeneous: bool = True, truth: str | None = None) -> Comparison:
    contenders, _ = find_contenders(Rules(mu=0.05))
    return Comparison(
        scenario="made <up>",
        description="",
        clients=("north", "south"),
        round_count=8,
        seeds=(1, 2, 3),
        mechanisms=tuple(_compared(one.name, one.mechanism, is_heterogeneous) for one in contenders),
        skipped=(Skipped(name="other", label="another", reason="It needs <something>."),),
        truth=truth,
        is_heterogeneous=is_heterogeneous,
        distinct_round_count=120,
        decided_round_count=400,
        notes=("A note.",),
    )


def _compared(name, mechanism, is_heterogeneous):  # type: ignore[no-untyped-def]
    figures = {column.name: _figure(name, column) for column in COLUMNS}
    if not is_heterogeneous:
        figures["heterogeneity"] = None
    if name == "equal":
        figures["fairness"] = None
    return ComparedMechanism(
        name=name,
        label=mechanism.describe(),
        fidelity=mechanism.fidelity,
        mu=None,
        reads=tuple(figure for figure in READABLE if figure in mechanism.reads),
        private_reads=tuple(figure for figure in READABLE if figure in mechanism.reads & PRIVATE),
        decides=tuple(sorted(mechanism.decides)),
        not_carried_out=tuple(sorted(mechanism.decides - CARRIED_OUT)),
        figures=figures,
        durations={client: Interval(value=5.0, lower=4.0, upper=6.0) for client in ("north", "south")},
        ticks=TICKS.get(name),
        lies=() if name == "cgsv" else tuple(_lie(name, lie) for lie in ("no-profit", "best-reply")),
    )


def _figure(name: str, column: Column) -> Figure:
    low, high = max(column.lower, -1.0), min(column.upper, 1.0)
    values = stream(1, name, column.name).uniform(low, high, 3).tolist()
    mean = sum(values) / 3
    return Figure(
        mean=Interval(value=mean, lower=max(mean - 0.2, column.lower), upper=min(mean + 0.2, column.upper)),
        values=tuple(values),
    )


def _lie(name: str, lie: str) -> LieResult:
    gain = float(stream(2, name, lie).uniform(-0.02, 0.1))
    return LieResult(
        name=lie,
        title=f"tells {lie}",
        kind="report",
        liar_count=1,
        case_count=10,
        round_count=5,
        gain=Interval(value=gain, lower=gain - 0.01, upper=gain + 0.01),
        relative_gain=None,
        pays_share=0.5 if gain > 0 else 0.0,
        loses_place_share=0.0,
        wins_place_share=0.0,
        client_gains={},
    )
