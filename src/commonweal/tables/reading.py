"""Tables from CSV and Parquet files: columns of texts, each row with its place in the file for messages."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path

from commonweal.bounded_read import LARGEST_DATA, read_bounded
from commonweal.errors import InputError, StorageError, os_reason
from commonweal.tables.columns import Column
from commonweal.tables.values import MISSING, number_label

_DELIMITERS = (",", ";", "\t")
_COLUMNS_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as it was read."""

    name: str  # of the file, for messages
    columns: dict[str, Column]
    row_count: int
    lines: Sequence[int]  # where each row starts
    unit: str = "line"  # what `lines` count: "line" or "row"
    unreadable: dict[str, str] = field(default_factory=dict)  # columns that cannot be used, and the kind of values
    unnamed_count: int = 0  # columns without a name, which were left out

    def place(self, row: int) -> str:
        """For messages: "patients.csv, line 12"."""
        return f"{self.name}, {self.unit} {self.lines[row]}"

    def column(self, name: str, role: str = "column", remark: str = "") -> Column:
        """The column; in messages, `role` says what it was asked for, and `remark` where."""
        if name in self.unreadable:
            raise InputError(
                f"{self.name}: column {name!r} holds values of the type {self.unreadable[name]}, which are neither "
                "numbers nor texts nor dates. Choose another column, or convert it."
            )
        if name not in self.columns:
            raise InputError(f"{self.name} has no {role} {name!r}{remark}. {self._way_out(name)}")
        return self.columns[name]

    def _way_out(self, name: str) -> str:
        known = [*self.columns, *self.unreadable]
        lower = {column.lower(): column for column in reversed(known)}
        close = get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
        guess = f"Did you mean {lower[close[0]]!r}? " if close else ""
        more = f" and {len(known) - _COLUMNS_SHOWN} more" if len(known) > _COLUMNS_SHOWN else ""
        return f"{guess}Its columns are {', '.join(map(repr, known[:_COLUMNS_SHOWN]))}{more}."


def read_table(path: Path, missing: Collection[str] = ()) -> Table:
    """The table in a .parquet file, or in any other file as CSV; `missing` are further texts for missing values."""
    try:
        if path.is_dir():
            raise StorageError(f"Cannot read {path}: it is a folder. Name the CSV or Parquet file in it.")
        content = read_bounded(path, LARGEST_DATA)
    except OSError as error:
        raise StorageError(f"Cannot read {path}: {os_reason(error)}.") from None
    texts = dict.fromkeys((*MISSING, *missing), "")
    if path.suffix.lower() in (".parquet", ".pq") or content[:4] == b"PAR1":
        return _read_parquet(path.name, content, texts)
    return _read_csv(path.name, content, texts)


def _read_csv(name: str, content: bytes, known: dict[str, str]) -> Table:
    """`known` maps texts to the cells that they become. It is extended: most texts repeat, and share one object."""
    empty = f"{name} is empty. Its first line must name the columns."
    text = _decoded(name, content)
    header_line = next((line for line in io.StringIO(text) if line.strip()), None)
    if header_line is None:
        raise InputError(empty)
    delimiter = max(_DELIMITERS, key=lambda mark: sum(part.count(mark) for part in header_line.split('"')[::2]))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    rows: list[list[str]] = []
    lines: list[int] = []
    start = 1
    try:
        for row in reader:
            if any(map(str.strip, row)):
                if header is None:
                    header = [column.strip() for column in row]
                    _refuse_repeated(name, header)
                elif len(row) != len(header):
                    raise InputError(
                        f"{name}, line {start} has {_counted(len(row), 'field')}, but the header names "
                        f"{_counted(len(header), 'column')}. Correct the line; a field that contains "
                        f"{delimiter!r} must be in double quotes."
                    )
                else:
                    rows.append([known.setdefault(cell, cell) for cell in map(str.strip, row)])
                    lines.append(start)
            start = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{name}, line {start}: {error}. Check the double quotes of this line: a field in quotes must end with "
            "one, and a quote inside it is written twice."
        ) from None
    if header is None:  # nothing but delimiters
        raise InputError(empty)
    return Table(
        name=name,
        columns={
            column: Column([row[position] for row in rows], decimal_comma=delimiter == ";")
            for position, column in enumerate(header)
            if column
        },
        row_count=len(lines),
        lines=lines,
        unnamed_count=header.count(""),
    )


def _decoded(name: str, content: bytes) -> str:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{name} is UTF-16 text. Save it as CSV in UTF-8.")
    if content[:2] == b"PK":
        raise InputError(f"{name} is a spreadsheet or an archive, not CSV. Save the sheet as CSV in UTF-8.")
    if b"\0" in content:
        raise InputError(f"{name} is not a text file. Name a CSV or Parquet file.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{name}, line {line} is not UTF-8 text (byte 0x{content[error.start]:02x}). Save the file as UTF-8."
        ) from None


def _refuse_repeated(name: str, header: list[str]) -> None:
    for position, column in enumerate(header):
        if column and column in header[:position]:
            raise InputError(
                f"{name} has two columns {column!r}: number {header.index(column) + 1} and number {position + 1}. "
                "Rename one."
            )


def _read_parquet(name: str, content: bytes, missing: Mapping[str, str]) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError("Reading Parquet needs pyarrow: pip install 'commonweal[simulation]'.") from None
    try:
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(content))
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        reason = (str(error).splitlines() or [""])[0].rstrip(".")
        raise InputError(f"{name} is not a Parquet file that can be read: {reason}.") from None
    header = [column.strip() for column in table.column_names]
    _refuse_repeated(name, header)
    columns: dict[str, Column] = {}
    unreadable: dict[str, str] = {}
    for column, values in zip(header, table.columns, strict=True):
        if not column:
            continue
        try:
            if pyarrow.types.is_timestamp(values.type) and values.type.unit == "ns":
                values = values.cast(pyarrow.timestamp("us", values.type.tz), safe=False)  # Python has no ns
            texts = map(_cell_text, values.to_pylist())
            columns[column] = Column([missing.get(text, text) for text in texts])
        except (TypeError, ValueError, OverflowError, pyarrow.ArrowException):
            unreadable[column] = str(values.type)
    return Table(
        name=name,
        columns=columns,
        row_count=table.num_rows,
        lines=range(1, table.num_rows + 1),
        unit="row",
        unreadable=unreadable,
        unnamed_count=header.count(""),
    )


def _cell_text(value: object) -> str:
    """The value as a CSV file would hold it."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case int() | str() | Decimal():
            return str(value).strip()
        case float():
            return "" if value != value else number_label(value)
        case datetime() | date() | time():
            return value.isoformat()
    raise TypeError


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
