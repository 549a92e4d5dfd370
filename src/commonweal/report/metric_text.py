"""A metric as people read it: percentages where it is a share, and words where it cannot be measured."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from commonweal.records import Estimate, MetricName, RunReport
from commonweal.report.text import decimals_for, number

NOT_MEASURABLE = "not measurable"
_DECIMALS = 3  # of metrics up to 10 in size, such as ROC AUC


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricText:
    """How one run's metric is written: all its values have the same number of decimals."""

    metric: MetricName
    decimals: int | None

    @classmethod
    def of(cls, run_report: RunReport) -> MetricText:
        return cls.for_values(
            run_report.metric,
            [figures.accuracy.value for each in run_report.rounds for figures in each.clients.values()],
        )

    @classmethod
    def for_values(cls, metric: MetricName, values: Iterable[float]) -> MetricText:
        """Three decimals up to 10 in size; above, as many as give four digits."""
        if metric.is_share:
            return cls(metric=metric, decimals=1)
        fitting = decimals_for(values)
        return cls(metric=metric, decimals=None if fitting is None else min(fitting, _DECIMALS))

    @property
    def heading(self) -> str:
        """The metric's name at the start of a line."""
        return self.metric.label[:1].upper() + self.metric.label[1:]

    def parts(self, estimate: Estimate) -> tuple[str, str]:
        """The metric, and its standard error or "" where that is unknown or the value is exact."""
        if math.isnan(estimate.value):
            return NOT_MEASURABLE, ""
        return f"{self._scaled(estimate.value)}{' %' if self.metric.is_share else ''}", self._error(estimate)

    def difference_parts(self, estimate: Estimate) -> tuple[str, str]:
        """A difference of two metrics with its sign, as in `parts`; of shares it is in percentage points."""
        if math.isnan(estimate.value):
            return NOT_MEASURABLE, ""
        return self._scaled(estimate.value, signed=True), self._error(estimate)

    @property
    def difference_unit(self) -> str:
        return "percentage points" if self.metric.is_share else ""

    def tick(self, value: float) -> str:
        """Beside an axis of the metric."""
        scaled = float(f"{100 * value if self.metric.is_share else value:.6g}")
        return number(scaled) + (" %" if self.metric.is_share else "")

    def difference_tick(self, value: float) -> str:
        """Beside an axis of differences."""
        return number(float(f"{100 * value if self.metric.is_share else value:.6g}"), signed=True)

    def _error(self, estimate: Estimate) -> str:
        return self._scaled(estimate.standard_error) if estimate.standard_error else ""

    def _scaled(self, value: float, *, signed: bool = False) -> str:
        return number(100 * value if self.metric.is_share else value, decimals=self.decimals, signed=signed)
