"""A comparison as JSON, for programs; docs/reference/comparison-json.md describes the fields."""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from commonweal.records.comparison import COLUMNS, Comparison
from commonweal.report.comparison_text import sentences
from commonweal.report.plain_json import json_text, plain

SCHEMA = "commonweal.comparison/1"


def to_document(comparison: Comparison) -> dict[str, Any]:
    """The comparison in the types of JSON; amounts are in units of utility, infinity is "inf"."""
    columns = {
        column.name: {"title": column.title, "meaning": column.meaning, "unit": column.unit, "group": column.group}
        for column in COLUMNS
    }
    document = {
        "schema": SCHEMA,
        "version": version("commonweal"),
        **asdict(comparison),
        "columns": columns,
        "sentences": sentences(comparison),
    }
    return {name: plain(value) for name, value in document.items()}


def to_json(comparison: Comparison) -> str:
    return json_text(to_document(comparison))
