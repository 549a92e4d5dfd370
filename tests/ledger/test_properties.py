"""Whatever happens to a book, in whatever order: its money sums to zero, and it says what a plain account would.

The account beside the book is kept in dictionaries and exact fractions, without the ledger's code.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from commonweal.decision.decide import decide_figures
from commonweal.errors import InputError
from commonweal.federation.rule_versions import CURRENT, recompute
from commonweal.ledger.audit import audit
from commonweal.ledger.book import Book, Receipt
from commonweal.ledger.entries import StoredEntry
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.rounds import RoundToSettle
from commonweal.ledger.sql_store import SqlStore, open_store
from commonweal.ledger.sql_tables import entries, postings
from commonweal.ledger.terms import Terms
from commonweal.records import Decision, Figures, RoundRecord, Rules

CLIENTS = ("ann", "Bob's bank", "Zoë", "dan", "eve")
CLIENT_KEYS = {client: SigningKey.from_seed(bytes([place]) * 32) for place, client in enumerate(CLIENTS[:2])}
SETTLEMENTS = ("transfers", "accruals")

Amounts = dict[str, int]  # in minor units, by the book's name of an account; nothing is 0


@dataclass(frozen=True)
class HeldRound:
    """A settled round, for the account."""

    entry: int
    content: object
    took_part: frozenset[str]
    eliminated: frozenset[str]


@dataclass
class PlainAccount:
    """What a book must say. Each verb returns the number of an entry, and None where the book must refuse."""

    terms: Terms
    members: dict[str, None] = field(default_factory=dict)  # in the order of their admission
    rounds: dict[int, HeldRound] = field(default_factory=dict)
    incomes: dict[str, tuple[int, int]] = field(default_factory=dict)  # by reference: entry, amount
    reversals: dict[int, int] = field(default_factory=dict)
    entries: list[tuple[str, Amounts]] = field(default_factory=lambda: [("opening", {})])

    @property
    def balances(self) -> Amounts:
        total: Counter[str] = Counter()
        for _, amounts in self.entries:
            for name, amount in amounts.items():
                total[name] += amount
        return without_zeros(total)

    def admit(self, clients: list[str]) -> int:
        fresh = [client for client in clients if client not in self.members]
        self.members |= dict.fromkeys(fresh)
        return self._enter("admission", {}) if fresh else len(self.entries)

    def settle(self, settled: RoundToSettle, *, signed: bool) -> int | None:
        record = settled.record
        number, decision, content = record.round_number, record.decision, content_of(settled)
        if not self._accepts_shares(decision.shares) or not signed:
            return None
        if number in self.rounds:
            return self.rounds[number].entry if self.rounds[number].content == content else None
        took_part = frozenset(decision.figures.clients)
        if not took_part | set(record.absent) <= set(self.members):
            return None
        for other_number, other in self.rounds.items():
            if other_number < number and other.eliminated & took_part:
                return None
            if other_number > number and other.took_part & set(decision.eliminated):
                return None
        entry = self._enter("round", amounts_of(decision, self.terms))
        self.rounds[number] = HeldRound(entry, content, took_part, frozenset(decision.eliminated))
        return entry

    def realise(self, amount: int, reference: str) -> int | None:
        if reference in self.incomes:
            entry, before = self.incomes[reference]
            return entry if before == amount and entry not in self.reversals else None
        balances = self.balances
        weights = {client: max(balances.get(f"accrued/{client}", 0), 0) for client in self.members}
        if not any(weights.values()):
            return None
        due = {f"clients/{c}": Fraction(amount * weight, sum(weights.values())) for c, weight in weights.items()}
        entry = self._enter("realisation", {"model-income": -amount, **divided(due, amount)})
        self.incomes[reference] = (entry, amount)
        return entry

    def reverse(self, entry: int) -> int | None:
        if entry in self.reversals:
            return self.reversals[entry]
        if not 1 <= entry <= len(self.entries):
            return None
        kind, amounts = self.entries[entry - 1]
        if kind not in ("round", "realisation"):
            return None
        self.rounds = {number: held for number, held in self.rounds.items() if held.entry != entry}
        self.reversals[entry] = self._enter("reversal", {name: -amount for name, amount in amounts.items()})
        return self.reversals[entry]

    def rotate_key(self) -> int:
        return self._enter("key-rotation", {})

    def _accepts_shares(self, shares: Mapping[str, float]) -> bool:
        if self.terms.largest_share is None:
            return all(-1e-12 <= share <= 1 + 1e-12 for share in shares.values())
        return all(abs(share) <= self.terms.largest_share for share in shares.values())

    def _enter(self, kind: str, amounts: Mapping[str, int]) -> int:
        self.entries.append((kind, without_zeros(amounts)))
        return len(self.entries)


def amounts_of(decision: Decision, terms: Terms) -> Amounts:
    if terms.settlement == "transfers":
        due = {f"clients/{client}": Fraction(t) * terms.worth for client, t in decision.transfers.items()}
        return divided(due, 0)
    due = {f"accrued/{client}": Fraction(p) * terms.worth for client, p in decision.payoffs.items()}
    budget = math.floor(sum(due.values()) + Fraction(1, 2))
    return {**divided(due, budget), "model-potential": -budget}


def divided(due: Mapping[str, Fraction], total: int) -> Amounts:
    """Floors; then units are given to the largest remainders in turn, or taken from the smallest, until all are."""
    parts = {name: math.floor(amount) for name, amount in due.items()}
    by_remainder = sorted(due, key=lambda name: parts[name] - due[name])
    missing = total - sum(parts.values())
    turn = by_remainder if missing > 0 else by_remainder[::-1]
    for step in range(abs(missing)):
        parts[turn[step % len(turn)]] += 1 if missing > 0 else -1
    return parts


def without_zeros(amounts: Mapping[str, int]) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount}


def content_of(settled: RoundToSettle) -> object:
    """What makes two rounds the same. A cost that the rules do not look at is nobody's business."""
    decision = settled.record.decision
    figures, rules = decision.figures, decision.rules
    costs = figures.costs if rules.loss_rule == "cost" else None
    rows = [(c, figures.profits[c], figures.contributions[c], costs and costs[c]) for c in figures.clients]
    return settled.record.round_number, rules, decision.grace, settled.record.absent, rows, settled.sample_counts


