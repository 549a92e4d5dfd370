"""The rows of one client, in the order of their arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.tables.arrival import Positions, random_order, rounds_by_date, rounds_by_row, validation_rows
from commonweal.tables.reading import Table
from commonweal.tables.settings import TableSettings
from commonweal.tables.values import day_of
from commonweal.task.records import TaskMember

_SITES_SHOWN = 10

SitesRows = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRows:
    """The rows of one client: positions in its table, in the order of arrival; rows without a target are left out."""

    table: Table
    settings: TableSettings
    rows: Positions
    is_validation: NDArray[np.bool_]
    days: NDArray[np.float64] | None  # the date of each row, if rows arrive by date: days since 1970, or a plain number
    are_dates: bool  # whether `days` are days since 1970
    without_target_count: int

    def rounds(self, round_count: int, first: float | None = None, last: float | None = None) -> Positions:
        """The round of each row; `first` and `last` date are those of all sites, or by default the site's own."""
        if self.days is None:
            return rounds_by_row(len(self.rows), round_count)
        start = float(self.days[0]) if first is None else first
        end = float(self.days[-1]) if last is None else last
        return rounds_by_date(self.days, start, end, round_count)

    def features(self) -> list[str]:
        """The columns that are features, in the order of the settings, or else of the file."""
        settings, table = self.settings, self.table
        used = {settings.target, settings.site, settings.date, *settings.ignore}
        names = list(settings.columns) or [name for name in (*table.columns, *table.unreadable) if name not in used]
        for name in (*settings.columns, *settings.categorical):
            table.column(name)
        for name in settings.ignore:
            # Files of different sites may differ in what is ignored, but a misspelt column must not become a feature.
            known = name in table.columns or name in table.unreadable
            close = not known and get_close_matches(name, names, n=1, cutoff=0.8)
            if not known and (settings.site is not None or close):
                table.column(name, remark=", which is listed in ignore")
        for name in names:
            table.column(name)
        if not names:
            raise InputError(f"{table.name} has no columns to learn from besides the target. Add some.")
        return names

    def numbers(self, column: str, rows: Positions) -> NDArray[np.float64]:
        """The column's numbers in these rows, nan where they are missing. Text is refused with its place."""
        found = self.table.column(column)
        texts = rows[found.is_text[rows]]
        if len(texts):
            raise self.not_a_number(column, int(texts.min()))
        return found.numbers[rows]

    def not_a_number(self, column: str, row: int, remark: str = "") -> InputError:
        """The error for a text where a number is needed."""
        is_feature = column not in (self.settings.target, self.settings.date)
        ways = [
            "Correct it",
            "leave it empty if it is missing",
            *(["list the column in categorical"] if is_feature else []),
        ]
        return InputError(
            f"{self.table.place(row)}: {self.table.columns[column].cells[row]!r} in column {column!r} is not a number"
            f"{remark}. {', '.join(ways[:-1])}, or {ways[-1]}."
        )


def site_rows(table: Table, settings: TableSettings, member: TaskMember, sites: SitesRows | None) -> SiteRows:
    """The member's rows of the table: all of them, or those of its site among the `rows_per_site`."""
    own: Sequence[int] = range(table.row_count) if sites is None else _rows_of(member.name, table, settings, sites)
    target = table.column(settings.target, "target column")
    known = np.array(own, dtype=np.int64)
    known = known[~target.is_missing[known]]
    if len(known) < 2:
        rest = f", and {len(own) - len(known)} without a target" if len(known) < len(own) else ""
        raise InputError(
            f"{table.name}: {member.name!r} has {len(known)} row{'' if len(known) == 1 else 's'}{rest}. Every client "
            "needs at least two: one to train with and one to validate with. Leave this client out, or add rows."
        )
    days: NDArray[np.float64] | None = None
    are_dates = False
    if settings.date is None:
        known = known[random_order(len(known), member.seed, member.name)]
    else:
        days, are_dates = _dates(table, settings.date, known)
        order = np.argsort(days, kind="stable")
        known, days = known[order], days[order]
    return SiteRows(
        table=table,
        settings=settings,
        rows=known,
        is_validation=validation_rows(len(known), settings.validation_share, member.seed, member.name),
        days=days,
        are_dates=are_dates,
        without_target_count=len(own) - len(known),
    )


def rows_per_site(table: Table, settings: TableSettings) -> SitesRows:
    """The rows of each value of the site column; rows where it is missing are left out."""
    assert settings.site is not None
    rows: dict[str, list[int]] = {}
    for row, cell in enumerate(table.column(settings.site, "site column").cells):
        if cell:
            rows.setdefault(cell, []).append(row)
    return rows


def target_counts(table: Table, settings: TableSettings, sites: SitesRows) -> dict[str, int]:
    """For each site the number of its rows that have a target."""
    target = table.column(settings.target, "target column")
    return {site: int(np.sum(~target.is_missing[list(rows)])) for site, rows in sites.items()}


def _rows_of(site: str, table: Table, settings: TableSettings, sites: SitesRows) -> Sequence[int]:
    if site not in sites:
        shown = ", ".join(map(repr, list(sites)[:_SITES_SHOWN])) or "missing in all rows"
        more = f" and {len(sites) - _SITES_SHOWN} more" if len(sites) > _SITES_SHOWN else ""
        raise InputError(
            f"{table.name} has no row with {site!r} in column {settings.site!r}. Its values there are {shown}{more}."
        )
    return sites[site]


def _dates(table: Table, name: str, rows: Positions) -> tuple[NDArray[np.float64], bool]:
    """The dates of the rows, and whether they are dates rather than plain numbers such as years."""
    column = table.column(name, "date column")
    are_dates = bool(2 * np.sum(column.is_text[rows]) >= np.sum(~column.is_missing[rows]))
    if are_dates:
        days = np.array([day_of(column.cells[row]) for row in rows], dtype=np.float64)  # None becomes nan
    else:
        days = column.numbers[rows]
    wrong = np.flatnonzero(np.isnan(days))
    if len(wrong):
        row = int(rows[wrong[0]])
        cell = column.cells[row]
        fault = f"{cell!r} in column {name!r} is not a date" if cell else f"column {name!r} is empty"
        rule = "dates such as 2024-01-31" if are_dates else "numbers, like most of them"
        raise InputError(
            f"{table.place(row)}: {fault}. Rows arrive by this column, so all its values must be {rule}. Correct it, "
            "or remove the row."
        )
    return days, are_dates
