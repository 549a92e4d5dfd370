"""A client's statement as one page to read and to print, and as a table for spreadsheets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from commonweal.records.statement import Statement, StatementLine, csv_text
from commonweal.report.drawing import NARROW, TEXT_SIZE, WIDE
from commonweal.report.palette import GRID, MUTED, ZERO, client_styles
from commonweal.report.templating import render
from commonweal.report.text import decimals_for, money, number

_CSV_HEADINGS = (
    "entry", "at", "client", "text", "profit", "contribution", "share", "payoff", "transfer",
    "amount", "balance", "accrued", "accrued_balance", "currency",
)  # fmt: skip
_GAINS = {
    "measured_gain": "paired gain",  # both models on the same samples, unlike a measured profit
    "used_gain": "used gain",
    "expected_gain": "expected gain",
}  # at the end, where profits are not used as measured; in words
_FIGURES = ("profit", "contribution", "share", "payoff", "transfer")
_SETTLEMENTS = {
    "transfers": "transfers are paid after each round",
    "accruals": "payoffs accrue and are paid when the model earns income",
}
_HEIGHT, _TOP, _BOTTOM, _RIGHT = 180.0, 8.0, 26.0, 8.0  # of the chart, in points
_DIGIT_WIDTH = 0.62 * TEXT_SIZE
_COLOURS = [style.colour for style in client_styles(["balance", "accrued"]).values()]


def to_csv(statement: Statement) -> str:
    """A row per line; profit to transfer are in units of utility, amount to accrued_balance in the currency.

    The file starts with a byte order mark. Text that a spreadsheet would run as a formula gets an apostrophe in front.
    """
    gains = tuple(_GAINS) if statement.has_gains else ()
    rows = [
        (
            line.entry,
            line.at,
            statement.client,
            line.text,
            *(line.profit, line.contribution, line.share, line.payoff, line.transfer),
            *(
                Decimal(statement.money(amount))
                for amount in (line.amount, line.balance, line.accrued, line.accrued_balance)
            ),
            statement.currency,
            *(getattr(line, name) for name in gains),
        )
        for line in statement.lines
    ]
    return csv_text([(*_CSV_HEADINGS, *gains), *rows])


def to_html(statement: Statement) -> str:
    """The whole page; the same statement gives the same text."""
    accrues = statement.settlement == "accruals" or any(line.accrued for line in statement.lines)
    return render(
        "statement.html",
        statement=statement,
        first_at=statement.lines[0].at if statement.lines else statement.at,
        tiles=_tiles(statement, accrues=accrues),
        facts=_facts(statement),
        gain_columns=_gain_columns(statement),
        columns=_FIGURES,
        money_columns=("amount", "balance", "accrued", "total accrued")[: 4 if accrues else 2],
        lines=_lines(statement, accrues=accrues),
        charts=_charts(statement) if len(statement.lines) > 2 else [],
        curves=list(zip(_curves(statement), _COLOURS, strict=False)),
    )


def _gain_columns(statement: Statement) -> list[str]:
    """The gains that some line has, in words."""
    present = [name for name in _GAINS if any(getattr(line, name) is not None for line in statement.lines)]
    return [_GAINS[name] for name in present] if statement.has_gains else []


def _tiles(statement: Statement, *, accrues: bool) -> list[tuple[str, str, str]]:
    amounts = (
        ("Balance", money(statement, statement.balance, signed=True), "received (+) or paid (−) in total"),
        (
            "Accrued",
            money(statement, statement.accrued, signed=True),
            "total payoffs; income is divided in proportion" if accrues else "nothing accrues in this ledger",
        ),
        ("One unit of utility", money(statement, statement.worth), "what it is worth in this ledger"),
    )
    return [(label, f"{amount} {statement.currency}", note) for label, amount, note in amounts]


def _facts(statement: Statement) -> dict[str, str]:
    key = statement.client_key
    return {
        "hash of the first entry": f"{statement.ledger[:16]}…",
        "settlement": _SETTLEMENTS.get(statement.settlement, statement.settlement),
        "created": f"{statement.at[:19].replace('T', ' ')} UTC",
        "key that signs the client's reports": "none: the operator reports for it" if key is None else f"{key[:16]}…",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    entry: int
    at: str
    text: str
    why: str  # "": it needs no explanation
    figures: Sequence[str]
    amounts: Sequence[str]


def _lines(statement: Statement, *, accrues: bool) -> list[_Line]:
    amounts = decimals_for(each for line in statement.lines for each in (line.profit, line.payoff, line.transfer))
    contributions = decimals_for(line.contribution for line in statement.lines)
    gain_columns = [name for name, words in _GAINS.items() if words in _gain_columns(statement)]
    gain_decimals = decimals_for(line.used_gain for line in statement.lines)

    def shown(line: StatementLine) -> _Line:
        accrued = [money(statement, line.accrued, signed=True), money(statement, line.accrued_balance)]
        text, _, why = " ".join(line.text.split()).partition("; ")  # a reason may have several lines
        return _Line(
            entry=line.entry,
            at=line.at,
            text=text,
            why=why,
            figures=[
                *(number(getattr(line, name), decimals=gain_decimals, signed=True) for name in gain_columns),
                number(line.profit, decimals=amounts, signed=True),
                number(line.contribution, decimals=contributions, signed=True),
                number(line.share, decimals=3),
                number(line.payoff, decimals=amounts, signed=True),
                number(line.transfer, decimals=amounts, signed=True),
            ],
            amounts=[
                money(statement, line.amount, signed=True),
                money(statement, line.balance),
                *(accrued if accrues else []),
            ],
        )

    return [shown(line) for line in statement.lines]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chart:
    """The coordinates of the balance chart. It is drawn without matplotlib, so statements do not need it installed."""

    kind: str  # "wide" or "narrow"; the style sheet shows one of them
    width: float
    height: float
    text_size: float
    text_colour: str
    grid: Sequence[tuple[str, str]]  # a path and its colour
    labels: Sequence[tuple[str, str, str, str]]  # x, y, anchor, text
    curves: Sequence[tuple[str, str]]  # a path and its colour


def ticks(low: int, high: int, count_limit: int) -> list[int]:
    """Round whole numbers from `low` or below to `high` or above: at least two, at most `count_limit`."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            first, last = low // (step * factor), -(-high // (step * factor))
            if last - first < count_limit:
                last = max(last, first + 1)
                return [place * step * factor for place in range(first, last + 1)]
        step *= 10


