"""A forest plot of the claims: the interval of each effect beside its threshold, one scale per effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from commonweal.records.study import ClaimResult
from commonweal.report.drawing import TEXT_SIZE, WIDE, new_figure
from commonweal.report.palette import GRID, HELD, INK, MUTED, NOT_HELD, PAPER, UNDECIDED
from commonweal.report.study.panel_grid import SMALL, wrapped
from commonweal.report.study.text import interval_text, threshold_text, verdict_text
from commonweal.report.text import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"held": HELD, "not held": NOT_HELD, "undecided": UNDECIDED, "not testable": UNDECIDED}
_MARKERS = {"held": "o", "not held": "X", "undecided": "D", "not testable": "|"}
_ROW, _LINE = 19.0, 13.0


def forest(findings: Sequence[ClaimResult], notes: Mapping[str, str], width: float) -> Figure:
    """Rows of one effect below its claim; `notes` are the notes on the data, by experiment."""
    groups = [list(rows) for _, rows in groupby(findings, key=lambda f: (f.claim, f.statement, f.effect, f.threshold))]
    wide = width >= WIDE
    heads = [_head(rows[0], width) for rows in groups]
    row_height = _ROW if wide else _ROW + _LINE + 2
    marks = {name: "*" * (place + 1) for place, name in enumerate(n for n in notes if _concerned(findings, n))}
    foot = [line for name, mark in marks.items() for line in wrapped(f"{mark} {name}: {notes[name]}", width - 10)]
    height = sum(_LINE * len(head) + row_height * len(rows) + 12 for head, rows in zip(heads, groups, strict=True))
    height += _LINE * len(foot) + 8
    figure = new_figure(width, height)
    figure.set_layout_engine("constrained", w_pad=0, h_pad=0)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(-2, width)
    axes.set_ylim(height, 0)
    top = 4.0
    for head, rows in zip(heads, groups, strict=True):
        for place, line in enumerate(head):
            bold = place < len(head) - len(_effect_lines(rows[0], width))
            axes.text(
                0, top + _LINE / 2, line, va="center", fontsize=TEXT_SIZE if bold else SMALL,
                color=INK if bold else MUTED, fontweight="bold" if bold else "normal",
            )  # fmt: skip
            top += _LINE
        size = max(*(_reach(finding) for finding in rows), 1e-9)  # anything nearer is drawn on the threshold
        for finding in rows:
            _row(axes, finding, top, size, marks.get(finding.experiment, ""), width)
            top += row_height
        top += 12
    for line in foot:
        axes.text(0, top + _LINE / 2, line, va="center", fontsize=SMALL, color=MUTED)
        top += _LINE
    return figure


def _concerned(findings: Sequence[ClaimResult], experiment: str) -> bool:
    return any(finding.experiment == experiment for finding in findings)


def _head(finding: ClaimResult, width: float) -> list[str]:
    return [*wrapped(f"{finding.claim}\u2002{finding.statement}", 0.86 * width), *_effect_lines(finding, width)]


def _effect_lines(finding: ClaimResult, width: float) -> list[str]:
    return wrapped(f"{finding.effect}; threshold {threshold_text(finding.threshold)}", width - 10)


def _reach(finding: ClaimResult) -> float:
    """How far the interval extends from the threshold."""
    ends = (finding.interval.lower, finding.interval.value, finding.interval.upper)
    return max(abs(end - finding.threshold) for end in ends)


def _row(axes: Axes, finding: ClaimResult, top: float, size: float, mark: str, width: float) -> None:
    wide = width >= WIDE
    left, right = (190.0, 460.0) if wide else (8.0, width - 8.0)
    middle, reach = (left + right) / 2, (right - left) / 2 - 6
    at = top + (_ROW / 2 if wide else _LINE + _ROW / 2)
    half = _ROW / 2 if wide else 6.0
    colour = COLOURS[finding.verdict]
    value, lower, upper = (
        middle + reach * (end - finding.threshold) / size
        for end in (finding.interval.value, finding.interval.lower, finding.interval.upper)
    )
    axes.hlines(at, left, right, color=GRID, linewidth=1)
    axes.vlines(middle, at - half, at + half, color=MUTED, linewidth=1, linestyle=(0, (2, 1.5)))
    axes.hlines(at, lower, upper, color=colour, linewidth=3)
    axes.plot(
        [value], [at], marker=_MARKERS[finding.verdict], markersize=7, color=colour, markeredgecolor=PAPER, zorder=3
    )
    name = f"{shortened(finding.experiment, 24)}{mark}"
    interval = finding.interval
    figures = interval_text(interval.value, interval.lower, interval.upper)
    verdict = verdict_text(finding.verdict)
    line = at if wide else top + _LINE / 2
    axes.text(14 if wide else 0, line, name, va="center", fontsize=SMALL, color=INK)
    if wide:
        axes.text(474, line, figures, va="center", fontsize=SMALL, color=INK)
        axes.text(width - 72, line, verdict, va="center", fontsize=SMALL, color=colour, fontweight="bold")
    else:
        axes.text(width - 72, line, verdict, va="center", fontsize=SMALL, color=colour, fontweight="bold")
        axes.text(width - 80, line, figures, va="center", ha="right", fontsize=SMALL, color=INK)
