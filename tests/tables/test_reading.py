"""CSV as spreadsheets and programs write it, Parquet with its types, and files that are neither."""

from __future__ import annotations

import contextlib
import csv
import io
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.errors import CommonwealError, InputError
from commonweal.tables.reading import read_table
from commonweal.tables.values import label_of, number_of


def table_of(tmp_path, content, name="patients.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path)


def cells(table):
    return {name: column.cells for name, column in table.columns.items()}


@pytest.mark.parametrize(
    "content",
    [
        "age,ward\n61,heart\n62,lung\n",
        "age;ward\n61;heart\n62;lung\n",
        "age\tward\n61\theart\n62\tlung\n",
        "\ufeffage,ward\r\n61,heart\r\n62,lung\r\n",
        "age , ward\n\n 61 , heart \n,\n62,lung",
        '"age","ward"\n"61","heart"\n62,"lung"\n',
    ],
)
def test_dialects_of_csv(tmp_path, content):
    assert cells(table_of(tmp_path, content)) == {"age": ["61", "62"], "ward": ["heart", "lung"]}


def test_quoted_fields_may_contain_delimiters_quotes_and_line_breaks(tmp_path):
    table = table_of(tmp_path, 'ward,"age; at ""entry"""\n"a, b",61\n"two\nlines",62\nc,63\n')
    assert cells(table) == {"ward": ["a, b", "two\nlines", "c"], 'age; at "entry"': ["61", "62", "63"]}
    assert [table.place(row) for row in range(3)] == [f"patients.csv, line {line}" for line in (2, 3, 5)]


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8).map(
    lambda text: f"x{text}".strip()
)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5), st.sampled_from(",;\t"))
def test_what_the_csv_module_writes_is_read_back(tmp_path_factory, rows, delimiter):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([("first", "second"), *rows])
    path = tmp_path_factory.mktemp("table") / "t.csv"
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    table = read_table(path)
    assert [tuple(row) for row in zip(*cells(table).values(), strict=True)] == [
        (one.strip(), two.strip()) for one, two in rows
    ]


def test_missing_values_and_those_of_the_user(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n,NA\nNaN,null\nN/A,n/a\n-9,None\n")
    assert cells(read_table(path, ["-9"])) == {"x": ["", "", "", ""], "y": ["", "", "", "None"]}


def test_a_decimal_comma_is_read_where_semicolons_separate(tmp_path):
    column = table_of(tmp_path, "age;ward\n61,5;a\n62.5;b\n-,5;c\n1.234,5;d\n").columns["age"]
    assert column.numbers.tolist()[:3] == [61.5, 62.5, -0.5]
    assert column.is_text.tolist() == [False, False, False, True]
    assert number_of("61,5") is None


@pytest.mark.parametrize("text", ["inf", "nan", "1e999", "1_000", "0x10", "٣", "1 000", "--1", "1e", ".", "Infinity"])
def test_what_is_no_number(text):
    assert number_of(text) is None


def test_labels_of_equal_numbers_are_equal():
    assert {label_of(text) for text in ("1", "1.0", "1e0", "+1")} == {"1"}
    assert [label_of(text) for text in ("007", "0", "-0.5", "A1", "1.50")] == ["007", "0", "-0.5", "A1", "1.5"]


def test_parquet_types(tmp_path):
    moment = datetime(2024, 1, 31, 12, tzinfo=UTC)
    columns = {
        "whole": pyarrow.array([1, None, 3], pyarrow.int16()),
        "float": pyarrow.array([1.0, float("nan"), 2.5], pyarrow.float32()),
        "truth": pyarrow.array([True, None, False]),
        "text": pyarrow.array(["a", "NA", " c "]),
        "choice": pyarrow.array(["x", "y", "x"]).dictionary_encode(),
        "exact": pyarrow.array([Decimal("1.50"), None, Decimal("2.25")]),
        "day": pyarrow.array([date(2024, 1, 31), None, date(2024, 2, 1)]),
        "moment": pyarrow.array([moment, None, moment], pyarrow.timestamp("ns", "UTC")),
        "listed": pyarrow.array([[1], [2], [3]]),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert cells(table) == {
        "whole": ["1", "", "3"],
        "float": ["1", "", "2.5"],
        "truth": ["true", "", "false"],
        "text": ["a", "", "c"],
        "choice": ["x", "y", "x"],
        "exact": ["1.50", "", "2.25"],
        "day": ["2024-01-31", "", "2024-02-01"],
        "moment": ["2024-01-31T12:00:00+00:00", "", "2024-01-31T12:00:00+00:00"],
    }
    assert table.place(1) == "t.parquet, row 2"
    with pytest.raises(InputError, match=r"t\.parquet: column 'listed' holds values of the type list<.*int64>"):
        table.column("listed")


def test_numbers_of_parquet_lose_no_digits(tmp_path):
    values = np.random.default_rng(1).normal(size=50) * 10.0 ** np.arange(-25, 25)
    pyarrow.parquet.write_table(pyarrow.table({"x": values}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").columns["x"].numbers.tolist() == values.tolist()


REFUSED = {
    "empty": (b"", "patients.csv is empty. Its first line must name the columns."),
    "only delimiters": (b";;\n", "patients.csv is empty."),
    "only blank lines": (b"\n \n", "patients.csv is empty."),
    "not UTF-8": ("age,ward\n1,a\n2,Köln\n".encode("latin-1"), "patients.csv, line 3 is not UTF-8 text (byte 0xf6)."),
    "UTF-16": ("age,ward\n".encode("utf-16"), "patients.csv is UTF-16 text. Save it as CSV in UTF-8."),
    "a spreadsheet": (b"PK\x03\x04rest", "Save the sheet as CSV"),
    "binary": (b"a,b\n\0\1,2\n", "patients.csv is not a text file."),
    "a field too few": (b"a,b,c\n1,2,3\n1,2\n", "patients.csv, line 3 has 2 fields, but the header names 3 columns."),
    "a field too many": (b"a,b\n\n1,2,3\n", "patients.csv, line 3 has 3 fields, but the header names 2 columns."),
    "an open quote": (b'a,b\n1,2\n"1,2\n3,4\n', "patients.csv, line 3: unexpected end of data."),
    "text after a quote": (b'a,b\n"1"x,2\n', "patients.csv, line 2: ',' expected after '\"'."),
    "two columns of a name": (b"age,ward,age\n1,2,3\n", "has two columns 'age': number 1 and number 3. Rename one."),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_file_that_is_no_csv_is_refused_with_its_line(tmp_path, fault):
    content, message = REFUSED[fault]
    with pytest.raises(InputError) as refusal:
        table_of(tmp_path, content)
    assert message in str(refusal.value)


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1" + bytes(50) + b"PAR1", b"", b"a,b\n1,2\n"])
def test_a_file_that_is_no_parquet_is_refused(tmp_path, content):
    with pytest.raises(InputError, match=r"patients\.parquet is not a Parquet file that can be read"):
        table_of(tmp_path, content, "patients.parquet")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(CommonwealError, match=r"Cannot read .*none\.csv: no such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(CommonwealError, match="it is a folder"):
        read_table(tmp_path)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("table") / "t.csv"
    path.write_bytes(content)
    with contextlib.suppress(CommonwealError):
        read_table(path)


def test_columns_without_a_name_are_left_out(tmp_path):
    table = table_of(tmp_path, ",age\n0,61\n1,62\n")
    assert cells(table) == {"age": ["61", "62"]}
    assert table.unnamed_count == 1
