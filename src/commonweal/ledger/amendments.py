"""Amendments: changes of a ledger's terms, and newcomers, that members sign and the operator enters.

A draft has a number, so that the signatures of one amendment fit no other, and names the first round that it is in
force for: the next one. If that round is settled before the draft is entered, the signatures no longer count.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import Document, canonical, first_difference
from commonweal.ledger.keys import Signer, fault_of_key, is_signed
from commonweal.ledger.order import NOTHING_REVERSED
from commonweal.ledger.silence import ends_by_silence
from commonweal.ledger.state import LedgerState
from commonweal.ledger.terms import Terms

AMENDMENT_FORMAT = "commonweal.amendment/2"
_ROUNDING = 1e-9  # of a quorum: two thirds of three members are two


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """What the members of a ledger sign."""

    ledger: str  # the hash of its first entry
    number: int  # 1 for the ledger's first amendment
    terms_before: str  # the hash of the terms that it changes
    terms: Terms
    first_round: int  # that it is in force for
    members: Mapping[str, str | None] = field(default_factory=dict)  # newcomers, with their public keys

    def to_document(self) -> Document:
        """Its field "book" is the ledger; names in signed messages never change."""
        return {
            "format": AMENDMENT_FORMAT,
            "book": self.ledger,
            "amendment": self.number,
            "terms_before": self.terms_before,
            "terms": self.terms.to_document(),
            "first_round": self.first_round,
            "members": [{"client": client, "key": key} for client, key in self.members.items()],
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Amendment:
        """The amendment of a draft or an entry's body. Python's own errors if it is damaged."""
        return cls(
            ledger=document["book"],
            number=document["amendment"],
            terms_before=document["terms_before"],
            terms=Terms.from_document(document["terms"]),
            first_round=document["first_round"],
            members={row["client"]: row["key"] for row in document["members"]},
        )

    def message(self, client: str) -> bytes:
        """The message that a client signs."""
        return canonical({**self.to_document(), "client": client})

    def signed(self, client: str, key: Signer) -> str:
        return key.sign(self.message(client))


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an amendment does not count."""

    rule: str
    expected: str
    found: str


def faults_of_amendment(amendment: Amendment, signatures: Mapping[str, str], state: LedgerState) -> Iterator[Fault]:
    """What is wrong with an amendment, given the state before it."""
    if amendment.ledger != state.identity:
        yield Fault("an amendment names its ledger", f"{state.identity[:16]}…", f"{str(amendment.ledger)[:16]}…")
    if amendment.number != state.amendment_count + 1:
        yield Fault("amendments are numbered", f"amendment {state.amendment_count + 1}", f"{amendment.number}")
    if amendment.terms_before != state.terms_hash:
        found = f"{str(amendment.terms_before)[:16]}…"
        yield Fault("an amendment changes the terms in force", f"{state.terms_hash[:16]}…", found)
    if state.undone:
        waiting = state.next_round
        yield Fault(NOTHING_REVERSED, f"round {waiting} settled again before", f"round {waiting} reversed")
    for client, rounds in ends_by_silence(state, state.next_round):
        found = f"{client}, silent in rounds {', '.join(map(str, rounds))}"
        yield Fault("memberships that have ended by silence are ended before an amendment", "an exclusion", found)
    if amendment.first_round != state.next_round:
        rule = "an amendment is in force from the next round on"
        yield Fault(rule, f"round {state.next_round}", f"round {amendment.first_round}")
    yield from _faults_of_content(amendment, state)
    yield from _faults_of_signatures(amendment, signatures, state)


