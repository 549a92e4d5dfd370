"""A comparison as JSON, for programs; docs/reference/comparison-json.md describes the fields."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from commonweal.records.comparison import COLUMNS, Comparison
from commonweal.report.comparison_text import sentences

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
    return {name: _plain(value) for name, value in document.items()}


def to_json(comparison: Comparison) -> str:
    return json.dumps(to_document(comparison), indent=1, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
