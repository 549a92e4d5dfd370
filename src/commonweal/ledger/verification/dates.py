"""Check that entries are dated, and that dates do not go back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.ledger.entries import moment_of, time_text
from commonweal.ledger.order import CLOCK_SKEW
from commonweal.ledger.verification.replay import LedgerReplay


def check_date(number: int, document: Mapping[str, Any], replay: LedgerReplay) -> None:
    """A small step back is a note: two machines may have written in turn, and their clocks differ."""
    written, latest = document.get("at"), replay.state.latest
    moment = moment_of(written)
    if moment is None:
        found = "no date" if "at" not in document else repr(written)
        replay.findings.add(number, "entries are dated", "a date like 2026-12-31T23:59:59.000000Z", found)
    elif latest is not None and moment < latest:
        noticed = replay.notes if latest - moment <= CLOCK_SKEW else replay.findings
        noticed.add(number, "dates do not go back", f"{time_text(latest)} or later", str(written))
    if moment is not None and moment > replay.now + CLOCK_SKEW:
        replay.notes.add(number, "dates are not in the future", f"{time_text(replay.now)} or before", str(written))
