"""The entries that members signed that they saw, beside the checkpoint: has the ledger gone back since?

A ledger that was restored from a backup can be older than the checkpoint and the members. Lost rounds are settled again
as the same entries, but other entries cannot be made again: the ledger would go on as another one than the members saw.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from commonweal.atomic_write import write_atomically
from commonweal.errors import FederationError, LedgerError, StorageError, os_reason
from commonweal.ledger.seen_heads import SignedSeenHead
from commonweal.remote.coordinator.attempts import LedgerInForce

CONFIRMED_HEADS = "confirmed-heads.json"  # among the results
_FORMAT = "commonweal.confirmed-heads/1"


class ConfirmedHeads:
    """Each member's last signed head that the ledger had when it came; in a file, if there is a path."""

    def __init__(self, ledger: LedgerInForce, identity: str, path: Path | None = None) -> None:
        self._ledger = ledger
        self._identity = identity
        self._path = path
        self._heads: dict[str, SignedSeenHead] = {}

    def restore(self) -> None:
        """Read the file; versions before this one wrote none."""
        if self._path is None or not self._path.exists():
            return
        try:
            given = json.loads(self._path.read_text())
            if given["format"] != _FORMAT or given["book"] != self._identity:
                raise ValueError("it is of another format or ledger")
            self._heads = {
                client: SignedSeenHead.from_document(document, ledger=self._identity, client=client)
                for client, document in given["heads"].items()
            }
        except OSError as error:
            raise StorageError(f"Cannot read {str(self._path)!r}: {os_reason(error)}.") from None
        except (ValueError, KeyError, TypeError, AttributeError, LedgerError) as error:
            raise StorageError(
                f"Cannot read {str(self._path)!r}: {error}. It says which entries of the ledger the members saw. "
                "Restore it, with the ledger that belongs to this results folder."
            ) from None

    def confirm(self, heads: Iterable[SignedSeenHead]) -> None:
        """Keep the heads that the ledger has; a member can sign anything."""
        fresh = {each.head.client: each for each in heads if self._ledger.hash_of(each.head.number) == each.head.hash}
        for client, before in self._heads.items():  # a head of an opening may be later than that of a statement
            if client in fresh and fresh[client].head.number < before.head.number:
                del fresh[client]
        if not fresh:
            return
        self._heads |= fresh
        if self._path is not None:
            heads_by_client = {client: dict(signed.to_document()) for client, signed in self._heads.items()}
            document = {"format": _FORMAT, "book": self._identity, "heads": heads_by_client}
            write_atomically(self._path, json.dumps(document, indent=1).encode(), what="the entries that members saw")

    def check(self) -> None:
        """Refuse to go on with a ledger that lacks an entry which members saw in it."""
        for client, signed in self._heads.items():
            number, found = signed.head.number, self._ledger.hash_of(signed.head.number)
            if found != signed.head.hash:
                raise FederationError(_gone_back(client, number, is_missing=not found))


def _gone_back(client: str, number: int, *, is_missing: bool) -> str:
    what = f"has no entry {number}" if is_missing else f"has another entry {number}"
    return (
        f"The ledger is older than what was told to members, or another one: {client} signed that it saw entry "
        f"{number}, which the ledger had then, and now the ledger {what}. It was probably restored from a backup, "
        "while the results folder and the members are newer; entries since the backup that are no rounds, such as "
        "amendments, income, charges or changes of the key, cannot be made again. Nothing was told to members now, and "
        "nobody was eliminated. Put back the newer ledger. If it is lost, the members' statements are the evidence of "
        "what was settled: agree on the balances by them, and start again with a new ledger, another results folder "
        "and new member folders."
    )
