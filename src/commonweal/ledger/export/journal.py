"""A ledger for accountants: which amounts moved when, without the inputs of decisions. Exports are made from this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from commonweal.errors import LedgerError
from commonweal.ledger.chain import documents
from commonweal.ledger.entries import EXTERNAL, INCOME, POTENTIAL, Posting, accrued_account, client_account, postings_of
from commonweal.ledger.readable import readable
from commonweal.ledger.state import LedgerState
from commonweal.ledger.store import Store
from commonweal.ledger.terms import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """An entry in a few words, with its postings."""

    number: int
    at: str  # UTC
    day: date  # the same day, UTC
    kind: str
    round_number: int | None  # the round that was settled or reversed
    hash: str
    words: str  # what happened, without any text that a user wrote
    note: str  # text that users wrote: a reference, a reason, names
    postings: tuple[Posting, ...]

    @property
    def moved(self) -> tuple[Posting, ...]:
        return tuple(posting for posting in self.postings if posting.amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """A ledger's entries, from its opening to its head."""

    terms: Terms
    ledger: str  # its identity: the hash of its first entry
    members: tuple[str, ...]  # in the order of their admission
    entries: tuple[JournalEntry, ...]

    @property
    def balances(self) -> dict[str, int]:
        """The balances of all accounts that had postings."""
        balances: Counter[str] = Counter()
        for posting in (posting for entry in self.entries for posting in entry.moved):
            balances[posting.account] += posting.amount
        return dict(balances)

    @property
    def first_day(self) -> date:
        """The earliest day: after a clock was set back, a later entry may be dated before the opening."""
        return min(entry.day for entry in self.entries)

    @property
    def last_day(self) -> date:
        return max(entry.day for entry in self.entries)


def read_journal(store: Store) -> Journal:
    """The whole ledger; raises if it is not sound."""
    state, entries = LedgerState(), list[JournalEntry]()
    rounds: dict[int, int] = {}  # entry → round
    for document, stored in documents(store, "an export"):
        with readable(stored.number, "an export"):
            state.apply(document, stored.hash)
            entry = _entry(document, stored.hash, rounds)
        if entry.kind == "round" and entry.round_number is not None:
            rounds[entry.number] = entry.round_number
        entries.append(entry)
    if state.terms is None:
        raise LedgerError("The store has no ledger yet. Create one with: commonweal ledger init")
    return Journal(terms=state.terms, ledger=state.identity, members=tuple(state.members), entries=tuple(entries))


def client_of(account: str) -> str | None:
    """The client that an account belongs to; None for the model's accounts and that of the outside."""
    return None if account in (INCOME, POTENTIAL, EXTERNAL) else account.partition("/")[2]


def _entry(document: Mapping[str, Any], digest: str, rounds: Mapping[int, int]) -> JournalEntry:
    kind, body, postings = document["kind"], document["body"], postings_of(document)
    for posting in postings:
        _check_account(posting.account)
    words, note = _words(kind, body)
    return JournalEntry(
        number=document["number"],
        at=document["at"],
        day=date.fromisoformat(document["at"][:10]),
        kind=kind,
        round_number=body["round"] if kind == "round" else rounds.get(body["entry"]) if kind == "reversal" else None,
        hash=digest,
        words=words,
        note=note,
        postings=postings,
    )


def _words(kind: str, body: Mapping[str, Any]) -> tuple[str, str]:
    if kind == "opening":
        return "opening", body["terms"]["name"]
    if kind == "admission":
        return "admission", ", ".join(member["client"] for member in body["members"])
    if kind == "terms":
        return "agreed terms", ""
    if kind == "amendment":
        return f"amendment {int(body['amendment'])}", ", ".join(member["client"] for member in body["members"])
    if kind == "round":
        return f"round {int(body['round'])}", ""
    if kind == "realisation":
        return "income", body["reference"]
    if kind == "reversal":
        return f"reversal of entry {int(body['entry'])}", body["reason"]
    if kind == "withdrawal":
        return f"withdrawal after round {int(body['round'])}", body["client"]
    if kind == "late-report":
        return f"late report of round {int(body['round'])}", body["client"]
    if kind == "charge":
        return f"charge for silence in round {int(body['round'])}", body["client"]
    if kind == "exclusion":
        return "exclusion", body["client"]
    if kind == "key-rotation":
        return "new operator key", body["operator"]
    raise ValueError(kind)


def _check_account(account: str) -> None:
    client = client_of(account)
    if client is None:
        return
    if not client or account not in (client_account(client), accrued_account(client)):
        raise ValueError(account)
