"""The gain that each client can expect of the next round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from commonweal.records.gains import PairedGain
from commonweal.valuation.pooling import pool


def forecast_gains(tables: Sequence[Mapping[str, PairedGain]]) -> dict[str, float]:
    """The gain of each client of the last table in the next round."""
    known = {client for table in tables[:-1] for client in table}
    return dict(pool(tables[-1], [client for client in tables[-1] if client not in known] if known else ()).values)
