"""history.json: the whole run report in one file, for programs. Every field is described in docs/reference."""

from commonweal.report.history_json.reading import read_history
from commonweal.report.history_json.writing import (
    SCHEMA,
    advice_document,
    other_mechanisms_document,
    range_document,
    rules_document,
    stability_share,
    to_document,
    write_history,
)

__all__ = [
    "SCHEMA",
    "advice_document",
    "other_mechanisms_document",
    "range_document",
    "read_history",
    "rules_document",
    "stability_share",
    "to_document",
    "write_history",
]
