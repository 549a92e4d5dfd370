"""A table with a site column, divided into one CSV file for each site, which holds the site's rows and no others."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from commonweal.tables.packaged import is_packaged, read_packaged
from commonweal.tables.reading import read_table
from commonweal.tables.settings import checked_settings
from commonweal.tables.site_rows import rows_per_site


def split_by_site(given: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """For each value of the site column the text of a CSV file: the site's rows in order, without that column."""
    settings = checked_settings(given, "[task]")
    assert settings.table is not None
    if is_packaged(settings.table):
        table = read_packaged(settings.table, settings.missing)
    else:
        table = read_table(folder / settings.table, settings.missing)
    columns = {name: column for name, column in table.columns.items() if name != settings.site}
    # Where commas are decimal, semicolons separate the fields; readers expect both or neither.
    delimiter = ";" if any(column.decimal_comma for column in columns.values()) else ","
    split = {}
    for site, rows in rows_per_site(table, settings).items():
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([column.cells[row] for column in columns.values()] for row in rows)
        split[site] = text.getvalue()
    return split
