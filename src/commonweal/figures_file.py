"""Figures of rounds from a CSV or JSON file; every error is reported with its place.

Columns (CSV) or keys (a JSON array of objects): `client`, `contribution`, and either `profit` or both `utility` and
`cost`; `cost` may also stand beside `profit`, for the loss rule "cost"; `round` if there is more than one. Standard
errors are optional: `profit_error` or `utility_error`, and `contribution_error`. Mechanisms other than the paper's may
read `utility`, `sample_count`, `metric` and `loss`, too.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from commonweal.bounded_read import LARGEST_DOCUMENT, read_bounded
from commonweal.decision.exact import FloatArray
from commonweal.decision.validation import LARGEST, SMALLEST, admissible
from commonweal.errors import CommonwealError, InputError, StorageError
from commonweal.names import tidy_name
from commonweal.records import Figures
from commonweal.valuation.profit import profit as profit_of

if TYPE_CHECKING:
    import _csv

COLUMNS = (
    "round", "client", "contribution", "profit", "utility", "cost",
    "profit_error", "utility_error", "contribution_error", "sample_count", "metric", "loss",
)  # fmt: skip
_ABOUT_ERRORS = "a standard error is never negative"
_FAULTS_SHOWN = 10
_FIELD_LIMIT = 10_000_000  # characters in one CSV field
_EVIDENCE_LIMIT = 60  # characters

Rounds = list[tuple[int, Figures]]


@dataclass(slots=True)
class _Table:
    """Columns of raw values, and how to name the place of a row."""

    name: str
    columns: dict[str, list[Any]]
    place: Callable[[int], str]
    numbers_as_text: bool
    faults: list[str] = field(default_factory=list)
    fault_count: int = 0

    def fault(self, row: int, rule: str, evidence: str, way_out: str) -> None:
        self.fault_count += 1
        if len(self.faults) < _FAULTS_SHOWN:
            client = self.columns["client"][row] if row < len(self.columns.get("client", ())) else ""
            whose = f" for client {shown(client)}" if isinstance(client, str) and client else ""
            self.faults.append(f"{rule}, got {evidence}{whose} ({self.place(row)} of {self.name}); {way_out}.")

    def raise_faults(self) -> None:
        if self.fault_count == 1:
            raise InputError(self.faults[0])
        if self.fault_count > 1:
            more = self.fault_count - len(self.faults)
            tail = [f"... and {more} more"] if more else []
            raise InputError("\n  ".join([f"{self.name} has {self.fault_count} errors:", *self.faults, *tail]))


def shown(value: Any) -> str:
    """A value as evidence: as it stands in the file, cut if it is long."""
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _EVIDENCE_LIMIT else f"{text[:_EVIDENCE_LIMIT]}... ({len(text)} characters)"


def read_figures(path: str | Path) -> Rounds:
    """The figures of one round or many, from a CSV or JSON file: a list of (round number, figures) in order."""
    return parse_figures(read_content(path), str(path))


def read_content(path: str | Path) -> bytes:
    """The content of a file, for `parse_figures`."""
    try:
        return read_bounded(Path(path), LARGEST_DOCUMENT)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise StorageError(f"Cannot read {path}: {reason}.") from None


def parse_figures(content: str | bytes, name: str) -> Rounds:
    """As `read_figures`, from the content of a file; `name` is for messages."""
    return _rounds(_table(content, name))


def names_rounds(content: str | bytes, name: str) -> bool:
    """Whether the file has a column for the round; without it, all figures are those of round 1."""
    return "round" in _table(content, name).columns


def _table(content: str | bytes, name: str) -> _Table:
    text = content if isinstance(content, str) else _decoded(content, name)
    if not text.strip():
        raise InputError(f"{name} is empty. Add a header and a row for each client.")
    table = _json_table(text, name) if text.lstrip()[0] in "[{" else _csv_table(text, name)
    table.raise_faults()
    return table


def _decoded(content: bytes, name: str) -> str:
    bad = content.find(b"\0")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        bad = error.start if bad < 0 else min(bad, error.start)
    if bad >= 0:
        line = content.count(b"\n", 0, bad) + 1
        raise InputError(
            f"The file must be text in UTF-8, got the byte {content[bad]:#04x} (line {line} of {name}). "
            "Export the figures as CSV or JSON, and save them as UTF-8."
        )
    return text


def _csv_table(text: str, name: str) -> _Table:
    csv.field_size_limit(_FIELD_LIMIT)
    reader = _csv_reader(text)
    try:
        rows = [values for values in reader if values]
    except csv.Error as error:
        raise InputError(
            f"The file must be CSV with commas and balanced quotes, got {error} (line {reader.line_num} of {name}). "
            "Export it again."
        ) from None

    @cache
    def lines() -> list[int]:
        """The line on which each row ends; computed only if an error must be reported."""
        again = _csv_reader(text)
        return [again.line_num for values in again if values]

    header = [column.strip() for column in rows[0]]
    _check_columns(header, name, "column")
    body = rows[1:]
    table = _Table(name=name, columns={}, place=lambda row: f"line {lines()[row + 1]}", numbers_as_text=True)
    width = len(header)
    if set(map(len, body)) - {width}:
        for row, values in enumerate(body):
            if len(values) != width:
                table.fault(
                    row,
                    f"a row must have one value for each of the {width} columns",
                    f"{len(values)} ({shown(','.join(values))})",
                    "add the missing values"
                    if len(values) < width
                    else "remove the extra values; write numbers with a decimal point, not a comma",
                )
        return table
    table.columns = {column: [values[position] for values in body] for position, column in enumerate(header)}
    return table


def _csv_reader(text: str) -> _csv.Reader:
    return csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)


def _json_table(text: str, name: str) -> _Table:
    try:
        rows = json.loads(text, object_pairs_hook=_without_repeats)
    except CommonwealError:  # a ValueError too, but of our own making
        raise
    except RecursionError:
        raise InputError(f"The file must be an array of flat objects, got deep nesting in {name}.") from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"The file must be valid JSON, got {error.msg} (line {error.lineno} of {name}). Export it again."
        ) from None
    except ValueError:  # Python's own limit on the digits of a whole number
        raise InputError(
            f"Numbers must have at most 4,300 digits, got a longer one in {name}. Write it like 1e-3."
        ) from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(
            f"A JSON file must be an array of objects, one for each client and round, got something else in {name}. "
            'Write [{"client": "ann", "profit": 0.1, "contribution": 0.5}, ...].'
        )
    table = _Table(name=name, columns={}, place=lambda row: f"entry {row + 1}", numbers_as_text=False)
    if rows:
        header = list(rows[0])
        _check_columns(header, name, "key")
        for row, entry in enumerate(rows):
            if entry.keys() != rows[0].keys():
                odd = next(iter(entry.keys() ^ rows[0].keys()))
                table.fault(
                    row,
                    "all entries must have the same keys",
                    f"{'an extra' if odd in entry else 'no'} {odd!r}",
                    "add or remove it",
                )
        if not table.fault_count:
            table.columns = {key: [entry[key] for entry in rows] for key in header}
    return table


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entry = dict(pairs)
    if len(entry) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"Each key must occur once in an entry, got {twice!r} twice in {shown(entry)}. Remove one.")
    return entry


def _check_columns(header: list[str], name: str, what: str) -> None:
    for column in header:
        if column not in COLUMNS:
            hint = "."
            if any(mark in column for mark in ";\t"):
                hint = "; separate the columns by commas."
            elif column.lower() in COLUMNS:
                hint = f"; did you mean {column.lower()!r}?"
            raise InputError(
                f"A {what} must be one of {', '.join(COLUMNS)}, got {column!r} in {name}. Rename or remove it{hint}"
            )
        if header.count(column) > 1:
            raise InputError(f"Each {what} must occur once, got {column!r} twice in {name}. Remove one.")
    if "profit" in header and "utility" in header:
        raise InputError(
            f"Give either profit, or utility and cost; got both profit and utility in {name}. Remove one of them."
        )
    for error, figure in (("profit_error", "profit"), ("utility_error", "utility")):
        if error in header and figure not in header:
            raise InputError(
                f"{error} is the standard error of {figure}, got no {figure!r} in {name}. Add it, or remove {error}."
            )
    needed = ["client", "contribution"]
    needed += ["profit"] if "profit" in header or not {"utility", "cost"} & set(header) else ["utility", "cost"]
    for column in needed:
        if column not in header:
            raise InputError(
                f"The {what}s client, contribution and profit (or utility and cost) are required, "
                f"got no {column!r} in {name}. Add it."
            )


def _rounds(table: _Table) -> Rounds:
    if not table.columns.get("client"):
        raise InputError(
            f"The file must have at least one client, got none in {table.name}. Add a row or entry for each client."
        )
    clients = _clients(table)
    numbers = _round_numbers(table)
    contributions = _numbers(table, "contribution")
    costs = _not_negative(table, "cost", "a gain belongs in utility or profit")
    kind = "profit" if "profit" in table.columns else "utility"
    given = _numbers(table, kind)
    errors = _not_negative(table, f"{kind}_error", _ABOUT_ERRORS)
    contribution_errors = _not_negative(table, "contribution_error", _ABOUT_ERRORS)
    further: dict[str, FloatArray] = {n: _numbers(table, n) for n in ("metric", "loss") if n in table.columns}
    if kind == "utility":
        further[kind] = given
    if (counts := _counts(table)) is not None:
        further["sample_count"] = counts
    table.raise_faults()
    _check_unique(table, clients, numbers)
    table.raise_faults()
    if "utility" in table.columns:
        assert costs is not None
        given = profit_of(given, costs)
    bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(clients)]
    profit_list, contribution_list = given.tolist(), contributions.tolist()
    optional = {"costs": costs, "profit_errors": errors, "contribution_errors": contribution_errors}
    optional_lists = {what: column.tolist() for what, column in optional.items() if column is not None}
    further_lists = {what: column.tolist() for what, column in further.items()}
    rounds: Rounds = []
    for start, end in pairwise(bounds):
        names = clients[start:end]
        rounds.append(
            (
                int(numbers[start]),
                Figures(
                    profits=dict(zip(names, profit_list[start:end], strict=True)),
                    contributions=dict(zip(names, contribution_list[start:end], strict=True)),
                    **{what: dict(zip(names, row[start:end], strict=True)) for what, row in optional_lists.items()},
                    further={w: dict(zip(names, row[start:end], strict=True)) for w, row in further_lists.items()},
                ),
            )
        )
    return rounds


def _clients(table: _Table) -> list[str]:
    names: list[str] = []
    if table.numbers_as_text:  # all values are text; plain names, as in most files, need not be checked one by one
        names = [value.strip() for value in table.columns["client"]]
        together = "".join(names)
        if together.isascii() and together.isprintable() and all(names):
            return names
        names = []
    for row, value in enumerate(table.columns["client"]):
        if not isinstance(value, str):
            table.fault(row, "client must be a name", shown(value), "put it in quotes")
            value = ""
        # Names that look the same are normalised to the same spelling, so that no client is counted as two.
        name = value.strip() if value.isascii() else tidy_name(value)
        odd = next((character for character in name if not character.isprintable()), None)
        if odd is not None:
            table.fault(
                row, "client must be a name of printable characters", shown(value), f"remove U+{ord(odd):04X} from it"
            )
        elif not name and isinstance(table.columns["client"][row], str):
            table.fault(row, "client must be a name", shown(value), "name the client")
        names.append(name)
    return names


def _round_numbers(table: _Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if "round" not in table.columns:
        return np.ones(len(table.columns["client"]), dtype=np.int64)
    numbers: list[int] = []
    for row, value in enumerate(table.columns["round"]):
        number = _whole(value)
        if number is None:
            table.fault(row, "round must be a whole number from 0 to 10^9", shown(value), "number the rounds 1, 2, ...")
            number = numbers[-1] if numbers else 0
        elif numbers and number < numbers[-1]:
            table.fault(
                row, "rounds must come in order", f"round {number} after round {numbers[-1]}", "sort the rows by round"
            )
            number = numbers[-1]
        numbers.append(number)
    return np.array(numbers, dtype=np.int64)


def _whole(value: Any) -> int | None:
    if isinstance(value, str):
        text = value.strip()
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else -1
    else:
        number = value if isinstance(value, int) and not isinstance(value, bool) else -1
    return number if 0 <= number <= 10**9 else None


def _not_negative(table: _Table, column: str, way_out: str) -> FloatArray | None:
    """The numbers of an optional column; None if the table does not have it."""
    if column not in table.columns:
        return None
    numbers = _numbers(table, column)
    for row in np.flatnonzero(admissible(numbers) & (numbers < 0)).tolist():
        table.fault(row, f"{column} must be at least 0", shown(table.columns[column][row]), way_out)
    return numbers


def _counts(table: _Table) -> FloatArray | None:
    """The new samples of each client; None if the table does not say."""
    counts = _not_negative(table, "sample_count", "it counts new samples")
    for row in () if counts is None else np.flatnonzero(counts != np.floor(counts)).tolist():
        table.fault(row, "sample_count must be whole", shown(table.columns["sample_count"][row]), "correct it")
    return counts


def _numbers(table: _Table, column: str) -> FloatArray:
    values = table.columns[column]
    numbers = np.array(_plain_floats(table, values) or list(_floats(table, column, values)), dtype=np.float64)
    for row in np.flatnonzero(~admissible(numbers)).tolist():
        table.fault(
            row,
            f"{column} must be a finite number, 0 or between {SMALLEST:g} and {LARGEST:g} in size",
            shown(values[row]),
            "correct it or remove the row",
        )
    return numbers


def _plain_floats(table: _Table, values: list[Any]) -> list[float] | None:
    """The numbers of a column of text, converted all at once; None if any of them needs a closer look."""
    if not table.numbers_as_text:
        return None
    together = "".join(values)
    if not together.isascii() or "_" in together:
        return None
    try:
        return [float(value) for value in values]
    except ValueError:
        return None


def _floats(table: _Table, column: str, values: list[Any]) -> Iterator[float]:
    for row, value in enumerate(values):
        try:
            if isinstance(value, str):
                # float() accepts 1_000 for a thousand, and digits of any script
                if "_" in value or not value.isascii() or not table.numbers_as_text:
                    raise ValueError
            elif isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError
            yield float(value)
        except OverflowError:
            yield math.inf  # refused later, like all numbers that are too large
        except (TypeError, ValueError):
            table.fault(row, f"{column} must be a number", shown(value), "write it like -0.05 or 1e-3")
            yield 0.0


def _check_unique(table: _Table, clients: list[str], numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    if len(set(clients) if numbers[0] == numbers[-1] else set(zip(numbers.tolist(), clients, strict=True))) == len(
        clients
    ):
        return
    seen: dict[tuple[int, str], int] = {}
    for row, key in enumerate(zip(numbers.tolist(), clients, strict=True)):
        first = seen.setdefault(key, row)
        if first != row:
            table.fault(
                row,
                "a client must occur only once in a round",
                f"it a second time in round {key[0]} (first in {table.place(first)})",
                "remove one of the two",
            )
