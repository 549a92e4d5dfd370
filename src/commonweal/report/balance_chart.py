"""How an account came to its balance, drawn without matplotlib: a page that is read by accountants needs no more."""

from __future__ import annotations

from collections.abc import Sequence

from commonweal.records.statement import Statement
from commonweal.report.markup import text
from commonweal.report.money_text import money
from commonweal.report.palette import GRID, MUTED, ZERO, client_styles
from commonweal.report.panels import NARROW, TEXT_SIZE, WIDE

_HEIGHT, _TOP, _BOTTOM, _RIGHT = 180.0, 8.0, 26.0, 8.0
_DIGIT_WIDTH = 0.62 * TEXT_SIZE
_COLOURS = [style.colour for style in client_styles(["balance", "accrued"]).values()]


def balance_chart(statement: Statement) -> str:
    """A figure of the balance, and of what accrued if anything did, over the book's entries."""
    curves = {"balance": [line.balance for line in statement.lines]}
    if any(line.accrued for line in statement.lines):
        curves["accrued"] = [line.accrued_balance for line in statement.lines]
    legend = ", ".join(
        f'<span class="swatch" style="background: {_ink(colour)}"></span>{name}'
        for name, colour in zip(curves, _COLOURS, strict=False)
    )
    drawings = "".join(
        _drawing(statement, list(curves.values()), width, css_class)
        for css_class, width in (("wide", WIDE), ("narrow", NARROW))
    )
    caption = f"In {text(statement.currency)}, after each entry of the book: {legend}"
    return f'<figure id="figure-balance"><figcaption>{caption}</figcaption>{drawings}</figure>'


def ticks(low: int, high: int, count_limit: int) -> list[int]:
    """Round whole numbers from `low` or below to `high` or above, at most so many and at least two."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            first, last = low // (step * factor), -(-high // (step * factor))
            if last - first < count_limit:
                last = max(last, first + 1)
                return [place * step * factor for place in range(first, last + 1)]
        step *= 10


def _drawing(statement: Statement, curves: Sequence[Sequence[int]], width: float, css_class: str) -> str:
    amounts = ticks(min(0, *map(min, curves)), max(0, *map(max, curves)), 5)
    labels = [_label(statement, amount, amounts[1] - amounts[0]) for amount in amounts]
    left = max(map(len, labels)) * _DIGIT_WIDTH + 8
    first, last = statement.lines[0].entry, statement.head_number
    entries = [entry for entry in ticks(first, last, 10 if width > NARROW else 5) if first <= entry <= last]

    def across(entry: int) -> str:
        return f"{left + (entry - first) / max(last - first, 1) * (width - left - _RIGHT):.1f}"

    def down(amount: int) -> str:
        return f"{_TOP + (amounts[-1] - amount) / (amounts[-1] - amounts[0]) * (_HEIGHT - _TOP - _BOTTOM):.1f}"

    parts = []
    for amount, label in zip(amounts, labels, strict=True):
        ink, y = ZERO if amount == 0 else GRID, down(amount)
        parts.append(f'<path d="M{left:.1f} {y}H{width - _RIGHT:.1f}" style="stroke: {_ink(ink)}"/>')
        parts.append(_words(label, f"{left - 6:.1f}", f"{float(y) + 3.5:.1f}", "end"))
    for entry in entries:
        parts.append(_words(str(entry), across(entry), f"{_HEIGHT - _BOTTOM + 17:.1f}", "middle"))
    for curve, colour in zip(curves, _COLOURS, strict=False):
        steps = "".join(
            f"H{across(line.entry)}V{down(amount)}" for line, amount in zip(statement.lines, curve, strict=True)
        )
        path = f"M{across(first)} {down(0)}{steps}H{across(last)}"
        parts.append(f'<path d="{path}" style="stroke: {_ink(colour)}; stroke-width: 2; fill: none"/>')
    return (
        f'<svg viewBox="0 0 {width:g} {_HEIGHT:g}" width="{width:g}" height="{_HEIGHT:g}" class="figure {css_class}" '
        f'role="img" aria-label="Balance after each entry">{"".join(parts)}</svg>'
    )


def _label(statement: Statement, amount: int, step: int) -> str:
    shown = money(statement, amount)
    return shown.partition(".")[0] if step % 10**statement.minor_digits == 0 else shown


def _words(words: str, x: str, y: str, anchor: str) -> str:
    style = f"font-size: {TEXT_SIZE:g}px; text-anchor: {anchor}; fill: {_ink(MUTED)}"
    return f'<text x="{x}" y="{y}" style="{style}">{text(words)}</text>'


def _ink(colour: str) -> str:
    return f"var(--ink-{colour[1:]})"
