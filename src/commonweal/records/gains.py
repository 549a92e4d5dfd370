"""The gains that a round's figures rest on where they are not used as measured. All frozen.

A gain is the metric of the round's model minus that of the model that opened the round, both on the client's present
validation samples, with the sign that makes more better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

FiguresRule = Literal["measured", "paired", "pooled", "forecast"]

_ROUNDING = 1e-9  # of metrics: processors round differently


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedGain:
    """One client's gain as measured, with what its uncertainty follows from."""

    gain: float
    sample_count: int  # validation samples
    squared_change: float  # Σ over samples of (change of the score)²: of hits, the samples on which both models differ
    is_bounded: bool = True  # the metric lies within 0 and 1

    @property
    def fault(self) -> str | None:
        """Why no measurement can give this row; None if one can.

        Changes of a bounded metric are at most 1, and so is the variance of its bootstrap draws, up to their number.
        """
        if self.sample_count < 1:
            return f"{self.sample_count} samples"
        if not (math.isfinite(self.gain) and 0 <= self.squared_change < math.inf):
            return f"a gain of {self.gain:g} with squared changes of {self.squared_change:g}"
        if self.is_bounded and abs(self.gain) > 1 + _ROUNDING:
            return f"a gain of {self.gain:g} in a metric between 0 and 1"
        if self.is_bounded and self.squared_change > 1.01 * self.sample_count**2:
            return f"squared changes of {self.squared_change:g} on {self.sample_count} samples"
        return None

    @property
    def standard_error(self) -> float:
        """√(Σ change²) / samples: of the gain, by this client's own samples alone."""
        return math.sqrt(self.squared_change) / self.sample_count


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundGains:
    """Everybody's gains in a round: as measured, pooled, and expected of the next round."""

    version: str  # of the rule that used them, e.g. "pooled/1"
    table: Mapping[str, PairedGain]  # of the clients at which the metric can be measured
    newcomers: tuple[str, ...]  # clients of the table that were in no earlier one; in the first round there are none
    pooled: Mapping[str, float]  # as measured, if the rule does not pool
    expected: Mapping[str, float] | None = None  # of the next round; only with forecasts

    def used(self, client: str) -> tuple[float, float | None]:
        """The client's pooled gain, and the expected one; where the metric cannot be measured, nothing was gained."""
        return self.pooled.get(client, 0.0), None if self.expected is None else self.expected.get(client, 0.0)

    def table_document(self, round_number: int) -> dict[str, Any]:
        """The table in the types of JSON, as clients sign its hash."""
        return {
            "format": "commonweal.gains/1",
            "round": round_number,
            "version": self.version,
            "bounded": all(row.is_bounded for row in self.table.values()),
            "newcomers": list(self.newcomers),
            "rows": [
                {
                    "client": client,
                    "gain": row.gain,
                    "sample_count": row.sample_count,
                    "squared_change": row.squared_change,
                }
                for client, row in self.table.items()
            ],
        }

    def to_document(self, round_number: int) -> dict[str, Any]:
        """All of it in the types of JSON, as ledgers and history.json hold it."""
        return {
            "table": self.table_document(round_number),
            "pooled": dict(self.pooled),
            "expected": None if self.expected is None else dict(self.expected),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> RoundGains:
        """What `to_document` wrote; Python's own errors if it is damaged."""
        table, expected = document["table"], document["expected"]
        return cls(
            version=str(table["version"]),
            table=table_of(table),
            newcomers=tuple(map(str, table["newcomers"])),
            pooled={client: float(gain) for client, gain in document["pooled"].items()},
            expected=None if expected is None else {client: float(gain) for client, gain in expected.items()},
        )


def table_of(document: Mapping[str, Any]) -> dict[str, PairedGain]:
    """The table in a document that `table_document` made; Python's own errors if it is damaged."""
    return {
        str(row["client"]): PairedGain(
            gain=float(row["gain"]),
            sample_count=int(row["sample_count"]),
            squared_change=float(row["squared_change"]),
            is_bounded=bool(document["bounded"]),
        )
        for row in document["rows"]
    }
