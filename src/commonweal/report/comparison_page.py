"""A comparison's files."""

from __future__ import annotations

from pathlib import Path

from commonweal.atomic_write import write_atomically
from commonweal.records.comparison import Comparison
from commonweal.report.comparison_json import to_json


def write_comparison(comparison: Comparison, directory: Path) -> list[Path]:
    """Write comparison.json into an existing folder; returns what was written."""
    document = directory / "comparison.json"
    write_atomically(document, to_json(comparison).encode(), what="the comparison")
    return [document]
