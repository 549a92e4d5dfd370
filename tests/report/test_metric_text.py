"""Metrics as people read them."""

from __future__ import annotations

import math

import pytest

from commonweal.records import Estimate, MetricName
from commonweal.report.metric_text import MetricText

ACCURACY = MetricName()
ROC_AUC = MetricName(name="roc-auc", label="ROC AUC", is_share=False)
EUROS = MetricName(name="mean-absolute-error", label="mean absolute error", higher_is_better=False, is_share=False)


@pytest.mark.parametrize(
    ("metric", "values", "value", "error", "parts", "difference"),
    [
        (ACCURACY, [0.5], 0.8131, 0.021, ("81.3 %", "2.1"), ("+81.3", "2.1")),
        (ACCURACY, [0.5], -0.05, None, ("−5.0 %", ""), ("−5.0", "")),
        (ROC_AUC, [0.9], 0.8764, 0.0118, ("0.876", "0.012"), ("+0.876", "0.012")),
        (ROC_AUC, [], 0.8764, 0.0, ("0.876", ""), ("+0.876", "")),
        (EUROS, [12_345.0], -321.04, 12.0, ("−321", "12"), ("−321", "12")),
        (ROC_AUC, [0.9, math.nan], math.nan, None, ("not measurable", ""), ("not measurable", "")),
    ],
)
def test_values_and_differences(metric, values, value, error, parts, difference):
    text = MetricText.for_values(metric, values)
    estimate = Estimate(value=value, standard_error=error)
    assert text.parts(estimate) == parts
    assert text.difference_parts(estimate) == difference


def test_axes_and_headings():
    share, auc = (MetricText.for_values(metric, [0.5]) for metric in (ACCURACY, ROC_AUC))
    assert (share.tick(0.5), auc.tick(0.5)) == ("50 %", "0.5")
    assert (share.difference_tick(0.05), auc.difference_tick(0.05)) == ("+5", "+0.05")
    assert (share.heading, auc.heading) == ("Accuracy", "ROC AUC")
    assert (share.difference_unit, auc.difference_unit) == ("percentage points", "")
