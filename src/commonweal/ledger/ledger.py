"""The ledger as its operator keeps it: open it, settle and reverse rounds, divide income. Entries never change."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import InputError, LedgerError
from commonweal.ledger.agreed_rules import AgreedRules
from commonweal.ledger.amendments import Amendment, amendment_body, check_amendment, check_may_admit, check_may_agree
from commonweal.ledger.canonical import Document, first_difference, hash_of, parse
from commonweal.ledger.chain import first_operator, rotation_message
from commonweal.ledger.checks import (
    check_keys,
    check_look_alikes,
    check_may_withdraw,
    check_names,
    check_own_keys,
    check_round,
    check_withdrawal,
)
from commonweal.ledger.departures import check_departures
from commonweal.ledger.entries import (
    INCOME,
    Draft,
    Posting,
    StoredEntry,
    client_account,
    is_reason,
    is_reference,
    postings_of,
    seal,
    signed_message,
    time_text,
)
from commonweal.ledger.expected_profits import check_expected_profits
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import SigningKey, is_signed_by_operator
from commonweal.ledger.money import LARGEST_AMOUNT, amount_text
from commonweal.ledger.order import (
    check_is_last,
    check_may_divide,
    check_not_divided_otherwise,
    check_nothing_is_reversed,
    date_of_entry,
)
from commonweal.ledger.plans import check_planned_with
from commonweal.ledger.readable import check_readable, readable
from commonweal.ledger.reports import BASED_REPORT_FORMATS
from commonweal.ledger.rounds import RoundToSettle, draft_round
from commonweal.ledger.settled_again import Settlement, check_settled_again
from commonweal.ledger.silence import (
    REVERSIBLE,
    charge_draft,
    check_consequence_can_go,
    check_nothing_rests_on,
    ends_by_silence,
    exclusion_draft,
    late_report_draft,
)
from commonweal.ledger.state import LedgerState
from commonweal.ledger.store import Reading, Store, stored_postings
from commonweal.ledger.terms import Terms
from commonweal.ledger.verification.one_entry import check_one
from commonweal.ledger.verification.recompute import recompute, recompute_with
from commonweal.ledger.verification.replay import Findings, LedgerReplay, MechanismState, PastEntry, Recompute
from commonweal.ledger.verification.rounds import recorded_inputs

Clock = Callable[[], datetime]


def system_clock() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The number of an entry, and whether this call added it."""

    entry: int
    fresh: bool  # False: it was there already, and nothing was done


