"""Whatever happens to a ledger, in whatever order, its money sums to zero and it agrees with a plain account.

The plain account is kept in dictionaries and exact fractions, without the ledger's code.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from commonweal.decision.decide import decide_figures
from commonweal.decision.mechanisms.paper import Paper
from commonweal.errors import CommonwealError, InputError
from commonweal.ledger.entries import StoredEntry
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import Signer, SigningKey
from commonweal.ledger.ledger import Ledger, Receipt
from commonweal.ledger.member_documents import WithdrawalNotice
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.rounds import RoundToSettle
from commonweal.ledger.sql.store import SqlStore, open_store
from commonweal.ledger.sql.tables import entries, postings
from commonweal.ledger.terms import Terms
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.records import Decision, Figures, RoundRecord, Rules

CLIENTS = ("ann", "Bob's bank", "Zoë", "dan", "eve")
CLIENT_KEYS: dict[str, Signer] = {
    CLIENTS[0]: SigningKey.from_seed(b"0" * 32),
    CLIENTS[1]: NodeKey(ec.derive_private_key(4711, ec.SECP384R1())),
}
SETTLEMENTS = ("transfers", "accruals")
IS_SOAK = os.environ.get("COMMONWEAL_TESTS") == "soak"
EXAMPLE_COUNTS = {
    (False, "sqlite"): 25,
    (False, "postgresql"): 3,
    (True, "sqlite"): 300,
    (True, "postgresql"): 60,
}

Amounts = dict[str, int]  # in minor units, by account; zero amounts are left out


@dataclass(frozen=True)
class SettledRound:
    """A settled round, for the account."""

    entry: int
    content: object
    took_part: frozenset[str]
    eliminated: frozenset[str]


@dataclass
class PlainAccount:
    """What a ledger must say. Each method returns the number of an entry, or None if the ledger must refuse."""

    terms: Terms
    members: dict[str, None] = field(default_factory=dict)  # in the order of their admission
    rounds: dict[int, SettledRound] = field(default_factory=dict)
    incomes: dict[str, tuple[int, int]] = field(default_factory=dict)  # by reference: entry, amount
    reversals: dict[int, int] = field(default_factory=dict)
    settlements: dict[int, list[tuple[int, RoundToSettle]]] = field(default_factory=dict)  # by round: entry, round
    first_rounds: dict[str, int] = field(default_factory=dict)  # by client: the first round after its admission
    withdrawals: dict[str, tuple[int, int]] = field(default_factory=dict)  # by client: entry, last round
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
        self.first_rounds |= dict.fromkeys(fresh, max(self.settlements, default=0) + 1)
        return self._enter("admission", {}) if fresh else len(self.entries)

    def settle(self, settled: RoundToSettle, *, signed: bool) -> int | None:
        record = settled.record
        number, decision, content = record.round_number, record.decision, content_of(settled)
        if not self._accepts_shares(decision.shares) or not signed:
            return None
        if number in self.rounds:
            return self.rounds[number].entry if self.rounds[number].content == content else None
        took_part = frozenset(decision.figures.clients)
        if not took_part | set(record.absent) <= set(self.members) or took_part & set(record.absent):
            return None
        if any(client in took_part and last < number for client, (_, last) in self.withdrawals.items()):
            return None
        if self.expected_in(number) - took_part - set(record.absent):
            return None
        if number in self.waiting() and self._income_since(self.reversals[self.settlements[number][-1][0]]):
            return None
        if any(is_other_under_the_same_signatures(before, settled) for _, before in self.settlements.get(number, [])):
            return None
        for other_number, other in self.rounds.items():
            if other_number < number and other.eliminated & took_part:
                return None
            if other_number > number and other.took_part & set(decision.eliminated):
                return None
        entry = self._enter("round", amounts_of(decision, self.terms))
        self.rounds[number] = SettledRound(entry, content, took_part, frozenset(decision.eliminated))
        self.settlements.setdefault(number, []).append((entry, settled))
        return entry

    def expected_in(self, number: int) -> set[str]:
        """The members that a round must list."""
        gone = [held.eliminated for other, held in self.rounds.items() if other < number]
        gone += [{client} for client, (_, last) in self.withdrawals.items() if last < number]
        joined = {client for client, first in self.first_rounds.items() if first <= number}
        return joined.difference(*gone)

    def waiting(self) -> set[int]:
        """Rounds that were reversed and not settled again."""
        return set(self.settlements) - set(self.rounds)

    def _income_since(self, since: int) -> bool:
        return any(entry > since and entry not in self.reversals for entry, _ in self.incomes.values())

    @property
    def may_divide(self) -> bool:
        accrued = (amount for account, amount in self.balances.items() if account.startswith("accrued/"))
        return not self.waiting() and any(amount > 0 for amount in accrued)

    def realise(self, amount: int, reference: str) -> int | None:
        if reference in self.incomes:
            entry, before = self.incomes[reference]
            return entry if before == amount and entry not in self.reversals else None
        if self.waiting():
            return None
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

    def withdraw(self, client: str, last: int, *, signed: bool) -> int | None:
        if client not in self.members or not signed:
            return None
        if client in self.withdrawals:
            entry, before = self.withdrawals[client]
            return entry if before == last else None
        for number, held in self.rounds.items():
            if client in held.eliminated or (number > last and client in held.took_part):
                return None
        self.withdrawals[client] = (self._enter("withdrawal", {}), last)
        return self.withdrawals[client][0]

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
    """Rounded down; then units go to the largest remainders, or come from the smallest, until the sum is right."""
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
    """What makes two rounds the same. Costs do not count unless the rules use them."""
    decision = settled.record.decision
    figures, rules = decision.figures, decision.rules
    costs = figures.costs if rules.loss_rule == "cost" else None
    rows = [(c, figures.profits[c], figures.contributions[c], costs and costs[c]) for c in figures.clients]
    return settled.record.round_number, rules, decision.grace, settled.record.absent, rows, settled.sample_counts


def is_other_under_the_same_signatures(before: RoundToSettle, now: RoundToSettle) -> bool:
    """Whether rules changed that somebody signed a report under, or contributions without any new report."""
    decisions = before.record.decision, now.record.decision
    reports = [{c: settled.report("", c) for c in settled.signatures} for settled in (before, now)]
    rules = [(decision.rules, decision.grace) for decision in decisions]
    if rules[0] != rules[1]:
        return any(reports[0].get(client) == report for client, report in reports[1].items())
    contributions = [dict(decision.figures.contributions) for decision in decisions]
    listed = {*contributions[0], *before.record.absent}
    if not any(reports[0].get(client) == report for client, report in reports[1].items()):
        return False
    if any(reports[0].get(client) != reports[1].get(client) for client in listed):
        return False
    return listed & set(contributions[1]) == set(contributions[0]) and contributions[0] != contributions[1]


def check_ledger(store: SqlStore, account: PlainAccount, known: list[StoredEntry]) -> list[StoredEntry]:
    """Check the chain from its first entry on, every sum, and a newly opened ledger against the account.

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
    ledger = Ledger(store, None)
    assert without_zeros(ledger.state.balances) == account.balances
    assert sum(ledger.state.balances.values()) == 0
    assert ledger.state.head == previous
    assert ledger.state.rounds == {number: held.entry for number, held in account.rounds.items()}
    return stored


