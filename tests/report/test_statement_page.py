"""A client's statement as a page and as a table: its own figures, nothing fetched, and no way to break out."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from commonweal.records.statement import Statement, StatementLine
from commonweal.report.statement import ticks, to_csv, to_html
from tests.report.run_reports import RUDE_NAMES

LINES = (  # entry, text, amount, accrued, and of a round: profit, contribution, share, payoff, transfer
    (2, "admitted", 0, 0, None),
    (3, "round 1: stays", 0, 123456789, (2.5, 0.25, 0.5, 1.2345, -1.2655)),
    (5, "round 2: absent", 0, 0, None),
    (6, "round 3: let go", 0, 0, (-0.75, 0.125, None, None, None)),
    (7, "income, INV-7", 5000050, 0, None),
    (9, "reversal of entry 3: wrong\nfigures", 0, -123456700, None),
)


def statement(*, lines=LINES, settlement="accruals", minor_digits=2, **changes):
    made, balance, accrued_balance = [], 0, 0
    for entry, text, amount, accrued, figures in lines:
        balance, accrued_balance = balance + amount, accrued_balance + accrued
        names = ("profit", "contribution", "share", "payoff", "transfer")
        made.append(
            StatementLine(
                entry=entry,
                at=f"2026-03-{entry:02}T23:59:59.000000Z",
                text=text,
                amount=amount,
                accrued=accrued,
                balance=balance,
                accrued_balance=accrued_balance,
                **dict(zip(names, figures or (), strict=False)),
            )
        )
    given = {
        "ledger": "b0" * 32,
        "name": "five-banks",
        "client": "North General",
        "client_key": "c1" * 32,
        "currency": "EUR",
        "worth": 100000,
        "at": "2026-04-01T00:00:00.000000Z",
        "head_number": 11,
        "head": "4e" * 32,
    }
    return Statement(lines=tuple(made), settlement=settlement, minor_digits=minor_digits, **given | changes)


class Page(HTMLParser):
    """Its text, the cells of its table, its tags, and what it refers to."""

    def __init__(self, html):
        super().__init__()
        self.text, self.cells, self.tags, self.references, self.in_cell = "", [], [], [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.references += [value for name, value in attrs if name in ("src", "href", "action", "data", "srcset")]
        if tag == "tr":
            self.cells.append([])
        elif tag in ("td", "th"):
            self.cells[-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.in_cell = False

    def handle_data(self, data):
        self.text += data
        if self.in_cell:
            self.cells[-1][-1] += data


def test_the_page_has_the_lines_of_the_statement():
    head, *rows = Page(to_html(statement())).cells
    assert [re.sub(r"\s*EUR$", "", cell) for cell in head] == [
        "entry", "date", "description", "profit", "contribution", "share", "payoff", "transfer",
        "amount", "balance", "accrued", "total accrued",
    ]  # fmt: skip
    assert rows == [
        ["2", "2026-03-02", "admitted", *"–––––", "0.00", "0.00", "0.00", "0.00"],
        ["3", "2026-03-03", "round 1: stays", "+2.500", "+0.2500", "0.500", "+1.234", "−1.266", "0.00", "0.00",
         "+1\u202f234\u202f567.89", "1\u202f234\u202f567.89"],
        ["5", "2026-03-05", "round 2: absent", *"–––––", "0.00", "0.00", "0.00", "1\u202f234\u202f567.89"],
        ["6", "2026-03-06", "round 3: let go", "−0.750", "+0.1250", *"–––", "0.00", "0.00", "0.00",
         "1\u202f234\u202f567.89"],
        ["7", "2026-03-07", "income, INV-7", *"–––––", "+50\u202f000.50", "50\u202f000.50", "0.00",
         "1\u202f234\u202f567.89"],
        ["9", "2026-03-09", "reversal of entry 3: wrong figures", *"–––––", "0.00", "50\u202f000.50",
         "−1\u202f234\u202f567.00", "0.89"],
    ]  # fmt: skip


def test_an_explanation_has_a_row_of_its_own():
    """In the column of the description it would take twenty lines."""
    lines = ((3, "round 1: retained; contributed 0.1 and earned 0.2; the same in all 100 draws", 0, 0, None),)
    page = to_html(statement(lines=lines))
    _, line, why = Page(page).cells
    assert line[2] == "round 1: retained"
    assert why == ["", "contributed 0.1 and earned 0.2; the same in all 100 draws"]
    (spans,) = re.findall(r'<tr class="why"><td colspan="(\d+)"></td><td colspan="(\d+)">', page)
    assert sum(map(int, spans)) == len(line)


def test_the_gain_of_the_same_samples_is_not_called_measured():
    """A measured profit is another thing: it compares different samples."""
    made = statement()
    lines = tuple(replace(line, measured_gain=0.1, used_gain=0.2) for line in made.lines)
    head, *_ = Page(to_html(replace(made, lines=lines))).cells
    assert head[3:5] == ["paired gain", "used gain"]


def test_what_a_reader_asks_first_comes_first():
    text = Page(to_html(statement())).text
    first = text[: text.index("Lines")]
    for shown in ("North General", "five-banks", "from 2026-03-02 to 2026-04-01", "in EUR", "+50\u202f000.50 EUR",
                  "+0.89 EUR", "1\u202f000.00 EUR", "b0b0b0b0b0b0b0b0…", "c1c1c1c1c1c1c1c1…"):  # fmt: skip
        assert shown in first
    assert "4e" * 32 in text
    assert "entry 11 will no longer have this hash" in text


@pytest.mark.parametrize(("digits", "shown"), [(0, "+5\u202f000\u202f050 EUR"), (6, "+5.000050 EUR")])
def test_amounts_have_the_decimals_of_the_currency(digits, shown):
    assert shown in Page(to_html(statement(minor_digits=digits))).text


def test_a_ledger_of_transfers_has_no_columns_for_what_accrues():
    page = Page(to_html(statement(settlement="transfers", lines=LINES[:1])))
    assert [len(cells) for cells in page.cells] == [10, 10]
    assert "nothing accrues in this ledger" in page.text


def test_a_statement_of_more_than_two_lines_has_a_chart():
    assert "svg" not in Page(to_html(statement(lines=LINES[:2]))).tags
    assert Page(to_html(statement(lines=LINES[:3]))).tags.count("svg") == 2  # for wide and for narrow pages
    assert "svg" not in Page(to_html(statement(lines=()))).tags


def test_a_member_without_a_key_gets_a_message():
    assert "none: the operator reports for it" in Page(to_html(statement(client_key=None))).text


@pytest.mark.parametrize(
    "name",
    [
        *RUDE_NAMES,
        "</title><script>document.title = 'owned'</script>",
        "{{ statement.head }} {% include 'style.css' %}",
    ],
)
def test_names_cannot_break_out(name):
    rude = statement(
        client=name, name=name, currency=name, head=name, ledger=name, at=name, settlement=name, client_key=name,
        lines=[(entry, name, 1, 1, None) for entry in range(3, 7)],
    )  # fmt: skip
    plain = Page(to_html(statement(lines=[(entry, "x", 1, 1, None) for entry in range(3, 7)])))
    page = Page(to_html(rude))
    assert page.tags == plain.tags
    assert page.references == ["data:,"]


def test_the_page_needs_nothing_else():
    html = to_html(statement())
    page = Page(html)
    assert page.references == ["data:,"]
    assert "script" not in page.tags
    assert not re.search(r"https?:|//|url\(|@import", html)
    assert "default-src 'none'" in html
    assert html == to_html(statement())


def test_a_statement_needs_no_matplotlib_and_its_table_no_jinja():
    command = (
        "import sys; import commonweal.report.statement; "
        "print(sorted({'jinja2', 'matplotlib', 'sqlalchemy', 'cryptography', 'typer'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", command], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize(("low", "high", "expected"), [
    (0, 0, [0, 1]), (0, 7, [0, 2, 4, 6, 8]), (-37, 211, [-100, 0, 100, 200, 300]), (2, 3, [2, 3]),
    (0, 10**18, [0, 5 * 10**17, 10**18]),
])  # fmt: skip
def test_ticks_are_round_numbers_and_enclose_the_data(low, high, expected):
    assert ticks(low, high, 5) == expected


def test_the_table_has_all_figures_of_the_statement():
    text = to_csv(statement())
    assert text.startswith("\ufeff")
    rows = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))
    for row, line in zip(rows, statement().lines, strict=True):
        assert (int(row["entry"]), row["at"], row["text"]) == (line.entry, line.at, line.text)
        for name in ("profit", "contribution", "share", "payoff", "transfer"):
            assert (float(row[name]) if row[name] else None) == getattr(line, name)
        for name in ("amount", "balance", "accrued", "accrued_balance"):
            assert re.fullmatch(r"-?\d+\.\d\d", row[name])
            assert int(row[name].replace(".", "")) == getattr(line, name)
        assert (row["client"], row["currency"]) == ("North General", "EUR")


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@a", " =1", "＝1", "'a"])
def test_no_cell_of_the_table_is_a_formula(name):
    (row,) = csv.DictReader(io.StringIO(to_csv(statement(client=name, lines=[(1, name, -5, 0, None)])), newline=""))
    assert (row["client"], row["text"], row["amount"]) == (f"'{name}", f"'{name}", "-0.05")


def test_different_texts_stay_different():
    names = ["a;=1", "a;'=1", "a;''=1", "=1", "'=1", "\t=1", "\t'=1"]
    tables = [to_csv(statement(client=name)) for name in names]
    assert len(set(tables)) == len(names)


@pytest.mark.parametrize("separator", [";", ",", "\t", "|", '"', ';"', "; ", ";\n"])
@pytest.mark.parametrize("formula", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@sum(1)", "＝1"])
def test_no_part_of_a_cell_is_a_formula_where_another_separator_splits_it(separator, formula):
    """Excel reads the list separator of the user's country, which is a semicolon in most of Europe."""
    name = f"north{separator}{formula}"
    text = to_csv(statement(client=name, lines=[(1, f"round 1{separator}{formula}", -5, 0, None)]))
    for delimiter in ";,\t|":
        for row in csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter):
            for cell in row:
                is_number = re.fullmatch(r"-\d+\.\d\d", cell.partition(",")[0])
                assert is_number or not cell.lstrip(' "\n\r').startswith(("=", "+", "-", "@", "＝")), cell
    (row,) = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    assert row["client"].replace("'", "") == name.replace("'", ""), "nothing else changes"
    assert row["amount"] == "-0.05"


def test_numbers_in_a_text_stay_numbers():
    text = "corrected; -0.5, then +3;-1 | 4"
    (row,) = csv.DictReader(io.StringIO(to_csv(statement(lines=[(1, text, -5, 0, None)])), newline=""))
    assert row["text"] == text
