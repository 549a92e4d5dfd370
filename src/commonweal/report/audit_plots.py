"""The figures of an audit: what each lie gains, and what each member could gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from commonweal.records.audit import AuditReport, LieResult
from commonweal.report.audit_text import unit_text
from commonweal.report.drawing import TEXT_SIZE, WIDE, Plot, blank_figure, new_figure, quiet
from commonweal.report.palette import GRID, INK, MUTED, NOT_HELD, RETAINED, ZERO
from commonweal.report.study.panel_grid import SMALL, wrapped
from commonweal.report.text import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW = 34.0
_WIDEST = 2.5  # of the largest gain: intervals beyond are cut at the edge
_MEMBERS_SHOWN = 40
_BY_MEMBER = ("no-profit", "best-reply")


def audit_plots(report: AuditReport) -> list[Plot]:
    """All figures of an audit."""
    unit = "in units of utility" if report.money is None else f"in {report.money.currency}"
    return [
        Plot(
            name="gains",
            title=f"What a member could gain by lying, per round, {unit}",
            draw=lambda width: _gains(report, width),
        ),
        Plot(
            name="members",
            title=f"What each member could gain, per round, {unit}",
            draw=lambda width: _members(report, width),
        ),
    ]


def _gains(report: AuditReport, width: float) -> Figure:
    """One row per lie of one member, and one for the best reply of two: the mean gain as a bar, and its interval."""
    shown = [lie for lie in report.lies if lie.liar_count == 1 or lie.name == "best-reply"]
    lies = sorted(shown, key=lambda lie: (lie.liar_count, lie.kind, -lie.gain.value))
    if not lies:
        return blank_figure(width, "No lie could be tried.")
    worth = 1.0 if report.money is None else report.money.worth
    figure = new_figure(width, _ROW * len(lies) + 50)
    axes = figure.subplots()
    quiet(axes)
    for place, lie in enumerate(lies):
        gain = lie.gain.value * worth
        axes.barh(place, gain, height=0.5, color=NOT_HELD if gain > 0 else RETAINED)
        axes.hlines(place, lie.gain.lower * worth, lie.gain.upper * worth, color=INK, linewidth=1.5)
    # An interval from two replications can be so wide that no gain could be seen beside it.
    widest = _WIDEST * max(abs(lie.gain.value) for lie in lies) * worth
    low, high = axes.get_xlim()
    if widest:
        axes.set_xlim(max(low, -widest), min(high, widest))
    axes.axvline(0, color=ZERO, linewidth=1)
    axes.set_yticks(range(len(lies)), [_label(lie, width) for lie in lies], fontsize=SMALL)
    for label in axes.get_yticklabels():
        label.set_color(INK)
    axes.set_ylim(len(lies) - 0.5, -0.5)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_xlabel(f"gain per round, {unit_text(report)}", fontsize=SMALL if width < WIDE else TEXT_SIZE, color=MUTED)
    _few_ticks(axes, width)
    return figure


def _label(lie: LieResult, width: float) -> str:
    who = "two members: each " if lie.liar_count == 2 else ""
    return "\n".join(wrapped(f"{who}{lie.title}", (0.31 if width >= WIDE else 0.42) * width))


def _members(report: AuditReport, width: float) -> Figure:
    """Two bars per member: without knowledge of the others' reports, and with it."""
    found = [lie for name in _BY_MEMBER if (lie := report.lie(name)) is not None]
    if not found:
        return blank_figure(width, "No lie about profits could be tried.")
    members = _most_gaining(report.clients, found)
    worth = 1.0 if report.money is None else report.money.worth
    height = 0.8 / len(found)
    figure = new_figure(width, 15.0 * len(found) * len(members) + 70)
    axes = figure.subplots()
    quiet(axes)
    for order, (lie, colour) in enumerate(zip(found, (NOT_HELD, RETAINED), strict=False)):
        places = [place - 0.4 + height * (order + 0.5) for place in range(len(members))]
        gains = [lie.client_gains.get(member, 0.0) * worth for member in members]
        axes.barh(places, gains, height=0.9 * height, color=colour, label=lie.title)
    axes.axvline(0, color=ZERO, linewidth=1)
    axes.set_yticks(range(len(members)), [shortened(member, 18) for member in members], fontsize=SMALL)
    for label in axes.get_yticklabels():
        label.set_color(INK)
    axes.set_ylim(len(members) - 0.5, -0.5)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    _few_ticks(axes, width)
    figure.legend(loc="outside lower left", fontsize=SMALL, frameon=False, ncols=1)
    return figure


def _most_gaining(clients: Sequence[str], lies: Sequence[LieResult]) -> list[str]:
    """In their order; if there are many, those that could gain most."""
    most = sorted(clients, key=lambda client: -max(lie.client_gains.get(client, 0.0) for lie in lies))
    shown = set(most[:_MEMBERS_SHOWN])
    return [client for client in clients if client in shown]


def _few_ticks(axes, width: float) -> None:  # type: ignore[no-untyped-def]
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=7 if width >= WIDE else 4))