def check_signature(entry: StoredEntry, operator: str) -> None:
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(operator))
    public.verify(bytes.fromhex(entry.signature), f"commonweal.entry/1 {entry.hash}".encode())


def clock() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


def signed_round(number: int, decision: Decision, ledger: str, *, absent: tuple[str, ...] = (), **more: Any) -> Any:
    """A round with the signatures of those who have keys."""
    record = RoundRecord(round_number=number, decision=decision, absent=absent)
    unsigned = RoundToSettle(record=record, rules_version=Paper.version, **more)
    signing = [client for client in decision.figures.clients if client in CLIENT_KEYS]
    signatures = {client: unsigned.report(ledger, client).signed(CLIENT_KEYS[client]) for client in signing}
    return replace(unsigned, signatures=signatures)


figures = (st.floats(-1000, 1000) | st.sampled_from([-1.0, 0.0, 0.5, 1.0])).filter(lambda x: not 0 < abs(x) < 1e-50)
all_rules = st.builds(
    Rules,
    mu=st.sampled_from([0.0, 0.0, 0.5, math.inf]),
    contribution_rule=st.sampled_from(["clip", "clip", "raw"]),
    loss_rule=st.sampled_from(["contribution", "equal", "cost", "loss"]),
    liability_cap=st.sampled_from([None, None, 0.0, 10.0]),
)


