"""An audit as JSON, for programs; docs/reference/audit-json.md describes the fields."""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from commonweal.records.audit import AuditReport
from commonweal.report.audit_text import sentences
from commonweal.report.plain_json import json_text, plain

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
    return {name: plain(value) for name, value in document.items()}


def to_json(report: AuditReport) -> str:
    return json_text(to_document(report))
