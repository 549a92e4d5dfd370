"""The ledger as the operator keeps it: open it, settle rounds, reverse them, divide income. Nothing is ever changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from commonweal.errors import CommonwealError, LedgerError
from commonweal.ledger.canonical import Document, first_difference, hash_of, parse
from commonweal.ledger.chain import first_operator, rotation_message
from commonweal.ledger.entries import (
    INCOME,
    Draft,
    Posting,
    StoredEntry,
    client_account,
    postings_of,
    seal,
    signed_message,
    time_text,
)
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import SigningKey, is_signed_by_operator
from commonweal.ledger.member_documents import ROUND_LIMIT, WithdrawalNotice
from commonweal.ledger.money import LARGEST_AMOUNT, amount_text, in_proportion
from commonweal.ledger.rounds import RoundToSettle, draft_round
from commonweal.ledger.state import LedgerState
from commonweal.ledger.store import Reading, Store
from commonweal.ledger.terms import Terms

Clock = Callable[[], datetime]


def system_clock() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Where something is entered, and whether it was just now."""

    entry: int
    fresh: bool  # False: it had been entered before, and nothing was done


class Ledger:
    """One federation's ledger in one store. Other processes may add to it meanwhile."""

    def __init__(self, store: Store, keys: KeyDirectory | None, *, clock: Clock = system_clock) -> None:
        """A ledger that was opened before. Without `keys` it can be read alone."""
        self._store = store
        self._keys = keys
        self._clock = clock
        self._state = LedgerState()
        self._key: SigningKey | None = None
        with store.reading() as reading:
            self._catch_up(reading)
        if not self._state.number:
            raise LedgerError("a ledger starts with its terms, got an empty store; type commonweal ledger init")

    @classmethod
    def start(cls, store: Store, terms: Terms, keys: KeyDirectory, *, clock: Clock = system_clock) -> Ledger:
        """Open a new ledger; a store holds one."""
        key = keys.current()
        with store.writing() as writing:
            if next(writing.entries(), None) is not None:
                raise LedgerError(
                    "a database holds one ledger, got one that holds a ledger already; name another database, or leave "
                    "ledger init out to go on with this one"
                )
            draft = Draft(kind="opening", body={"terms": terms.to_document(), "operator": key.public})
            opening = seal(draft, number=1, previous=LedgerState().head, at=time_text(clock()), key=key)
            writing.add(opening, ())
        return cls(store, keys, clock=clock)

    @property
    def state(self) -> LedgerState:
        """Where the ledger stands, as last seen."""
        return self._state

    @property
    def terms(self) -> Terms:
        assert self._state.terms is not None, "a ledger starts with its terms"
        return self._state.terms

    @property
    def identity(self) -> str:
        """The hash of the first entry; clients' reports name it."""
        return self._state.identity

    def refresh(self) -> None:
        """Take in what others added."""
        with self._store.reading() as reading:
            self._catch_up(reading)

    def admit(self, members: Mapping[str, str | None]) -> Receipt:
        """Make clients members, with the public keys that will sign their reports; None: the operator's word counts."""

        check_names(members)

        def make(state: LedgerState) -> Draft | Receipt:
            for client, key in members.items():
                if client in state.members and state.members[client] != key:
                    raise LedgerError(
                        f"a member keeps its key, got {_key_text(key)} for client {client!r} where the ledger has "
                        f"{_key_text(state.members[client])}; use the key that was admitted, or another ledger"
                    )
            fresh = {client: key for client, key in members.items() if client not in state.members}
            if not fresh:
                return Receipt(entry=state.number, fresh=False)
            rows = [{"client": client, "key": key} for client, key in fresh.items()]
            return Draft(kind="admission", body={"members": rows})

        return self._enter(make)

    def settle(self, settled: RoundToSettle) -> Receipt:
        """Enter a round. Again is a no-op; with other content it is refused, and the difference named."""
        number = settled.record.round_number

        def make(state: LedgerState) -> Draft | Receipt:
            draft = draft_round(settled, self.identity, self.terms)
            if number in state.rounds:
                self._check_same_round(state.rounds[number], draft, number)
                return Receipt(entry=state.rounds[number], fresh=False)
            self._check_round(settled, state)
            return draft

        return self._enter(make)

    def realise(self, amount: int, reference: str) -> Receipt:
        """Divide what the model has earned, in proportion to max(accrued payoff, 0). Once a reference."""
        digits = self.terms.minor_digits
        if not 0 < amount <= LARGEST_AMOUNT:
            raise LedgerError(
                f"income must be more than 0 and at most 10^15 minor units, got {amount_text(amount, digits)}; to take "
                "income back, reverse its entry"
            )
        if not reference.strip() or len(reference) > 200 or not reference.isprintable():
            raise LedgerError(
                f"a reference must have 1 to 200 letters, got {reference!r}; give e.g. the invoice's number"
            )

        def make(state: LedgerState) -> Draft | Receipt:
            before = state.references.get(reference)
            if before is not None:
                if before.entry in state.reversals:
                    raise LedgerError(
                        f"a reference is used once, got {reference!r}, whose entry {before.entry} was reversed by "
                        f"entry {state.reversals[before.entry]}; give a new reference"
                    )
                if before.amount != amount:
                    raise LedgerError(
                        f"a reference stands for one amount, got {amount_text(amount, digits)} for {reference!r}, "
                        f"which entry {before.entry} has with {amount_text(before.amount, digits)}; give a new one"
                    )
                return Receipt(entry=before.entry, fresh=False)
            weights = state.weights()
            if not weights:
                raise LedgerError(
                    "income is divided among those who accrued a payoff, got nobody with one above zero; settle rounds "
                    "in a ledger that was opened with --accrue"
                )
            parts = in_proportion(amount, weights)
            postings = [Posting(client_account(client), part) for client, part in parts.items() if part]
            return Draft(
                kind="realisation",
                body={"reference": reference, "amount": str(amount)},
                postings=(Posting(INCOME, -amount), *postings),
            )

        return self._enter(make)

    def withdraw(self, client: str, round_number: int, signature: str | None) -> Receipt:
        """Enter that a member leaves after this round, by its signed notice; it keeps what it accrued. For good."""

        def make(state: LedgerState) -> Draft | Receipt:
            self._check_notice(client, round_number, signature, state)
            if state.withdrawn.get(client) == round_number:
                return Receipt(entry=state.withdrawals[client], fresh=False)
            _check_may_leave(client, round_number, state)
            return Draft(kind="withdrawal", body={"client": client, "round": round_number, "signature": signature})

        return self._enter(make)

    def reverse_round(self, round_number: int, reason: str) -> Receipt:
        """Reverse a settled round; it may then be settled anew."""
        self.refresh()
        entry = self._state.rounds.get(round_number)
        if entry is None:
            raise LedgerError(
                f"a round is reversed once it is settled, got round {round_number}, which is not; ledger show lists "
                "what is"
            )
        return self.reverse(entry, reason)

    def reverse(self, entry: int, reason: str) -> Receipt:
        """Enter the opposite of an entry's postings. Again is a no-op."""
        if not reason.strip() or len(reason) > 1000 or not reason.isprintable():
            raise LedgerError(f"a reversal needs a reason of 1 to 1000 letters in one line, got {reason!r}; say why")

        def make(state: LedgerState) -> Draft | Receipt:
            if entry in state.reversals:
                return Receipt(entry=state.reversals[entry], fresh=False)
            document = self._document(entry)
            if document["kind"] not in ("round", "realisation"):
                raise LedgerError(
                    f"rounds and realisations can be reversed, got entry {entry}, {_article(document['kind'])}; name "
                    "another entry"
                )
            return Draft(
                kind="reversal",
                body={"entry": entry, "reason": reason},
                postings=tuple(replace(posting, amount=-posting.amount) for posting in postings_of(document)),
            )

        return self._enter(make)

    def rotate_key(self) -> Receipt:
        """Sign with a new key from now on: the old one signs this entry, the new one its own name in it."""
        assert self._keys is not None, "a ledger that is only read rotates no key"
        keys, key = self._keys, SigningKey.new()

        def make(state: LedgerState) -> Draft | Receipt:
            self._signing_key(state.operator)  # the old key first: its passphrase locks the new one too
            keys.add(key)
            proof = key.sign(rotation_message(state.identity, key.public))
            return Draft(kind="key-rotation", body={"operator": key.public, "proof": proof})

        receipt = self._enter(make)
        self._keys.make_current(key.public)
        return receipt

    def document(self, entry: int) -> dict[str, Any]:
        """An entry's content."""
        if not 1 <= entry <= self._state.number:
            raise LedgerError(
                f"the entries of this ledger are 1 to {self._state.number}, got {entry}; ledger show lists them"
            )
        return self._document(entry)

    def _enter(self, make: Callable[[LedgerState], Draft | Receipt]) -> Receipt:
        """Add what `make` makes of the ledger as it stands; nobody else can add meanwhile."""
        assert self._keys is not None, "a ledger that is only read takes no entries"
        with self._store.writing() as writing:
            self._catch_up(writing)
            state = self._state
            made = make(state)
            if isinstance(made, Receipt):
                return made
            entry = seal(
                made,
                number=state.number + 1,
                previous=state.head,
                at=time_text(self._clock()),
                key=self._signing_key(state.operator),
            )
            writing.add(entry, made.postings)
        self._take_in(entry)
        return Receipt(entry=entry.number, fresh=True)

    def _catch_up(self, reading: Reading) -> None:
        for entry in reading.entries(after=self._state.number):
            self._take_in(entry)

    def _take_in(self, entry: StoredEntry) -> None:
        """Never go on from a broken chain: what is added would bear witness to it."""
        document = parse(entry.content)
        if (
            document is None
            or entry.number != self._state.number + 1
            or document.get("number") != entry.number
            or document.get("previous") != self._state.head
            or hash_of(entry.content.encode()) != entry.hash
            or not is_signed_by_operator(
                signed_message(entry.hash), entry.signature, self._state.operator or first_operator(document)
            )
        ):
            raise LedgerError(
                f"a ledger goes on from a sound chain, got entry {entry.number}, which does not follow entry "
                f"{self._state.number} or was not signed by the operator; type commonweal ledger verify"
            )
        try:
            self._state.apply(document, entry.hash)
        except (CommonwealError, KeyError, TypeError, ValueError):
            raise LedgerError(
                f"a ledger holds entries that this version can read, got entry {entry.number}; type commonweal ledger "
                "verify, or use a newer version"
            ) from None

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
            raise LedgerError(f"the ledger's entries are 1 to {self._state.number}, got {number}; name one of them")
        return document

    def _check_same_round(self, entry: int, draft: Draft, round_number: int) -> None:
        settled: Document = self._document(entry)["body"]
        difference = first_difference(settled, draft.body)
        if difference is not None:
            field, before, now = difference
            raise LedgerError(
                f"round {round_number} is settled already as entry {entry}, got other content: {field} is {before} "
                f"there and {now} here; reverse the round first if the entry is wrong"
            )

    def _check_notice(self, client: str, round_number: int, signature: str | None, state: LedgerState) -> None:
        if client not in state.members:
            raise LedgerError(
                f"members of the ledger withdraw, got the unknown client {client!r}; the members are "
                f"{_listed(list(state.members))}"
            )
        if type(round_number) is not int or not 0 <= round_number <= ROUND_LIMIT:
            raise LedgerError(
                f"a client leaves after a round, got {round_number!r} from client {client!r}; name the last round that "
                "it takes part in, 0 if none"
            )
        key = state.members[client]
        if key is None and signature is not None:
            raise LedgerError(
                f"a client that was admitted without a key signs nothing, got a signature from client {client!r}; "
                "leave it out"
            )
        if key is not None:
            notice = WithdrawalNotice(self.identity, client, round_number)
            if signature is None or not notice.is_signed(signature, key):
                raise LedgerError(
                    f"a withdrawal must be signed with the key that the client was admitted with, got "
                    f"{'no' if signature is None else 'another'} signature from client {client!r} for leaving after "
                    f"round {round_number}; let the client sign its notice for this ledger"
                )

    def _check_round(self, settled: RoundToSettle, state: LedgerState) -> None:
        record = settled.record
        number = record.round_number
        for client in (*record.decision.figures.clients, *record.absent):
            if client not in state.members:
                raise LedgerError(
                    f"rounds are settled among members of the ledger, got the unknown client {client!r} in round "
                    f"{number}; the members are {_listed(list(state.members))}"
                )
        for client, times in Counter((*record.decision.figures.clients, *record.absent)).items():
            if times > 1:
                raise LedgerError(
                    f"a client takes part in a round or is absent, got client {client!r} {times} times in round "
                    f"{number}; name it once"
                )
        for client in record.decision.figures.clients:
            gone = state.eliminated.get(client)
            if gone is not None and gone < number:
                raise LedgerError(
                    f"an eliminated client takes part in no later round, got client {client!r} in round {number} after "
                    f"its elimination in round {gone}; leave it out, or reverse round {gone} first"
                )
            left = state.withdrawn.get(client)
            if left is not None and left < number:
                raise LedgerError(
                    f"a client that withdrew takes part in no later round, got client {client!r} in round {number} "
                    f"after it left with round {left}; leave it out"
                )
            key, signature = state.members[client], settled.signatures.get(client)
            if key is not None and (
                signature is None or not settled.report(self.identity, client).is_signed(signature, key)
            ):
                raise LedgerError(
                    f"a client's report must be signed with the key it was admitted with, got "
                    f"{'no' if signature is None else 'another'} signature from client {client!r} in round {number}; "
                    "let the client sign its report of this round for this ledger"
                )
        for client in record.decision.eliminated:
            later = state.took_part_after(client, number)
            if later is not None:
                raise LedgerError(
                    f"an eliminated client takes part in no later round, got client {client!r} eliminated in round "
                    f"{number} and in round {later}, which is settled; reverse round {later} first"
                )


def _check_may_leave(client: str, round_number: int, state: LedgerState) -> None:
    if client in state.withdrawn:
        raise LedgerError(
            f"a client withdraws once, got client {client!r} leaving after round {round_number}, which leaves after "
            f"round {state.withdrawn[client]} by entry {state.withdrawals[client]}; that one stands"
        )
    if client in state.eliminated:
        raise LedgerError(
            f"who was eliminated has left, got a withdrawal of client {client!r}, eliminated in round "
            f"{state.eliminated[client]}; there is nothing to enter"
        )
    later = state.took_part_after(client, round_number)
    if later is not None:
        raise LedgerError(
            f"a client that withdrew takes part in no later round, got client {client!r} leaving after round "
            f"{round_number} and in round {later}, which is settled; let it leave after its last round"
        )


def check_names(members: Iterable[str]) -> None:
    """Refuse what cannot be a client's name in a ledger."""
    for client in members:
        if not client.strip() or len(client) > 200 or not client.isprintable():
            raise LedgerError(f"a client needs a name of 1 to 200 letters in one line, got {client!r}; rename it")


def _key_text(key: str | None) -> str:
    return "no key" if key is None else f"the key {key[:16]}…"


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "") or "none yet"