@st.composite
def decided_rounds(draw: st.DrawFn, clients: Sequence[str]) -> tuple[Decision, tuple[str, ...], dict[str, int]]:
    """A decision, absent clients, and reported sample counts."""
    present = draw(st.lists(st.sampled_from(clients), min_size=1, unique=True))
    others = [client for client in clients if client not in present]
    given = Figures(
        profits={client: draw(figures) for client in present},
        contributions={client: draw(figures) for client in present},
        costs={client: abs(draw(figures)) for client in present},
    )
    counts = {client: draw(st.integers(0, 100)) for client in present[::2]}
    return (
        decide_figures(given, draw(all_rules), grace=draw(st.sampled_from([False, False, False, True]))),
        tuple(others[:1]),
        counts,
    )


handles = st.integers(0, 1)
round_numbers = st.integers(1, 6)
any_round = decided_rounds(CLIENTS)


class LedgerMachine(RuleBasedStateMachine):
    """Two handles on one ledger, and the plain account beside it."""

    def __init__(self, stores: list[SqlStore], new_folder: Callable[[], Path], seen: Counter[str]) -> None:
        super().__init__()
        self.stores, self.keys, self.seen = stores, KeyDirectory(new_folder()), seen

    @initialize(
        settlement=st.sampled_from(["accruals", "transfers", "accruals"]),
        worth=st.sampled_from([1, 7, 100_000, 10**9]),
        largest_share=st.sampled_from([3.0, 1e6, None]),
    )
    def open(self, settlement, worth, largest_share):
        with self.stores[0].engine.begin() as connection:
            connection.execute(postings.delete())
            connection.execute(entries.delete())
        terms = Terms(name="five banks", settlement=settlement, worth=worth, largest_share=largest_share)
        first = Ledger.start(self.stores[0], terms, self.keys, clock=clock)
        self.ledgers = [first, Ledger(self.stores[1], self.keys, clock=clock)]
        self.account, self.settled = PlainAccount(terms), {}
        self.known = check_ledger(self.stores[1], self.account, [])
        self.admit(0, list(CLIENTS[:4]))

    @precondition(lambda self: len(self.account.members) < len(CLIENTS))
    @rule(handle=handles, clients=st.lists(st.sampled_from(CLIENTS), min_size=1, unique=True))
    def admit(self, handle, clients):
        keys = {client: CLIENT_KEYS[client].public if client in CLIENT_KEYS else None for client in clients}
        self._expect("admit", lambda: self.ledgers[handle].admit(keys), lambda: self.account.admit(clients))

    @rule(handle=handles, number=round_numbers, data=st.data())
    def settle_what_was_not(self, handle, number, data):
        """Among active clients, so that it is mostly accepted."""
        if number not in self.account.rounds:
            earlier = [held.eliminated for other, held in self.account.rounds.items() if other < number]
            earlier += [{client} for client, (_, last) in self.account.withdrawals.items() if last < number]
            left = [client for client in self.account.members if not any(client in gone for gone in earlier)]
            if left:
                decision, _, counts = data.draw(decided_rounds(left))
                absent = sorted(self.account.expected_in(number) - set(decision.figures.clients))
                self._settle(handle, number, (decision, tuple(absent), counts))

    @rule(handle=handles, number=round_numbers, decided=any_round)
    def settle_anything(self, handle, number, decided):
        self._settle(handle, number, decided)

    @precondition(lambda self: self.account.rounds)
    @rule(handle=handles, data=st.data(), decided=any_round)
    def settle_with_other_content(self, handle, data, decided):
        self._settle(handle, data.draw(st.sampled_from(list(self.account.rounds))), decided)

    @precondition(lambda self: self.account.rounds)
    @rule(handle=handles, data=st.data())
    def settle_again(self, handle, data):
        self._enter_round(handle, self.settled[data.draw(st.sampled_from(list(self.account.rounds)))])

    @rule(handle=handles, number=round_numbers, decided=any_round, missing=st.booleans())
    def settle_what_somebody_did_not_sign(self, handle, number, decided, missing):
        decision, absent, counts = decided
        settled = signed_round(number, decision, self.ledgers[handle].identity, absent=absent, sample_counts=counts)
        if settled.signatures:
            forged = {} if missing else dict.fromkeys(settled.signatures, "00" * 64)
            other = replace(settled, signatures=forged)
            self._enter_round(handle, other, what="forge")

    @rule(handle=handles, entry=st.integers(0, 12))
    def reverse_anything(self, handle, entry):
        self._reverse(handle, entry)

    @precondition(lambda self: self.account.rounds)
    @rule(handle=handles, data=st.data())
    def reverse_round(self, handle, data):
        self._reverse_round(handle, data.draw(st.sampled_from(list(self.account.rounds))))

    @precondition(lambda self: any(held.eliminated for held in self.account.rounds.values()))
    @rule(handle=handles, data=st.data())
    def take_the_eliminated_back(self, handle, data):
        """Their round is reversed, and they take part in a later one."""
        rounds = self.account.rounds
        number, gone = data.draw(
            st.sampled_from([(n, held.eliminated) for n, held in rounds.items() if held.eliminated])
        )
        self._reverse_round(handle, number)
        later = next(after for after in count(number + 1) if after not in rounds)
        decision, _, counts = data.draw(decided_rounds(sorted(gone)))
        absent = sorted(self.account.expected_in(later) - set(decision.figures.clients))
        self._settle(handle, later, (decision, tuple(absent), counts))

    @precondition(lambda self: self.account.incomes)
    @rule(handle=handles, data=st.data())
    def reverse_income(self, handle, data):
        self._reverse(handle, data.draw(st.sampled_from([entry for entry, _ in self.account.incomes.values()])))

    @precondition(lambda self: any(name.startswith("accrued/") for name in self.account.balances))
    @rule(
        handle=handles,
        amount=st.integers(1, 5) | st.integers(1, 10**15) | st.just(1000),
        reference=st.sampled_from(["invoice 1", "invoice 2", "Σ 3"]),
    )
    def realise(self, handle, amount, reference):
        self._realise(handle, amount, reference)

    @rule(handle=handles)
    def realise_in_any_ledger(self, handle):
        self._realise(handle, 1000, "invoice 4")

    @precondition(lambda self: self.account.may_divide)
    @rule(handle=handles)
    def realise_where_it_is_possible(self, handle):
        self._realise(handle, 1001, f"invoice {len(self.account.incomes) + 5}")

    @precondition(lambda self: self.account.incomes)
    @rule(handle=handles, data=st.data())
    def realise_again(self, handle, data):
        reference, (_, amount) = data.draw(st.sampled_from(list(self.account.incomes.items())))
        self._realise(handle, amount, reference)

    @rule(handle=handles, client=st.sampled_from(CLIENTS), last=st.integers(0, 6), forged=st.sampled_from([0, 0, 1]))
    def withdraw(self, handle, client, last, forged):
        key = CLIENT_KEYS.get(client)
        notice = WithdrawalNotice(self.ledgers[handle].identity, client, last + forged)
        signature = None if key is None else notice.signed(key)
        self._expect(
            "withdraw",
            lambda: self.ledgers[handle].withdraw(client, last, signature),
            lambda: self.account.withdraw(client, last, signed=key is None or not forged),
        )

    @precondition(lambda self: self.account.withdrawals)
    @rule(handle=handles, data=st.data())
    def withdraw_again(self, handle, data):
        client, (_, last) = data.draw(st.sampled_from(list(self.account.withdrawals.items())))
        self.withdraw(handle, client, last, 0)

    @precondition(lambda self: sum(kind == "key-rotation" for kind, _ in self.account.entries) < 2)
    @rule(handle=handles)
    def rotate_key(self, handle):
        self._expect("rotate", self.ledgers[handle].rotate_key, self.account.rotate_key)

    @invariant()
    def ledger_and_account_agree(self):
        self.known = check_ledger(self.stores[1], self.account, self.known)

    def teardown(self):
        if hasattr(self, "account"):
            assert verify_ledger(self.stores[0], recompute).findings == ()

    def _settle(self, handle: int, number: int, decided: tuple[Decision, tuple[str, ...], dict[str, int]]) -> None:
        decision, absent, counts = decided
        identity = self.ledgers[handle].identity
        self._enter_round(handle, signed_round(number, decision, identity, absent=absent, sample_counts=counts))

    def _enter_round(self, handle: int, settled: RoundToSettle, what: str = "settle") -> None:
        self._expect(
            what,
            lambda: self.ledgers[handle].settle(settled),
            lambda: self.account.settle(settled, signed=what != "forge"),
        )
        held = self.account.rounds.get(settled.record.round_number)
        if held is not None and held.content == content_of(settled):
            self.settled[settled.record.round_number] = settled

    def _reverse(self, handle: int, entry: int) -> None:
        self._expect(
            "reverse", lambda: self.ledgers[handle].reverse(entry, "an error"), lambda: self.account.reverse(entry)
        )

    def _reverse_round(self, handle: int, number: int) -> None:
        entry = self.account.rounds[number].entry
        self._expect(
            "reverse",
            lambda: self.ledgers[handle].reverse_round(number, "an error"),
            lambda: self.account.reverse(entry),
        )

    def _realise(self, handle: int, amount: int, reference: str) -> None:
        self._expect(
            "realise",
            lambda: self.ledgers[handle].realise(amount, reference),
            lambda: self.account.realise(amount, reference),
        )

    def _expect(self, what: str, act: Callable[[], Receipt], foresee: Callable[[], int | None]) -> None:
        """An entry that the account adds is fresh, an older one is not, and where there is none the ledger refuses."""
        before = len(self.account.entries)
        entry = foresee()
        fresh = len(self.account.entries) > before
        if entry is None:
            with pytest.raises(CommonwealError):
                act()
        else:
            assert act() == Receipt(entry=entry, fresh=fresh)
        self.seen[f"{what}: {'refused' if entry is None else 'fresh' if fresh else 'known'}"] += 1


