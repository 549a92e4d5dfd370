"""An audit as JSON, for programs; docs/reference/audit-json.md describes the fields."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from importlib.metadata import version
from typing import Any

from commonweal.records.audit import AuditReport
from commonweal.report.audit_text import sentences

SCHEMA = "commonweal.audit/1"


def to_document(report: AuditReport) -> dict[str, Any]:
    """The audit in the types of JSON; amounts are in units of utility, infinity is "inf"."""
    document = {"schema": SCHEMA, "version": version("commonweal"), **asdict(report)}
    document["bounds"] = {"low": report.bounds[0], "high": report.bounds[1]}
    if report.unravelling is not None:
        document["unravelling"] |= {
            "money_ratio": report.unravelling.money_ratio,
            "stays_share": {
                client: {"truth": truth, "end": end} for client, (truth, end) in report.unravelling.stays_share.items()
            },
        }
    document["sentences"] = list(sentences(report))
    return {name: _plain(value) for name, value in document.items()}


def to_json(report: AuditReport) -> str:
    return json.dumps(to_document(report), indent=1, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    assert not is_dataclass(value), "asdict converts them"
    return value