def check_book(store: SqlStore, account: PlainAccount, known: list[StoredEntry]) -> list[StoredEntry]:
    """The chain from its first entry on, every sum, and a freshly opened book against the account.

    `known` are the entries as they were seen before; returned are those of now.
    """
    with store.reading() as reading:
        stored, rows = list(reading.entries()), list(reading.postings())
    assert stored[: len(known)] == known, "what was entered has changed"
    assert len(stored) == len(account.entries)
    previous, operator = "0" * 64, ""
    for number, (entry, (kind, amounts)) in enumerate(zip(stored, account.entries, strict=True), start=1):
        document = json.loads(entry.content)
        assert entry.number == document["number"] == number
        assert document["previous"] == previous
        assert document["kind"] == kind
        assert entry.hash == hashlib.sha256(entry.content.encode()).hexdigest()
        if number > len(known):
            check_signature(entry, document["body"].get("operator") if number == 1 else operator)
        posted = [(row.posting.account, row.posting.amount) for row in rows if row.entry == number]
        assert [[name, str(amount)] for name, amount in posted] == document["postings"]
        assert sum(amount for _, amount in posted) == 0
        assert without_zeros(dict(posted)) == amounts
        assert len(dict(posted)) == len(posted), "an account is posted to once in an entry"
        previous, operator = entry.hash, document["body"].get("operator", operator)
    book = Book(store, None)
    assert without_zeros(book.state.balances) == account.balances
    assert sum(book.state.balances.values()) == 0
    assert book.state.head == previous
    assert book.state.rounds == {number: held.entry for number, held in account.rounds.items()}
    return stored


def check_signature(entry: StoredEntry, operator: str) -> None:
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(operator))
    public.verify(bytes.fromhex(entry.signature), f"commonweal.entry/1 {entry.hash}".encode())


def clock() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


def settle_round(number: int, decision: Decision, book: str, **details: Any) -> RoundToSettle:
    """With the signatures of those who have keys."""
    unsigned = RoundToSettle(
        record=RoundRecord(round_number=number, decision=decision, absent=details.pop("absent", ())),
        rules_version=CURRENT,
        **details,
    )
    signatures = {
        client: unsigned.report(book, client).signed(CLIENT_KEYS[client])
        for client in decision.figures.clients
        if client in CLIENT_KEYS
    }
    return RoundToSettle(record=unsigned.record, rules_version=CURRENT, signatures=signatures, **details)


figures = (st.floats(-1000, 1000) | st.sampled_from([-1.0, 0.0, 0.5, 1.0])).filter(lambda x: not 0 < abs(x) < 1e-50)
all_rules = st.builds(
    Rules,
    mu=st.sampled_from([0.0, 0.5, 100.0, math.inf]),
    contribution_rule=st.sampled_from(["clip", "clip", "raw"]),
    loss_rule=st.sampled_from(["contribution", "equal", "cost"]),
    liability_cap=st.sampled_from([None, None, 0.0, 10.0]),
)


@st.composite
def decided_rounds(draw: st.DrawFn) -> tuple[Decision, tuple[str, ...], dict[str, int]]:
    """A decision, who was absent, and declared numbers of samples."""
    present = draw(st.lists(st.sampled_from(CLIENTS), min_size=1, unique=True))
    absent = draw(st.lists(st.sampled_from(CLIENTS), max_size=2, unique=True).map(tuple))
    given = Figures(
        profits={client: draw(figures) for client in present},
        contributions={client: draw(figures) for client in present},
        costs={client: abs(draw(figures)) for client in present},
    )
    counts = {client: draw(st.integers(0, 100)) for client in present[::2]}
    return decide_figures(given, draw(all_rules), grace=draw(st.booleans())), absent, counts


handles = st.integers(0, 1)
round_numbers = st.integers(1, 4)