@pytest.mark.slow
@pytest.mark.hypothesis
def test_a_ledger_agrees_with_a_plain_account(new_location, tmp_path):
    location = new_location()
    backend = "postgresql" if location.startswith("postgresql") else "sqlite"
    seen: Counter[str] = Counter()
    numbers = count()
    with closing(open_store(location, create=True)) as one, closing(open_store(location)) as other:
        run_state_machine_as_test(
            lambda: LedgerMachine([one, other], lambda: tmp_path / str(next(numbers)), seen),
            settings=settings(
                max_examples=EXAMPLE_COUNTS[IS_SOAK, backend],
                stateful_step_count=20,
                deadline=None,
                phases=[Phase.reuse, Phase.generate, Phase.shrink],
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
            ),
        )
    if not IS_SOAK:  # a few random examples may miss an outcome
        return
    # Every outcome of every action has been tried.
    for what in ("settle", "reverse", "realise", "withdraw"):
        assert seen[f"{what}: fresh"] > 0 < seen[f"{what}: refused"], seen
    assert seen["settle: known"] > 0 < seen["withdraw: known"], seen
    assert seen["rotate: fresh"] > 0, seen


@pytest.fixture
def new_ledger(new_location, tmp_path):
    """Opens a ledger with these members; the store is closed afterwards."""
    with ExitStack() as stores:

        def start(terms: Terms, members: Sequence[str]) -> tuple[SqlStore, Ledger, PlainAccount]:
            store = stores.enter_context(closing(open_store(new_location(), create=True)))
            ledger, account = (
                Ledger.start(store, terms, KeyDirectory(tmp_path / "keys"), clock=clock),
                PlainAccount(terms),
            )
            ledger.admit(dict.fromkeys(members))
            account.admit(list(members))
            return store, ledger, account

        yield start