class Ledger:
    """One federation's ledger in one store. Other processes may add entries at the same time."""

    def __init__(self, store: Store, keys: KeyDirectory | None, *, clock: Clock = system_clock) -> None:
        """Continue a ledger that exists. Without `keys` it is read-only."""
        self._store = store
        self._keys = keys
        self._clock = clock
        self._replay = LedgerReplay(recompute=recompute)  # read-only, it has the state only
        self._decided_from: dict[int, tuple[str, int]] = {}  # of each round's entry: rules, entry of the round before
        self._key: SigningKey | None = None
        with store.reading() as reading:
            self._catch_up(reading)
        if not self.state.number:
            raise LedgerError("The store has no ledger yet. Create one with: commonweal ledger init")

    @classmethod
    def start(cls, store: Store, terms: Terms, keys: KeyDirectory, *, clock: Clock = system_clock) -> Ledger:
        """Create a ledger in an empty store."""
        key = keys.current()
        with store.writing() as writing:
            if next(writing.entries(), None) is not None:
                raise LedgerError(
                    "This database already has a ledger, and can have only one. Name another database, or continue "
                    "with this ledger as it is."
                )
            draft = Draft(kind="opening", body={"terms": terms.to_document(), "operator": key.public})
            opening = seal(draft, number=1, previous=LedgerState().head, at=time_text(clock()), key=key)
            replay = LedgerReplay(recompute=recompute)
            check_one(opening, (), replay)
            _refuse_findings(draft, replay.findings)
            writing.add(opening, ())
        return cls(store, keys, clock=clock)

    @property
    def state(self) -> LedgerState:
        """The state after the last entry that was read."""
        return self._replay.state

    @property
    def terms(self) -> Terms:
        assert self.state.terms is not None, "the first entry states the terms"
        return self.state.terms

    @property
    def identity(self) -> str:
        """The hash of the first entry; members' signatures name it."""
        return self.state.identity

    def refresh(self) -> None:
        """Read what others have added."""
        with self._store.reading() as reading:
            self._catch_up(reading)

    def admit(self, members: Mapping[str, str | None]) -> Receipt:
        """Admit members with the keys that sign their reports; without a key (None), the operator vouches for them."""
        check_names(members)
        check_keys(members)

        def make(state: LedgerState) -> Draft | Receipt:
            for client, key in members.items():
                if client in state.members and state.members[client] != key:
                    raise LedgerError(
                        f"Client {client!r} was admitted with {_key_text(state.members[client])} and cannot change to "
                        f"{_key_text(key)}. Use the key it was admitted with, or another ledger."
                    )
            fresh = {client: key for client, key in members.items() if client not in state.members}
            check_look_alikes((*state.members, *fresh))
            check_own_keys(fresh, state)
            if not fresh:
                return Receipt(entry=state.number, fresh=False)
            check_may_admit(fresh, state)
            rows = [{"client": client, "key": key} for client, key in fresh.items()]
            return Draft(kind="admission", body={"members": rows})

        return self._enter(make)

    def agree(self, agreed: AgreedRules) -> Receipt:
        """State the rules of a ledger that was opened without any, before its first round."""

        def make(state: LedgerState) -> Draft | Receipt:
            if self.terms.agreed == agreed:
                return Receipt(entry=state.number, fresh=False)
            check_may_agree(state)
            return Draft(kind="terms", body={"terms": replace(self.terms, agreed=agreed).to_document()})

        return self._enter(make)

    def amend(self, amendment: Amendment, signatures: Mapping[str, str]) -> Receipt:
        """Enter an amendment that its signers agreed to; it is in force from the next round on."""
        check_names(amendment.members)
        check_keys(amendment.members)

        def make(state: LedgerState) -> Draft | Receipt:
            check_nothing_is_reversed("An amendment", state)
            if amendment.members:
                check_look_alikes((*state.members, *amendment.members))
            check_own_keys(amendment.members, state)
            check_amendment(amendment, signatures, state)
            return Draft(kind="amendment", body=amendment_body(amendment, signatures))

        return self._enter(make)

    def settle(self, settled: RoundToSettle, *, at: str | None = None) -> Receipt:
        """Settle a round. Settling it again does nothing; with different content it raises and names the difference.

        `at` is the time that the entry states; None: that of writing. With the same time, a round whose entry was lost
        gets the same entry again.
        """
        return self._enter(partial(self._round_draft, settled), at=at, recompute=_recompute_of(settled))

    def check_round(self, settled: RoundToSettle) -> None:
        """Raise whatever `settle` would raise for this round now."""
        self.refresh()
        made = self._round_draft(settled, self.state)
        if isinstance(made, Draft):
            self._checked(made, at=None, recompute=_recompute_of(settled))

    def _round_draft(self, settled: RoundToSettle, state: LedgerState) -> Draft | Receipt:
        number = settled.record.round_number
        draft = draft_round(settled, self.identity, state.terms_of(number).terms)
        if number in state.rounds:
            self._check_same_round(state.rounds[number], draft, number)
            return Receipt(entry=state.rounds[number], fresh=False)
        check_round(settled, state)
        check_departures(draft.body, state)
        check_expected_profits(draft.body, state)
        check_planned_with(settled, draft.body, state)
        check_not_divided_otherwise(number, draft.postings, state, lambda entry: postings_of(self._document(entry)))
        if number in state.undone:
            for entry in state.reversals:
                check_settled_again(self._document(entry), draft.body, state)
        self._recall(settled)
        return draft

    def realise(self, amount: int, reference: str, *, without: Collection[int] = ()) -> Receipt:
        """Divide income of the model in proportion to max(accrued payoff, 0), once per reference.

        `without` names the reversed rounds that are not to be settled again before.
        """
        digits = self.terms.minor_digits
        if not 0 < amount <= LARGEST_AMOUNT:
            raise InputError(
                f"Income must be more than 0 and at most 10^15 minor units, got {amount_text(amount, digits)}. To take "
                "income back, reverse its entry."
            )
        if not is_reference(reference):
            raise InputError(
                f"A reference must have 1 to 200 printable characters and no spaces around it, got {reference!r}. Use "
                "the invoice number, for example."
            )

        def make(state: LedgerState) -> Draft | Receipt:
            before = state.references.get(reference)
            if before is not None:
                if before.entry in state.reversals:
                    raise LedgerError(
                        f"Reference {reference!r} was used in entry {before.entry}, which entry "
                        f"{state.reversals[before.entry]} reversed. Use a new reference."
                    )
                if before.amount != amount:
                    raise LedgerError(
                        f"Reference {reference!r} was used in entry {before.entry} for "
                        f"{amount_text(before.amount, digits)}, not {amount_text(amount, digits)}. Use a new reference."
                    )
                return Receipt(entry=before.entry, fresh=False)
            check_may_divide(state, without)
            if not state.weights():
                raise LedgerError(
                    "Income is divided in proportion to accrued payoffs, but nobody has a positive one. Settle rounds "
                    "first, in a ledger that accrues payoffs."
                )
            postings = [Posting(client_account(client), part) for client, part in state.divided(amount).items() if part]
            return Draft(
                kind="realisation",
                body={"reference": reference, "amount": str(amount)},
                postings=(Posting(INCOME, -amount), *postings),
            )

        return self._enter(make)

    def withdraw(self, client: str, round_number: int, signature: str | None, *, at: str | None = None) -> Receipt:
        """Record a member's signed notice that it withdraws after this round. It keeps what it accrued.

        `at` is as for `settle`.
        """

        def make(state: LedgerState) -> Draft | Receipt:
            check_withdrawal(client, round_number, signature, state)
            if state.withdrawn.get(client) == round_number:
                return Receipt(entry=state.withdrawals[client], fresh=False)
            if state.has_rules:
                check_nothing_is_reversed("A withdrawal", state)
            check_may_withdraw(client, round_number, state)
            return Draft(kind="withdrawal", body={"client": client, "round": round_number, "signature": signature})

        return self._enter(make, at=at)

    def report_late(self, client: str, round_number: int, document: Document, signature: str) -> Receipt:
        """Record a report of a settled round by a member that was silent in it. The round stays as it is."""
        return self._enter(self._late_report(client, round_number, document, signature))

    def check_late_report(self, client: str, round_number: int, document: Document, signature: str) -> None:
        """Raise whatever `report_late` would raise now."""
        self.refresh()
        made = self._late_report(client, round_number, document, signature)(self.state)
        if isinstance(made, Draft):
            self._checked(made, at=None, recompute=recompute)

    def _late_report(
        self, client: str, round_number: int, document: Document, signature: str
    ) -> Callable[[LedgerState], Draft | Receipt]:
        def make(state: LedgerState) -> Draft | Receipt:
            if round_number in state.late_reports.get(client, {}):
                return Receipt(entry=state.late_reports[client][round_number], fresh=False)
            if document.get("format") in BASED_REPORT_FORMATS:  # as earlier versions signed late ones, too
                raise LedgerError(
                    f"The report of {client!r} is no late report of round {round_number}: it does not name the entry "
                    "that calls the client silent. Update commonweal at the client, and ask for its report again."
                )
            return late_report_draft(state, client, round_number, document, signature)

        return make

    def charge(self, client: str, round_number: int) -> Receipt:
        """Charge a member, by the terms, for a round whose model it had without reporting."""

        def make(state: LedgerState) -> Draft | Receipt:
            for entry, charged in state.charges.items():
                if charged == (client, round_number):
                    return Receipt(entry=entry, fresh=False)
            return charge_draft(state, client, round_number)

        return self._enter(make)

    def end_memberships(self, *, at: str | None = None) -> tuple[Receipt, ...]:
        """End the membership of everybody who was silent as often as the terms allow."""

        def make(state: LedgerState) -> Draft | Receipt:
            due = next(ends_by_silence(state, state.next_round), None)
            return Receipt(entry=state.number, fresh=False) if due is None else exclusion_draft(*due)

        self.refresh()
        due = list(ends_by_silence(self.state, self.state.next_round))
        return tuple(self._enter(make, at=at) for _ in due)

    def reverse_round(self, round_number: int, reason: str) -> Receipt:
        """Reverse a settled round; it can then be settled again."""
        self.refresh()
        entry = self.state.rounds.get(round_number)
        if entry is None:
            raise LedgerError(f"Round {round_number} is not settled, so it cannot be reversed.")
        return self.reverse(entry, reason)

    def reverse(self, entry: int, reason: str) -> Receipt:
        """Add the opposite of an entry's postings. Reversing it again does nothing."""
        if not is_reason(reason):
            raise InputError(f"A reversal needs a reason of 1 to 1000 characters on one line, got {reason!r}.")

        def make(state: LedgerState) -> Draft | Receipt:
            if entry in state.reversals:
                return Receipt(entry=state.reversals[entry], fresh=False)
            document = self._document(entry)
            self._replay.past[entry] = PastEntry(document["kind"], postings_of(document))
            if document["kind"] not in REVERSIBLE:
                raise LedgerError(
                    f"Entry {entry} is {_article(document['kind'])}; only rounds, realisations, charges and exclusions "
                    "can be reversed."
                )
            if document["kind"] == "round":
                check_is_last(document["body"]["round"], state)
                check_nothing_rests_on(document["body"]["round"], state)
            check_consequence_can_go(entry, state)
            return Draft(
                kind="reversal",
                body={"entry": entry, "reason": reason},
                postings=tuple(replace(posting, amount=-posting.amount) for posting in postings_of(document)),
            )

        return self._enter(make)

    def rotate_key(self) -> Receipt:
        """Sign with a new key from now on. The old key signs this entry; in it, the new one signs its announcement."""
        assert self._keys is not None, "a read-only ledger cannot rotate its key"
        keys, key = self._keys, SigningKey.new()

        def make(state: LedgerState) -> Draft | Receipt:
            self._signing_key(state.operator)  # first, since the old key's passphrase also encrypts the new key
            keys.add(key)
            proof = key.sign(rotation_message(state.identity, key.public))
            return Draft(kind="key-rotation", body={"operator": key.public, "proof": proof})

        receipt = self._enter(make)
        self._keys.make_current(key.public)
        return receipt

    def document(self, entry: int) -> dict[str, Any]:
        """An entry's content."""
        if not 1 <= entry <= self.state.number:
            raise LedgerError(f"There is no entry {entry}; this ledger has entries 1 to {self.state.number}.")
        return self._document(entry)

    def _enter(
        self,
        make: Callable[[LedgerState], Draft | Receipt],
        *,
        at: str | None = None,
        recompute: Recompute = recompute,
    ) -> Receipt:
        """Add what `make` returns for the current state; nobody else can add in between.

        A time `at` that others have overtaken becomes theirs: the time of a ledger does not go back.
        """
        assert self._keys is not None, "a read-only ledger takes no entries"
        with self._store.writing() as writing:
            self._catch_up(writing)
            made = make(self.state)
            if isinstance(made, Receipt):
                return made
            entry, after = self._checked(made, at=at, recompute=recompute)
            writing.add(entry, made.postings)
        self._take_in(entry)
        self._replay.mechanism_states.update(after)
        return Receipt(entry=entry.number, fresh=True)

    def _checked(
        self, made: Draft, *, at: str | None, recompute: Recompute
    ) -> tuple[StoredEntry, Mapping[int, MechanismState]]:
        """The entry, and the mechanism's state after it. Refused is whatever verification would find in it."""
        state = self.state
        entry = seal(
            made,
            number=state.number + 1,
            previous=state.head,
            at=self._time(at, state),
            key=self._signing_key(state.operator),
        )
        after: dict[int, MechanismState] = {}
        trial = replace(
            self._replay,
            findings=Findings(),
            notes=Findings(),
            recompute=recompute,
            mechanism_states=ChainMap(after, self._replay.mechanism_states),
            planned_from={},
        )
        check_one(entry, stored_postings(entry.number, made.postings), trial)
        _refuse_findings(made, trial.findings)
        return entry, after

    def _recall(self, settled: RoundToSettle) -> None:
        """Decide earlier rounds again that this process has not settled, as far as the mechanism remembers them.

        A round keeps the state that it was settled with, also if one before it was reversed since.
        """
        version, rules = settled.rules_version, settled.record.decision.rules
        states, last = self._replay.mechanism_states, settled.record.round_number
        missing = [number for number in self.state.rounds if number < last and number not in states]
        if not missing or not make_mechanism(rules).remembers:
            return
        decide_again, after = _recompute_of(settled), dict[int, Mapping[str, Any]]()
        for entry, (own_version, before) in self._decided_from.items():
            if own_version == version:
                inputs = recorded_inputs(self._document(entry)["body"], self._replay)
                after[entry] = decide_again(replace(inputs, state=after.get(before, {}))).state
        for number in missing:
            entry = self.state.rounds[number]
            states[number] = self._decided_from[entry][0], after.get(entry, {})

    def _time(self, at: str | None, state: LedgerState) -> str:
        if at is None:
            return time_text(date_of_entry(self._clock(), state))
        return at if state.latest is None else max(at, time_text(state.latest))

    def _catch_up(self, reading: Reading) -> None:
        for entry in reading.entries(after=self.state.number):
            self._take_in(entry)

    def _take_in(self, entry: StoredEntry) -> None:
        """Apply the next entry; refuse to continue a broken chain, since new entries would vouch for it."""
        document = parse(entry.content)
        if (
            document is None
            or entry.number != self.state.number + 1
            or document.get("number") != entry.number
            or document.get("previous") != self.state.head
            or hash_of(entry.content.encode()) != entry.hash
            or not is_signed_by_operator(
                signed_message(entry.hash), entry.signature, self.state.operator or first_operator(document)
            )
        ):
            raise LedgerError(
                f"The ledger is not sound: entry {entry.number} does not follow entry {self.state.number}, or the "
                "operator did not sign it. Find out more with: commonweal ledger verify"
            )
        with readable(entry.number):
            check_readable(document)
            if self._keys is None:
                self.state.apply(document, entry.hash)
            else:
                self._remember(document, entry.hash)

    def _remember(self, document: dict[str, Any], digest: str) -> None:
        """What is to be written is checked against all that is remembered here."""
        body = document["body"]
        if document["kind"] == "round":
            self._replay.mechanism_states.pop(body["round"], None)
            version, settled = body["rules_version"], self.state.rounds.items()
            same = (n for n, entry in settled if n < body["round"] and self._decided_from[entry][0] == version)
            before = max(same, default=0)
            self._decided_from[document["number"]] = version, self.state.rounds.get(before, 0)
        elif document["kind"] == "reversal":
            reversed_entry = self._document(body["entry"])
            if reversed_entry["kind"] == "round":
                settlement = Settlement.of(body["entry"], reversed_entry["body"], self.state)
                self._replay.settlements.setdefault(reversed_entry["body"]["round"], []).append(settlement)
        self._replay.remember(document, digest)

    def _signing_key(self, public: str) -> SigningKey:
        if self._key is None or self._key.public != public:
            assert self._keys is not None
            self._key = self._keys.key_of(public)
        return self._key

    def _document(self, number: int) -> dict[str, Any]:
        with self._store.reading() as reading:
            entry = next(reading.entries(after=number - 1), None)
        document = None if entry is None or entry.number != number else parse(entry.content)
        if document is None:
            raise LedgerError(f"There is no entry {number}; this ledger has entries 1 to {self.state.number}.")
        return document

    def _check_same_round(self, entry: int, draft: Draft, round_number: int) -> None:
        settled: Document = self._document(entry)["body"]
        # How sure a round is may be computed otherwise by another version; the round is the same.
        difference = first_difference({**settled, "evidence": None}, {**draft.body, "evidence": None})
        if difference is not None:
            field, before, now = difference
            raise LedgerError(
                f"Round {round_number} is already settled as entry {entry} with different content: {field} is {before} "
                f"there and {now} here. If these are the figures of another round, give them its number. If the "
                "entry is wrong, reverse the round first."
            )


def _recompute_of(settled: RoundToSettle) -> Recompute:
    """Decides again, by the file of the round's own mechanism if that is one."""
    file = settled.record.decision.rules.file
    return recompute if file is None else recompute_with([file])


def _refuse_findings(made: Draft, findings: Findings) -> None:
    """An entry stays for good, and so does what verification finds in it."""
    found = next(iter(findings.all()), None)
    if found is not None:
        is_round = made.kind == "round"
        what = f"Round {made.body['round']} cannot be settled" if is_round else f"Cannot enter {_article(made.kind)}"
        raise LedgerError(
            f"{what}: the ledger would not be sound with it, since {found.rule}; expected {found.expected[:500]}, got "
            f"{found.found[:500]}. Nothing was written."
        )


def _key_text(key: str | None) -> str:
    return "no key" if key is None else f"the key {key[:16]}…"


def _article(kind: str) -> str:
    if kind == "terms":
        return "a statement of the terms"
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
