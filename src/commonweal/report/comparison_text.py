"""What a comparison found, in cells and sentences for people."""

from __future__ import annotations

from collections.abc import Sequence

from commonweal.records.audit import LieResult
from commonweal.records.comparison import COLUMNS, Column, ComparedMechanism, Comparison
from commonweal.records.study import Interval
from commonweal.report.audit_text import pays, percent
from commonweal.report.text import MISSING, counted, number

NOT_TESTABLE = "not testable here"
BY_NAME = {column.name: column for column in COLUMNS}
_EXACT = 1e-9


def value_text(column: Column, value: float | None) -> str:
    """A figure in the unit of its column."""
    if value is None:
        return MISSING
    match column.unit:
        case "share":
            return percent(value)
        case "correlation":
            return number(value, decimals=2)
        case "count":
            return number(round(value, 1 if value < 100 else 0))
        case "amount":
            return number(value, decimals=3)


def cell(mechanism: ComparedMechanism, name: str) -> str:
    """The mean of one column."""
    return value_text(BY_NAME[name], mechanism.value(name))


def interval_text(column: Column, interval: Interval) -> str:
    """ "0.31 to 0.45"; empty if there is only one value to judge by, or all are the same."""
    if interval.lower == interval.upper:
        return ""
    return f"{value_text(column, interval.lower)} to {value_text(column, interval.upper)}"


def cell_interval(mechanism: ComparedMechanism, name: str) -> str:
    """The interval of one column."""
    figure = mechanism.figures[name]
    return "" if figure is None else interval_text(BY_NAME[name], figure.mean)


def private_text(mechanism: ComparedMechanism) -> str:
    """Which private figures the mechanism reads."""
    return ", ".join(mechanism.private_reads) or "none"


def balance_text(mechanism: ComparedMechanism) -> str:
    """ "strict", "weak", or what the outside pays in."""
    balanced, funded = mechanism.value("balanced_rounds"), mechanism.value("funded_rounds")
    if balanced == 1:
        return "strict"
    if funded == 1:
        return "weak"
    external = mechanism.value("external")
    assert external is not None, "money with the outside is always known"
    return f"no, {number(external, decimals=3)}"


def heterogeneity_text(comparison: Comparison, mechanism: ComparedMechanism) -> str:
    return cell(mechanism, "heterogeneity") if comparison.is_heterogeneous else NOT_TESTABLE


def best_lie(mechanism: ComparedMechanism) -> LieResult | None:
    """The lie that gains most; None if none gains. Giving up its place for a gain in one round does not count."""
    paying = [lie for lie in mechanism.lies if pays(lie) and lie.name != "exit"]
    return max(paying, key=lambda lie: lie.gain.value, default=None)


def simple_lie(mechanism: ComparedMechanism) -> LieResult | None:
    """The lie that gains most of those that need no knowledge of what the others report; None if none was tried."""
    simple = [lie for lie in mechanism.lies if lie.name not in ("best-reply", "exit")]
    return max(simple, key=lambda lie: lie.gain.value, default=None)


def best_lie_text(mechanism: ComparedMechanism) -> str:
    """What the best lie gains, and its name."""
    best = best_lie(mechanism)
    if best is None:
        return none_pays(mechanism) if mechanism.lies else MISSING
    return f"{number(float(f'{best.gain.value:.2g}'), signed=True)} {best.name}"


def none_pays(mechanism: ComparedMechanism) -> str:
    """No lie that was tried is paid for; one may still change what the mechanism decides about the next round."""
    return "none in money" if mechanism.decides else "none pays"


def tick(has: bool | None) -> str:
    """As in the paper's table; empty where it has no row for the mechanism."""
    return "" if has is None else "✓" if has else "✗"


def sentences(comparison: Comparison) -> tuple[str, ...]:
    """What stands out, each in a sentence."""
    said = []
    rows = comparison.mechanisms
    most = _best(rows, "welfare")
    if most is not None:
        figures = "true figures" if comparison.truth is None else "figures as measured"
        said.append(
            f"Most welfare of all who took part, in {figures}: {most.name} ({cell(most, 'welfare')}); least: "
            f"{min(rows, key=lambda one: one.value('welfare') or 0.0).name}."
        )
    fairest = _best(rows, "fairness")
    if fairest is not None:
        said.append(
            f"Payoffs follow contributions best under {fairest.name} (correlation {cell(fairest, 'fairness')})."
        )
    said.append(_list("Nobody who took part ends below zero under", rows, "rational_clients"))
    said.append(_list("No money comes from outside or goes there under", rows, "balanced_rounds"))
    blind = [one.name for one in rows if not one.private_reads]
    said.append(f"These read no private figure: {', '.join(blind) or 'none'}.")
    return tuple(said)


def basis(comparison: Comparison) -> str:
    """What the comparison rests on, in a sentence or two."""
    count = len(comparison.seeds)
    shared = comparison.decided_round_count - comparison.distinct_round_count
    return (
        f"{counted(len(comparison.mechanisms), 'mechanism')} on {comparison.scenario}: up to "
        f"{counted(comparison.round_count, 'round')} with {counted(len(comparison.clients), 'client')}, "
        f"{counted(count, 'replication')} (the same {'seeds' if count > 1 else 'seed'} for all). Of "
        f"{comparison.decided_round_count:,} decided rounds, {comparison.distinct_round_count:,} were trained and "
        f"{shared:,} shared."
    )


def truth_text(comparison: Comparison) -> str:
    """What welfare is counted in."""
    if comparison.truth is None:
        return "Welfare is counted in true figures: accuracies on samples that no client ever receives."
    return f"Welfare is counted in figures as measured, because {comparison.truth}."


def _best(rows: Sequence[ComparedMechanism], column: str) -> ComparedMechanism | None:
    known = [one for one in rows if one.value(column) is not None]
    return max(known, key=lambda one: one.value(column) or 0.0, default=None)


def _list(what: str, rows: Sequence[ComparedMechanism], column: str) -> str:
    names = [one.name for one in rows if (value := one.value(column)) is not None and value >= 1 - _EXACT]
    return f"{what}: {', '.join(names) or 'none'}."