def settle_in_both(ledger: Ledger, account: PlainAccount, number: int, decision: Decision) -> None:
    absent = tuple(sorted(account.expected_in(number) - set(decision.figures.clients)))
    record = RoundRecord(round_number=number, decision=decision, absent=absent)
    settled = RoundToSettle(record=record, rules_version=Paper.version)
    entry = account.settle(settled, signed=True)
    assert ledger.settle(settled) == Receipt(entry=entry, fresh=True)


@pytest.mark.parametrize("settlement", SETTLEMENTS)
def test_amounts_of_10_to_the_15(new_ledger, settlement):
    """Up to 10^15 minor units in a posting, and balances beyond."""
    terms = Terms(name="large", worth=10**15, settlement=settlement)
    store, ledger, account = new_ledger(terms, CLIENTS)
    random = Random(1)
    given = [{c: random.uniform(-0.2, 0.3) for c in CLIENTS} for _ in range(4)]
    given.append(dict(zip(CLIENTS, (0.9999999999999999, -0.25, -0.25, -0.25, -0.2499999999999999), strict=True)))
    given += [dict.fromkeys(CLIENTS, 0.2), {"ann": 1.0, "dan": -1.0}]
    for number, profits in enumerate(given, start=1):
        weights = {client: random.random() for client in profits}
        decision = decide_figures(Figures(profits=profits, contributions=weights), Rules(mu=math.inf))
        settle_in_both(ledger, account, number, decision)
    only_ann = Figures(profits={"ann": 1.0, "dan": 0.0}, contributions={"ann": 1.0, "dan": 0.0})
    for number in range(11, 21):
        settle_in_both(ledger, account, number, decide_figures(only_ann, Rules(mu=0.0)))
    if settlement == "accruals":
        assert account.balances["accrued/ann"] > 10**16
        for number, income in enumerate((10**15, 1, 10**15 - 1, 999_999_999_999_989), start=1):
            entry = account.realise(income, f"income {number}")
            assert ledger.realise(income, f"income {number}") == Receipt(entry=entry, fresh=True)
    too_much = decide_figures(
        Figures(profits={"ann": 1.01, "dan": -1.01}, contributions={"ann": 0.0, "dan": 1.0}), Rules(mu=math.inf)
    )
    too_much = replace(too_much, payoffs={"ann": 1.01, "dan": 0.0})
    record = RoundRecord(round_number=30, decision=too_much)
    with pytest.raises(InputError, match=r"at most 10\^15 minor units"):
        ledger.settle(RoundToSettle(record=record, rules_version=Paper.version))
    check_ledger(store, account, [])


