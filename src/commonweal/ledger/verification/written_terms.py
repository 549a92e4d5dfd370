"""Check that terms are written as commonweal writes them: what people read in an entry is then what programs read."""

from __future__ import annotations

from typing import Any

from commonweal.ledger.terms import Terms
from commonweal.ledger.verification.replay import LedgerReplay
from commonweal.task.metrics import METRICS


def terms_as_written(number: int, document: Any, replay: LedgerReplay) -> Terms:
    """The terms in an entry. Python's own errors if they cannot be read.

    Python also reads "1_000" and true as numbers, takes defaults for fields that are left out, and passes over some
    that it does not know. Members sign the terms as commonweal writes them, so nothing else shows what they agreed to.
    """
    terms = Terms.from_document(document)
    replay.findings.compare(number, "terms are written in one way only", dict(terms.to_document()), document)
    metric = None if terms.agreed is None else terms.agreed.metric
    before = replay.state.terms
    was = None if before is None or before.agreed is None else before.agreed.metric
    if metric is not None and metric not in METRICS and metric != was:
        found = f"{metric!a}: nothing here knows its bounds, or whether it is better if it is higher"
        replay.notes.add(number, "figures are measured by a built-in metric", "one of them", found)
    return terms
