"""The state of a ledger after some of its entries: what the next entry must fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from commonweal.ledger.entries import BEFORE_THE_FIRST, accrued_account, postings_of
from commonweal.ledger.fates import is_finished
from commonweal.ledger.terms import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Realised:
    """Income that was divided under a reference."""

    entry: int
    amount: int


@dataclass(slots=True)
class LedgerState:
    """The result of applying a ledger's entries in order."""

    number: int = 0  # of the last entry
    head: str = BEFORE_THE_FIRST  # its hash
    identity: str = ""  # the hash of the first entry
    terms: Terms | None = None
    operator: str = ""  # the public key that signs the next entry
    members: dict[str, str | None] = field(default_factory=dict)  # with their public keys
    rounds: dict[int, int] = field(default_factory=dict)  # settled and not reversed: round → entry
    took_part: dict[int, frozenset[str]] = field(default_factory=dict)  # by round
    eliminated: dict[str, int] = field(default_factory=dict)  # client → round
    finished: set[int] = field(default_factory=set)  # the rounds that ended the federation
    withdrawn: dict[str, int] = field(default_factory=dict)  # client → the last round it takes part in
    withdrawals: dict[str, int] = field(default_factory=dict)  # client → entry
    references: dict[str, Realised] = field(default_factory=dict)
    reversals: dict[int, int] = field(default_factory=dict)  # reversed entry → the one that reversed it
    balances: Counter[str] = field(default_factory=Counter)  # by account

    def apply(self, document: Mapping[str, Any], digest: str) -> None:
        """Apply the next entry."""
        number, kind, body = document["number"], document["kind"], document["body"]
        if kind == "opening":
            self.identity, self.terms, self.operator = digest, Terms.from_document(body["terms"]), body["operator"]
        elif kind == "admission":
            self.members |= {member["client"]: member["key"] for member in body["members"]}
        elif kind == "round":
            settled = body["round"]
            self.rounds[settled] = number
            self.took_part[settled] = frozenset(row["client"] for row in body["inputs"])
            self.eliminated |= dict.fromkeys(body["decision"]["eliminated"], settled)
            if is_finished(body):
                self.finished.add(settled)
        elif kind == "realisation":
            self.references[body["reference"]] = Realised(entry=number, amount=int(body["amount"]))
        elif kind == "reversal":
            self.reversals[body["entry"]] = number
            for undone in [settled for settled, entry in self.rounds.items() if entry == body["entry"]]:
                del self.rounds[undone], self.took_part[undone]
                self.eliminated = {client: left for client, left in self.eliminated.items() if left != undone}
                self.finished.discard(undone)
        elif kind == "withdrawal":
            self.withdrawn[body["client"]], self.withdrawals[body["client"]] = body["round"], number
        elif kind == "key-rotation":
            self.operator = body["operator"]
        for posting in postings_of(document):
            self.balances[posting.account] += posting.amount
        self.number, self.head = number, digest

    @property
    def terms_hash(self) -> str:
        """The hash of the terms in force."""
        assert self.terms is not None, "the first entry states the terms"
        return self.terms.digest()

    def weights(self) -> dict[str, int]:
        """The weights by which income is divided: max(accrued payoff, 0) of everyone who ever accrued."""
        accrued = {client: self.balances[accrued_account(client)] for client in self.members}
        return {client: amount for client, amount in accrued.items() if amount > 0}

    def took_part_after(self, client: str, round_number: int) -> int | None:
        """A round after this one that the client took part in."""
        later = (number for number, there in self.took_part.items() if number > round_number and client in there)
        return next(later, None)
