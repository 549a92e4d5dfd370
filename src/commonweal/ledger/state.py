"""The state of a ledger after some of its entries: what the next entry must fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from commonweal.ledger.entries import BEFORE_THE_FIRST, accrued_account, client_account, moment_of, postings_of
from commonweal.ledger.fates import is_finished
from commonweal.ledger.late_reports import Play
from commonweal.ledger.money import in_proportion, rounded_off
from commonweal.ledger.silence import silent_in
from commonweal.ledger.terms import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Realised:
    """Income that was divided under a reference."""

    entry: int
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsSince:
    """Terms and the first round that they are in force for."""

    first_round: int  # 0: from the beginning
    terms: Terms
    hash: str


@dataclass(slots=True)
class LedgerState:
    """The result of applying a ledger's entries in order."""

    number: int = 0  # of the last entry
    head: str = BEFORE_THE_FIRST  # its hash
    latest: datetime | None = None  # the latest date of an entry
    identity: str = ""  # the hash of the first entry
    terms: Terms | None = None  # in force for new rounds
    terms_since: list[TermsSince] = field(default_factory=list)  # in order
    stated_terms: set[str] = field(default_factory=set)  # hashes of all terms so far
    amendment_count: int = 0
    operator: str = ""  # the public key that signs the next entry
    members: dict[str, str | None] = field(default_factory=dict)  # with their public keys
    first_rounds: dict[str, int] = field(default_factory=dict)  # client → the first round after its admission
    rounds: dict[int, int] = field(default_factory=dict)  # settled and not reversed: round → entry
    undone: dict[int, int] = field(default_factory=dict)  # reversed and not settled again: round → entry settled before
    took_part: dict[int, frozenset[str]] = field(default_factory=dict)  # by round
    eliminated: dict[str, int] = field(default_factory=dict)  # client → round
    retained: dict[int, tuple[str, ...]] = field(default_factory=dict)  # by round
    silences: dict[str, list[int]] = field(default_factory=dict)  # client → rounds whose model it had, not reported
    late_reports: dict[str, dict[int, int]] = field(default_factory=dict)  # client → round → entry
    plays: dict[int, Play] = field(default_factory=dict)  # by round: its last settlement
    not_silent: dict[int, set[str]] = field(default_factory=dict)  # by round: reported or absent in any settlement
    called_silent: dict[int, set[str]] = field(default_factory=dict)  # by round: silent in any settlement
    charges: dict[int, tuple[str, int]] = field(default_factory=dict)  # not reversed: entry → client, round
    uncharged: dict[tuple[str, int], int] = field(default_factory=dict)  # client, round → reversal of a charge
    excluded: dict[str, int] = field(default_factory=dict)  # client → the last round that it was silent in
    exclusions: dict[int, str] = field(default_factory=dict)  # not reversed: entry → client
    finished: set[int] = field(default_factory=set)  # the rounds that ended the federation
    withdrawn: dict[str, int] = field(default_factory=dict)  # client → the last round it takes part in
    withdrawals: dict[str, int] = field(default_factory=dict)  # client → entry
    references: dict[str, Realised] = field(default_factory=dict)
    divided_by: dict[tuple[int, int], int] = field(default_factory=dict)
    """Entry of an income, round → the entry by whose payoffs of the round it was divided, and which was reversed since.

    Only incomes that were not reversed before.
    """
    rounded_off: dict[int, dict[str, int]] = field(default_factory=dict)  # by income that is not reversed: its entry
    reversals: dict[int, int] = field(default_factory=dict)  # reversed entry → the one that reversed it
    balances: Counter[str] = field(default_factory=Counter)  # by account

    def apply(self, document: Mapping[str, Any], digest: str) -> None:
        """Apply the next entry."""
        number, kind, body = document["number"], document["kind"], document["body"]
        if kind == "opening":
            self.identity, self.operator = digest, body["operator"]
            self._agree(Terms.from_document(body["terms"]), first_round=0)
        elif kind == "terms":
            self._agree(Terms.from_document(body["terms"]), first_round=0)
        elif kind == "amendment":
            self._agree(Terms.from_document(body["terms"]), first_round=body["first_round"])
            self.amendment_count += 1
            self.members |= {member["client"]: member["key"] for member in body["members"]}
        elif kind == "admission":
            self.members |= {member["client"]: member["key"] for member in body["members"]}
        elif kind == "round":
            settled = body["round"]
            self.rounds[settled] = number
            self.undone.pop(settled, None)
            self.took_part[settled] = frozenset(row["client"] for row in body["inputs"])
            self.eliminated |= dict.fromkeys(body["decision"]["eliminated"], settled)
            self.retained[settled] = tuple(body["decision"]["retained"])
            self.plays[settled] = Play.of(body, digest)
            listed = {*self.took_part[settled], *body["absent"]}
            self.not_silent.setdefault(settled, set()).update(listed.difference(silent_in(body)))
            self.called_silent.setdefault(settled, set()).update(silent_in(body))
            for client in silent_in(body):
                self.silences.setdefault(client, []).append(settled)
            if is_finished(body):
                self.finished.add(settled)
        elif kind == "realisation":
            self.references[body["reference"]] = Realised(entry=number, amount=int(body["amount"]))
            if weights := self.weights():
                received = Counter[str]()
                for posting in postings_of(document):
                    received[posting.account] += posting.amount
                parts = {client: received[client_account(client)] for client in weights}
                self.rounded_off[number] = rounded_off(int(body["amount"]), weights, parts)
        elif kind == "reversal":
            self.reversals[body["entry"]] = number
            for undone in [settled for settled, entry in self.rounds.items() if entry == body["entry"]]:
                for income in self._incomes_since(body["entry"]):
                    self.divided_by.setdefault((income, undone), body["entry"])
                del self.rounds[undone], self.took_part[undone], self.retained[undone]
                self.undone[undone] = body["entry"]
                self.eliminated = {client: left for client, left in self.eliminated.items() if left != undone}
                self.finished.discard(undone)
                for rounds in self.silences.values():
                    rounds[:] = [silent for silent in rounds if silent != undone]
            if body["entry"] in self.charges:
                self.uncharged[self.charges.pop(body["entry"])] = number
            self.rounded_off.pop(body["entry"], None)
            if body["entry"] in self.exclusions:
                del self.excluded[self.exclusions.pop(body["entry"])]
        elif kind == "late-report":
            self.late_reports.setdefault(body["client"], {})[body["round"]] = number
        elif kind == "charge":
            self.charges[number] = (body["client"], body["round"])
        elif kind == "exclusion":
            self.excluded[body["client"]], self.exclusions[number] = max(body["rounds"]), body["client"]
        elif kind == "withdrawal":
            self.withdrawn[body["client"]], self.withdrawals[body["client"]] = body["round"], number
        elif kind == "key-rotation":
            self.operator = body["operator"]
        if kind in ("admission", "amendment"):
            for client in self.members:
                self.first_rounds.setdefault(client, self.last_round + 1)
        moment = moment_of(document.get("at"))
        if moment is not None:
            self.latest = moment if self.latest is None else max(self.latest, moment)
        for posting in postings_of(document):
            self.balances[posting.account] += posting.amount
        self.number, self.head = number, digest

    @property
    def terms_hash(self) -> str:
        """The hash of the terms in force for the next round."""
        return self.terms_of(self.next_round).hash

    @property
    def has_rules(self) -> bool:
        """Whether the terms state the agreed rules."""
        return self.terms is not None and self.terms.agreed is not None

    @property
    def ever_settled(self) -> Collection[int]:
        """Rounds, reversed ones included."""
        return self.rounds.keys() | self.undone.keys()

    @property
    def last_round(self) -> int:
        """The highest that was ever settled; 0 if none was."""
        return max(self.ever_settled, default=0)

    @property
    def next_round(self) -> int:
        """The round to be settled next: the first of those that are reversed, or else a new one."""
        return min(self.undone, default=self.last_round + 1)

    def terms_of(self, round_number: int) -> TermsSince:
        """The terms in force for a round: a reversed round is settled again by the terms of its time."""
        assert self.terms_since, "the first entry states the terms"
        agreed_before = (each for each in reversed(self.terms_since) if each.first_round <= round_number)
        return next(agreed_before, self.terms_since[0])

    def gains_count(self, round_number: int) -> bool:
        """Whether profits of a round follow from gains, by agreed rates."""
        agreed = self.terms_of(round_number).terms.agreed if self.terms_since else None
        return agreed is not None and agreed.rates is not None and agreed.utility == "gain"

    def active(self, round_number: int) -> tuple[str, ...]:
        """Members that have not left before this round, in the order of admission."""
        return tuple(
            client
            for client in self.members
            if all(
                left.get(client, round_number) >= round_number
                for left in (self.eliminated, self.withdrawn, self.excluded)
            )
        )

    def divided(self, amount: int) -> dict[str, int]:
        """An income among those who accrued payoffs, which some did.

        From version 2 of settlements on, odd units even out what earlier incomes rounded off.
        """
        if self.terms is None or self.terms.settlement_version < 2:
            return in_proportion(amount, self.weights())
        carried = Counter[str]()
        for parts in self.rounded_off.values():
            carried.update(parts)
        return in_proportion(amount, self.weights(), turn=len(self.rounded_off), carried=carried)

    def listed_in(self, round_number: int) -> tuple[str, ...]:
        """Members that a round must list, with figures or as absent.

        Those who joined later are not expected in an earlier round that is settled again.
        """
        return tuple(client for client in self.active(round_number) if not self.joins_after(client, round_number))

    def joins_after(self, client: str, round_number: int) -> bool:
        """Whether a client was admitted after this round."""
        return self.first_rounds.get(client, 1) > round_number

    def realised_since(self, entry: int) -> int | None:
        """An entry after this one that divided income and was not reversed."""
        return next(self._incomes_since(entry), None)

    def _incomes_since(self, entry: int) -> Iterator[int]:
        later = (each.entry for each in self.references.values() if each.entry > entry)
        return (each for each in later if each not in self.reversals)

    def _agree(self, terms: Terms, *, first_round: int) -> None:
        if not first_round:  # stated anew before the first round
            self.terms_since.clear()
        self.terms_since.append(TermsSince(first_round=first_round, terms=terms, hash=terms.digest()))
        self.stated_terms.add(self.terms_since[-1].hash)
        self.terms = terms

    def weights(self) -> dict[str, int]:
        """The weights by which income is divided: max(accrued payoff, 0) of everyone who ever accrued."""
        accrued = {client: self.balances[accrued_account(client)] for client in self.members}
        return {client: amount for client, amount in accrued.items() if amount > 0}

    def took_part_after(self, client: str, round_number: int) -> int | None:
        """A round after this one that the client took part in."""
        later = (number for number, there in self.took_part.items() if number > round_number and client in there)
        return next(later, None)

    def is_charged(self, client: str, round_number: int) -> bool:
        """Whether a client is charged for its silence in a round."""
        return (client, round_number) in self.charges.values()

    def silent_after(self, client: str, round_number: int) -> int | None:
        """A round after this one in which the client was silent."""
        return next((number for number in self.silences.get(client, ()) if number > round_number), None)
