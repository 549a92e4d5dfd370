"""Check that values have the types that all readers of a ledger count on; Python alone accepts many others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from commonweal.ledger.readable import UNREADABLE, check_readable
from commonweal.ledger.verification.replay import Findings

_FIGURES = ("profit", "contribution", "cost", "expected_profit")


def check_value_types(number: int, document: Mapping[str, Any], findings: Findings) -> None:
    rule = "values have the types that their readers count on"
    try:
        check_readable(document)
    except UNREADABLE as error:
        if all(found.entry != number for found in findings.all()):  # else it is reported already
            findings.add(number, rule, "an entry that other commands can read", f"{type(error).__name__}: {error}")
        return
    if document["kind"] != "round":
        return
    for row in document["body"]["inputs"]:
        for name in _FIGURES:
            value = row.get(name)
            if value is not None and not (type(value) in (int, float) and math.isfinite(value)):
                findings.add(number, rule, f"a number as {name} of {row['client']}", repr(value))
        if row.get("further") == {}:
            rule_of_further = "further figures are stated only where there are any"
            findings.add(number, rule_of_further, f"no word of them for {row['client']}", "an empty object")
        for name, value in row.get("further", {}).items():
            if not (type(value) in (int, float) and math.isfinite(value)):
                findings.add(number, rule, f"a number as {name} of {row['client']}", repr(value))
        count = row.get("sample_count")
        if count is not None and (type(count) is not int or count < 0):
            findings.add(number, rule, f"a whole number as sample_count of {row['client']}", repr(count))