@pytest.mark.parametrize("settlement", SETTLEMENTS)
def test_shares_of_any_size_that_the_terms_accept(new_ledger, settlement):
    """Raw contributions that all but cancel out make shares, and rounding, a million times as large."""
    store, ledger, account = new_ledger(Terms(name="raw", settlement=settlement, largest_share=1e9), CLIENTS)
    random = Random(3)
    for number in range(1, 11):
        weights = [random.random() for _ in CLIENTS[1:]]
        weights.append(10 ** -random.uniform(2, 6) - math.fsum(weights))
        given = Figures(
            profits={client: random.uniform(0, 1000) for client in CLIENTS},
            contributions=dict(zip(CLIENTS, weights, strict=True)),
        )
        settle_in_both(ledger, account, number, decide_figures(given, Rules(mu=math.inf, contribution_rule="raw")))
    check_ledger(store, account, [])


@pytest.mark.parametrize("settlement", SETTLEMENTS)
def test_a_thousand_clients(new_ledger, settlement):
    clients = [f"client {place}" for place in range(1000)]
    store, ledger, account = new_ledger(Terms(name="many", worth=10**9, settlement=settlement), clients)
    random = Random(2)
    for number, mu in ((1, math.inf), (2, 0.0)):  # nobody is eliminated; every client with a loss is
        given = Figures(
            profits={client: random.gauss(0.0, 1000.0) for client in clients},
            contributions={client: random.expovariate(1.0) for client in clients},
        )
        settle_in_both(ledger, account, number, decide_figures(given, Rules(mu=mu)))
    assert len(account.rounds[2].eliminated) > 400
    if settlement == "accruals":
        entry = account.realise(123_456_789_012_345, "income")
        assert ledger.realise(123_456_789_012_345, "income") == Receipt(entry=entry, fresh=True)
    entry = account.reverse(account.rounds[2].entry)
    assert ledger.reverse_round(2, "an error") == Receipt(entry=entry, fresh=True)
    check_ledger(store, account, [])
