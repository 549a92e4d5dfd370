"""A client's statement as one page to read and to print; it needs nothing else and sends nothing anywhere."""

from __future__ import annotations

from commonweal.records.statement import Statement
from commonweal.report.balance_chart import balance_chart
from commonweal.report.markup import amount_markup, definitions, row, table, term, text
from commonweal.report.money_text import money
from commonweal.report.number_text import decimals_for
from commonweal.report.shell import page_from

_FIGURES = ("profit", "contribution", "share", "payoff", "transfer")
_SETTLEMENTS = {
    "transfers": "each round's transfers, at once",
    "accruals": "payoffs accrue, and are paid when the model earns",
}


def to_html(statement: Statement) -> str:
    """The whole page; the same statement gives the same bytes."""
    many = len(statement.lines) > 2
    return page_from(
        "statement.html",
        client=text(statement.client),
        name=text(statement.name),
        currency=text(statement.currency),
        period=_period(statement),
        key_numbers=_key_numbers(statement),
        facts=_facts(statement),
        lines=_lines(statement),
        chart=f'<section id="chart">\n<h2>Balance</h2>\n{balance_chart(statement)}\n</section>' if many else "",
        keep=text(
            f"Should anybody rewrite the book, its entry {statement.head_number} will no longer have this hash: "
            "whoever kept it can prove that."
        ),
        head_number=text(statement.head_number),
        head=text(statement.head),
    )


def _period(statement: Statement) -> str:
    first = statement.lines[0].at if statement.lines else statement.at
    return f"from {_day(first)} to {_day(statement.at)}"


def _day(at: str) -> str:
    return f'<time datetime="{text(at)}">{text(at[:10])}</time>'


def _accrues(statement: Statement) -> bool:
    return statement.settlement == "accruals" or any(line.accrued for line in statement.lines)


def _key_numbers(statement: Statement) -> str:
    accrues = _accrues(statement)
    tiles = (
        ("Balance", money(statement, statement.balance, signed=True), "received (+) or paid (−) in all"),
        (
            "Accrued",
            money(statement, statement.accrued, signed=True),
            "payoffs noted in all; income is divided by them" if accrues else "nothing accrues in this book",
        ),
        ("One unit of utility", money(statement, statement.worth), "its worth in this book"),
    )
    return "".join(
        f"<div><dt>{label}</dt><dd><strong>{amount} {text(statement.currency)}</strong><small>{note}</small></dd></div>"
        for label, amount, note in tiles
    )


def _facts(statement: Statement) -> str:
    key = statement.client_key
    return definitions(
        {
            "hash of the book's first entry": f"{statement.ledger[:16]}…",
            "settled": _SETTLEMENTS.get(statement.settlement, statement.settlement),
            "made": f"{statement.at[:19].replace('T', ' ')} UTC",
            "key of the client's reports": "none: the operator's word counts" if key is None else f"{key[:16]}…",
        },
        "facts",
    )


def _lines(statement: Statement) -> str:
    accrues = _accrues(statement)
    decimals: dict[str, int | None] = dict.fromkeys(
        ("profit", "payoff", "transfer"),
        decimals_for(each for line in statement.lines for each in (line.profit, line.payoff, line.transfer)),
    )
    decimals["contribution"], decimals["share"] = decimals_for(line.contribution for line in statement.lines), 3
    rows = []
    for line in statement.lines:
        figures = [
            amount_markup(getattr(line, name), decimals=decimals[name], signed=name != "share") for name in _FIGURES
        ]
        accrued = [money(statement, line.accrued, signed=True), money(statement, line.accrued_balance)]
        rows.append(
            row(
                text(line.entry),
                [
                    _day(line.at),
                    text(" ".join(line.text.split())),  # a reason may have several lines
                    *figures,
                    money(statement, line.amount, signed=True),
                    money(statement, line.balance),
                    *(accrued if accrues else []),
                ],
            )
        )
    columns = ("amount", "balance", "accrued", "total accrued")[: 4 if accrues else 2]
    unit = f"<small>{text(statement.currency)}</small>"
    headings = ["entry", "date", "what", *map(term, _FIGURES), *(f"{column} {unit}" for column in columns)]
    return table(label="Lines of the account", headings=headings, rows=rows, css_class="figures lines")
