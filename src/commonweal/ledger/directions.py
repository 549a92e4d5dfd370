"""Whether a metric that rises is a gain: the same for all clients of a round, and in all rounds by this metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.ledger.reports import ReportBasis
from commonweal.records.rounds import GAIN


def gains_in(body: Mapping[str, Any]) -> dict[str, float]:
    """The gains that the clients of a settled round signed, before any pooling. Python's own errors if damaged."""
    if "gains" in body:
        return {str(row["client"]): float(row["gain"]) for row in body["gains"]["table"]["rows"]}
    return {row["client"]: float(row["further"][GAIN]) for row in body["inputs"] if GAIN in row.get("further", {})}


def metric_of(body: Mapping[str, Any]) -> str | None:
    """What a round was measured by, as it states where rules are agreed; None: it does not say."""
    stated = body.get("measured_by")
    metric = stated.get("metric") if isinstance(stated, dict) else None
    return metric if isinstance(metric, str) else None


def by_direction(gains: Mapping[str, float], bases: Mapping[str, ReportBasis]) -> dict[bool, list[str]]:
    """Clients for which a metric that rises is a gain, and those for which it is not, by what they signed.

    Whose metric has not changed, or is not signed, is in neither.
    """
    found: dict[bool, list[str]] = {True: [], False: []}
    for client, gain in gains.items():
        basis = bases.get(client)
        if basis is not None and basis.change is not None and not basis.is_gain(0.0, basis.change):
            found[(basis.change > 0) == (gain > 0)].append(client)
    return found


def is_gain_if_it_rises(found: Mapping[bool, list[str]]) -> bool | None:
    """What most of these clients signed; None if they say nothing."""
    return len(found[True]) > len(found[False]) if any(found.values()) else None