def _curves(statement: Statement) -> dict[str, list[int]]:
    """The balance after each of the ledger's entries, and the accrued amount if anything accrued."""
    curves = {"balance": [line.balance for line in statement.lines]}
    if any(line.accrued for line in statement.lines):
        curves["accrued"] = [line.accrued_balance for line in statement.lines]
    return curves


def _charts(statement: Statement) -> list[_Chart]:
    return [_chart(statement, kind, width) for kind, width in (("wide", WIDE), ("narrow", NARROW))]


def _chart(statement: Statement, kind: str, width: float) -> _Chart:
    curves = list(_curves(statement).values())
    amounts = ticks(min(0, *map(min, curves)), max(0, *map(max, curves)), 5)
    labels = [_amount_label(statement, amount, amounts[1] - amounts[0]) for amount in amounts]
    left = max(map(len, labels)) * _DIGIT_WIDTH + 8
    first, last = statement.lines[0].entry, statement.head_number
    entries = [entry for entry in ticks(first, last, 10 if width > NARROW else 5) if first <= entry <= last]

    def across(entry: int) -> str:
        return f"{left + (entry - first) / max(last - first, 1) * (width - left - _RIGHT):.1f}"

    def down(amount: int) -> str:
        return f"{_TOP + (amounts[-1] - amount) / (amounts[-1] - amounts[0]) * (_HEIGHT - _TOP - _BOTTOM):.1f}"

    def path(curve: Sequence[int]) -> str:
        steps = "".join(
            f"H{across(line.entry)}V{down(amount)}" for line, amount in zip(statement.lines, curve, strict=True)
        )
        return f"M{across(first)} {down(0)}{steps}H{across(last)}"

    return _Chart(
        kind=kind,
        width=width,
        height=_HEIGHT,
        text_size=TEXT_SIZE,
        text_colour=MUTED,
        grid=[
            (f"M{left:.1f} {down(amount)}H{width - _RIGHT:.1f}", ZERO if amount == 0 else GRID) for amount in amounts
        ],
        labels=[
            *(
                (f"{left - 6:.1f}", f"{float(down(amount)) + 3.5:.1f}", "end", label)
                for amount, label in zip(amounts, labels, strict=True)
            ),
            *((across(entry), f"{_HEIGHT - _BOTTOM + 17:.1f}", "middle", str(entry)) for entry in entries),
        ],
        curves=[(path(curve), colour) for curve, colour in zip(curves, _COLOURS, strict=False)],
    )


def _amount_label(statement: Statement, amount: int, step: int) -> str:
    text = money(statement, amount)
    return text.partition(".")[0] if step % 10**statement.minor_digits == 0 else text
