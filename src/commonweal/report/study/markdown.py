"""The tables of a study in Markdown, from its summary document alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from commonweal.report.shown_names import shown
from commonweal.report.study.tables import Table, tables_of

_SPECIAL = re.compile(r"([\\`*_|$~]|\](?=[(\[]))")  # a bracket alone makes no link


def to_markdown(document: Mapping[str, Any]) -> str:
    """summary.md: each table under its title."""
    parts = [f"# {_text(document['title'])}\n"]
    for table in tables_of(document):
        parts.append(f"## {_text(table.title)}\n\n{_table(table)}")
        parts += [f"{_text(note)}\n" for note in table.notes]
    return "\n".join(parts)


def tables(document: Mapping[str, Any]) -> dict[str, str]:
    """Each table by name, such as "claims" or "durations/heterogeneous", as it stands in summary.md."""
    return {table.name: _table(table) for table in tables_of(document)}


def _table(table: Table) -> str:
    head = [_row(table.headings), "|---" * len(table.headings) + "|"]
    return "\n".join((*head, *map(_row, table.rows))) + "\n"


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(map(_text, cells))} |"


def _text(value: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    words = " ".join(shown(value.replace("\n", " ")).split())
    return _SPECIAL.sub(r"\\\1", words.replace("&", "&amp;").replace("<", "&lt;"))