class BookMachine(RuleBasedStateMachine):
    """Two who keep one book, each with a handle of his own, and the account beside it."""

    def __init__(self, stores: list[SqlStore], new_folder: Callable[[], Path], seen: Counter[str]) -> None:
        super().__init__()
        self.stores, self.keys, self.seen = stores, KeyDirectory(new_folder()), seen

    @initialize(
        settlement=st.sampled_from(SETTLEMENTS),
        worth=st.sampled_from([1, 7, 100_000, 10**9]),
        largest_share=st.sampled_from([None, 3.0, 1e6]),
    )
    def open(self, settlement, worth, largest_share):
        with self.stores[0].engine.begin() as connection:
            connection.execute(postings.delete())
            connection.execute(entries.delete())
        terms = Terms(name="five banks", settlement=settlement, worth=worth, largest_share=largest_share)
        first = Book.start(self.stores[0], terms, self.keys, clock=clock)
        self.books = [first, Book(self.stores[1], self.keys, clock=clock)]
        self.account, self.settled = PlainAccount(terms), {}
        self.known = check_book(self.stores[1], self.account, [])
        self.admit(0, list(CLIENTS[:4]))

    @rule(handle=handles, clients=st.lists(st.sampled_from(CLIENTS), min_size=1, unique=True))
    def admit(self, handle, clients):
        keys = {client: CLIENT_KEYS[client].public if client in CLIENT_KEYS else None for client in clients}
        self._expect("admit", lambda: self.books[handle].admit(keys), self.account.admit(clients))

    @rule(handle=handles, number=round_numbers, decided=decided_rounds())
    def settle(self, handle, number, decided):
        decision, absent, counts = decided
        settled = settle_round(number, decision, self.books[handle].identity, absent=absent, sample_counts=counts)
        expected = self.account.settle(settled, signed=True)
        self._expect("settle", lambda: self.books[handle].settle(settled), expected)
        if expected is not None:
            self.settled[number] = settled

    @rule(handle=handles, number=round_numbers)
    def settle_again(self, handle, number):
        if number in self.account.rounds:
            settled = self.settled[number]
            expected = self.account.settle(settled, signed=True)
            self._expect("settle again", lambda: self.books[handle].settle(settled), expected)

    @rule(handle=handles, number=round_numbers, decided=decided_rounds(), missing=st.booleans())
    def settle_what_somebody_did_not_sign(self, handle, number, decided, missing):
        decision, _, counts = decided
        settled = settle_round(number, decision, self.books[handle].identity, sample_counts=counts)
        if settled.signatures:
            forged = {} if missing else dict.fromkeys(settled.signatures, "00" * 64)
            other = RoundToSettle(record=settled.record, rules_version=CURRENT, signatures=forged, sample_counts=counts)
            self._expect("forge", lambda: self.books[handle].settle(other), self.account.settle(other, signed=False))

    @rule(handle=handles, entry=st.integers(1, 30))
    def reverse(self, handle, entry):
        self._expect("reverse", lambda: self.books[handle].reverse(entry, "an error"), self.account.reverse(entry))

    @rule(handle=handles, number=round_numbers)
    def reverse_round(self, handle, number):
        held = self.account.rounds.get(number)
        expected = self.account.reverse(held.entry) if held else None
        self._expect("reverse", lambda: self.books[handle].reverse_round(number, "an error"), expected)

    @rule(
        handle=handles,
        amount=st.integers(1, 5) | st.integers(1, 10**15) | st.just(1000),
        reference=st.sampled_from(["invoice 1", "invoice 2", "Σ 3"]),
    )
    def realise(self, handle, amount, reference):
        expected = self.account.realise(amount, reference)
        self._expect("realise", lambda: self.books[handle].realise(amount, reference), expected)

    @rule(handle=handles)
    def rotate_key(self, handle):
        self._expect("rotate", self.books[handle].rotate_key, self.account.rotate_key())

    @invariant()
    def book_and_account_agree(self):
        self.known = check_book(self.stores[1], self.account, self.known)

    def teardown(self):
        if hasattr(self, "account"):
            assert audit(self.stores[0], recompute).findings == ()

    def _expect(self, what: str, act: Callable[[], Receipt], entry: int | None) -> None:
        """The entry that the account has just made is fresh; an older one is told of; without one it is a refusal."""
        fresh = len(self.account.entries) == len(self.known) + 1
        if entry is None:
            with pytest.raises(InputError):
                act()
        else:
            receipt = act()
            assert receipt == Receipt(entry=entry, fresh=fresh)
        self.seen[f"{what}: {'refused' if entry is None else 'fresh' if fresh else 'known'}"] += 1


def test_a_book_says_what_a_plain_account_would(new_location, tmp_path):
    location = new_location()
    example_count = 15 if location.startswith("postgresql") else 40
    seen: Counter[str] = Counter()
    numbers = count()
    with closing(open_store(location, create=True)) as one, closing(open_store(location)) as other:
        run_state_machine_as_test(
            lambda: BookMachine([one, other], lambda: tmp_path / str(next(numbers)), seen),
            settings=settings(
                max_examples=example_count,
                stateful_step_count=20,
                deadline=None,
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
            ),
        )
    print(seen)