def _faults_of_content(amendment: Amendment, state: LedgerState) -> Iterator[Fault]:
    before = state.terms
    assert before is not None, "the first entry states the terms"
    if amendment.terms.agreed is None:
        yield Fault("an amendment states the agreed rules", "rules", "none")
    difference = first_difference(
        replace(before, agreed=None).to_document(), replace(amendment.terms, agreed=None).to_document()
    )
    if difference is not None:
        yield Fault("an amendment changes only the agreed rules", f"{difference[0]} {difference[1]}", difference[2])
    if amendment.terms == before and not amendment.members:
        yield Fault("an amendment changes something", "other rules or a new member", "neither")
    for client in amendment.members:
        if client in state.members:
            yield Fault("a client is admitted only once", "new clients", f"{client} again")
    for key in amendment.members.values():
        if key is not None and (fault := fault_of_key(key)) is not None:
            yield Fault("members have keys that only they can sign with", "such a key", f"one that {fault}")


def _faults_of_signatures(amendment: Amendment, signatures: Mapping[str, str], state: LedgerState) -> Iterator[Fault]:
    signing = signing_members(state)
    keys = signing | {client: key for client, key in amendment.members.items() if key is not None}
    for client, signature in signatures.items():
        key = keys.get(client)
        if key is None or not is_signed(amendment.message(client), signature, key):
            fault = "an amendment is signed by active members and newcomers"
            yield Fault(fault, f"a signature by {client}", "another signature" if key else "no such member")
    for client in amendment.members:
        if client in keys and client not in signatures:
            yield Fault("a newcomer signs its admission", f"a signature by {client}", "no signature")
    missing = [client for client in signing if client not in signatures]
    needed = needed_count(state)
    if len(signing) - len(missing) < needed:
        found = f"{len(signing) - len(missing)}; missing: {', '.join(missing[:10])}"
        yield Fault("a quorum signs an amendment", f"signatures of {needed} of {len(signing)} active members", found)


def signing_members(state: LedgerState) -> dict[str, str]:
    """The active members that sign for themselves, with their keys; for others the operator vouches."""
    return {client: key for client in state.active(state.next_round) if (key := state.members[client]) is not None}


def needed_count(state: LedgerState) -> int:
    """How many of them must sign an amendment."""
    return needed_of(len(signing_members(state)), quorum_of(state))


def quorum_of(state: LedgerState) -> float | None:
    """By the terms in force; None: every active member signs."""
    return None if state.terms is None or state.terms.agreed is None else state.terms.agreed.quorum


def needed_of(count: int, quorum: float | None) -> int:
    """How many of so many members must sign an amendment."""
    return count if quorum is None else max(min(count, 1), math.ceil(quorum * count - _ROUNDING))


def check_amendment(amendment: Amendment, signatures: Mapping[str, str], state: LedgerState) -> None:
    """Refuse an amendment that would not count."""
    fault = next(faults_of_amendment(amendment, signatures, state), None)
    if fault is not None:
        raise LedgerError(
            f"This amendment cannot be entered: {fault.rule}; expected {fault.expected}, got {fault.found}. Draft it "
            "again if the ledger has changed since, and have it signed."
        )


def amendment_body(amendment: Amendment, signatures: Mapping[str, str]) -> Document:
    """The body of its entry."""
    body = {name: value for name, value in amendment.to_document().items() if name != "format"}
    return body | {
        "signatures": [{"client": client, "signature": signature} for client, signature in signatures.items()]
    }


def check_may_agree(state: LedgerState) -> None:
    """Refuse rules that come after the first round, or after other rules."""
    assert state.terms is not None, "the first entry states the terms"
    if state.terms.agreed is not None or state.ever_settled:
        what = "states other rules" if state.terms.agreed is not None else "has settled rounds without agreed rules"
        raise LedgerError(f"This ledger already {what}. Change them by an amendment that its members sign.")


def check_may_admit(clients: Collection[str], state: LedgerState) -> None:
    """Refuse newcomers that the members did not agree to."""
    if is_by_amendment_only(state):
        raise LedgerError(
            f"{', '.join(clients)} cannot be admitted by the operator alone: round {max(state.ever_settled)} was "
            "settled, and this ledger has agreed terms. Admit newcomers by an amendment that they and the members sign."
        )


def is_by_amendment_only(state: LedgerState) -> bool:
    """Whether newcomers need the members' signatures."""
    return state.has_rules and bool(state.ever_settled)
