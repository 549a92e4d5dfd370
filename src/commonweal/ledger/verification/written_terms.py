"""Check that terms are written as commonweal writes them: what people read in an entry is then what programs read."""

from __future__ import annotations

from typing import Any

from commonweal.ledger.terms import Terms
from commonweal.ledger.verification.replay import Findings


def terms_as_written(number: int, document: Any, findings: Findings) -> Terms:
    """The terms in an entry. Python's own errors if they cannot be read.

    Python also reads "1_000" and true as numbers, takes defaults for fields that are left out, and passes over some
    that it does not know. Members sign the terms as commonweal writes them, so nothing else shows what they agreed to.
    """
    terms = Terms.from_document(document)
    findings.compare(number, "terms are written in one way only", dict(terms.to_document()), document)
    return terms
