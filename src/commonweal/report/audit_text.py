"""What an audit found, in amounts and sentences for people."""

from __future__ import annotations

from commonweal.records.audit import AuditReport, LieResult
from commonweal.records.study import Interval
from commonweal.report.text import MISSING, counted, number

_SEARCHED = ("best-reply", "exit")


def amount_text(report: AuditReport, amount: float, *, signed: bool = True) -> str:
    """In the currency, if there is one, otherwise in units of utility."""
    if report.money is None:
        return number(amount, signed=signed)
    value = round(amount * report.money.worth, report.money.minor_digits)
    text = f"{abs(value):,.{report.money.minor_digits}f}"
    sign = "−" if value < 0 else "+" if signed and value > 0 else ""
    return f"{sign}{text} {report.money.currency}"


def unit_text(report: AuditReport) -> str:
    """ "units of utility", or the currency and what a unit is worth."""
    if report.money is None:
        return "units of utility"
    return f"{report.money.currency}; one unit of utility is worth {amount_text(report, 1.0, signed=False)}"


def interval_text(report: AuditReport, interval: Interval) -> str:
    """ "+0.01 to +0.03"; a dash if there is only one case to judge by."""
    if interval.lower == interval.upper:
        return MISSING
    return f"{amount_text(report, interval.lower)} to {amount_text(report, interval.upper)}"


def relative_text(lie: LieResult) -> str:
    """The gain as a share of what liars have if they tell the truth."""
    return MISSING if lie.relative_gain is None else percent(lie.relative_gain.value, signed=True)


def percent(share: float, *, signed: bool = False) -> str:
    """ "+86 %"; small shares keep a digit."""
    size = abs(100 * share)
    text = f"{size:.0f}" if size >= 10 or size == 0 else f"{size:.2g}"
    sign = "" if float(text) == 0 else "−" if share < 0 else "+" if signed else ""
    return f"{sign}{text} %"


def pays(lie: LieResult) -> bool:
    """Whether the lie gains on average."""
    return lie.gain.value > 0 and lie.pays_share > 0


def simplest_lie(report: AuditReport) -> LieResult | None:
    """The lie that gains most of those that need no knowledge of what the others report; None if none pays."""
    known = [lie for lie in report.lies if lie.liar_count == 1 and lie.kind == "report" and lie.name not in _SEARCHED]
    paying = [lie for lie in known if pays(lie)]
    return max(paying, key=lambda lie: lie.gain.value, default=None)


def sentences(report: AuditReport) -> tuple[str, ...]:
    """What a board needs to know, the most important first."""
    said = []
    if report.rates is not None:
        said.append(
            "Profits follow from agreed rates, so a member gains nothing by misreporting what a gain is worth to it or "
            "what it spends."
        )
    simple = simplest_lie(report)
    if simple is not None:
        said.append(f"A member that {simple.title} gains {_gain(report, simple)}. {_how_often(simple)}")
    best = report.lie("best-reply")
    if best is not None and pays(best):
        how = "" if report.rates is None else " by false scores"
        said.append(f"A member that knew what the others report could gain {_gain(report, best)}{how}.")
    both = report.lie("best-reply", 2)
    if both is not None and pays(both):
        said.append(f"Two members that agree on what they report could gain {_gain(report, both)} together.")
    trained = [lie for lie in report.lies if lie.kind == "training" and pays(lie)]
    if trained:
        most = max(trained, key=lambda lie: lie.gain.value)
        said.append(
            f"In training and scoring, this lie pays most: a member that {most.title} gains {_gain(report, most)}."
        )
    if not any(pays(lie) for lie in report.lies):
        said.append("No lie that was tried gains anything on average.")
    return (*said, *_unravelling(report))


def _gain(report: AuditReport, lie: LieResult) -> str:
    relative = "" if lie.relative_gain is None else f" ({relative_text(lie)})"
    return f"{amount_text(report, lie.gain.value, signed=False)} per round on average{relative}"


def _how_often(lie: LieResult) -> str:
    cost = (
        "never costs a place" if lie.loses_place_share == 0 else f"costs its place in {percent(lie.loses_place_share)}"
    )
    return f"This pays in {percent(lie.pays_share)} of cases and {cost}."


def _unravelling(report: AuditReport) -> list[str]:
    found = report.unravelling
    if found is None:
        return []
    ratio = found.money_ratio
    money = (
        "no money moves, with the truth or without it"
        if ratio is None and not found.end.money_moved
        else f"the money moved goes from {amount_text(report, found.truth.money_moved, signed=False)} to "
        f"{amount_text(report, found.end.money_moved, signed=False)} per round"
        + ("" if ratio is None else f" ({percent(ratio)} of what it is with the truth)")
    )
    gone = f"{number(round(found.end.eliminated_count, 2))} instead of {number(round(found.truth.eliminated_count, 2))}"
    circles = 1 - found.settled_share
    turning = f" In {percent(circles)} of rounds this does not come to rest."
    return [
        f"If every member keeps reporting what pays it most, {money}; {gone} clients are eliminated per round, and the "
        f"welfare of those who stay goes from {amount_text(report, found.truth.welfare)} to "
        f"{amount_text(report, found.end.welfare)}.{turning if circles else ''}"
    ]


def basis(report: AuditReport) -> str:
    """What the audit rests on, in a sentence."""
    replications = report.replication_count
    runs = "" if replications is None else f" in {counted(replications, 'replication')}"
    low, high = (number(bound, signed=True) for bound in report.bounds)
    size = f"{counted(report.round_count, 'round')}{runs} with {counted(len(report.clients), 'client')}"
    return f"{report.mechanism_text}: {size}. Reports may range from {low} to {high} units of utility."
