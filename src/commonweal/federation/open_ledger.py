"""Open an existing ledger, to read and verify it from a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from commonweal.decision.mechanisms.own_file import mechanism_file
from commonweal.ledger.canonical import parse
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.sql.store import SqlStore, open_store
from commonweal.ledger.terms import Terms
from commonweal.ledger.verification.recompute import recompute_with
from commonweal.ledger.verification.verify import Verification, verify_ledger
from commonweal.report.text import counted


@dataclass(frozen=True, slots=True)
class LedgerReader:
    """Reads a ledger: `terms`, `balances`, `entries()`, `verify()`."""

    _store: SqlStore
    _ledger: Ledger

    @property
    def terms(self) -> Terms:
        """The terms in force: currency, worth of a unit of utility, decimals, and the agreed rules."""
        return self._ledger.terms

    @property
    def balances(self) -> dict[str, Decimal]:
        """The balance of each account, in the ledger's currency. They sum to zero."""
        scale = -self.terms.minor_digits
        return {account: Decimal(amount).scaleb(scale) for account, amount in self._ledger.state.balances.items()}

    def entries(self) -> Iterator[dict[str, Any]]:
        """The entries in order, each as the document that was signed."""
        with self._store.reading() as reading:
            for stored in reading.entries():
                yield parse(stored.content) or {}

    def verify(self, mechanisms: Iterable[str | Path] = ()) -> Verification:
        """Check the chain, signatures and balances, and recompute every decision.

        `findings` lists what is wrong, `notes` what is odd but allowed. `mechanisms` are files by which rounds were
        decided; a file is run only if a round names its hash.
        """
        files = [mechanism_file(Path(file)) for file in mechanisms]
        return verify_ledger(self._store, recompute_with(files))

    def __repr__(self) -> str:
        state = self._ledger.state
        return (
            f"<Ledger {self.terms.name!r}: {counted(state.number, 'entry', 'entries')}, "
            f"{counted(len(state.rounds), 'settled round')}, {counted(len(state.members), 'member')}>"
        )


@contextmanager
def open_ledger(location: str) -> Iterator[LedgerReader]:
    """An existing ledger, open for reading within a `with` block."""
    store = open_store(location)
    try:
        yield LedgerReader(store, Ledger(store, None))
    finally:
        store.close()
