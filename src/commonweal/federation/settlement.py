"""From decided rounds to entries in a ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import CommonwealError, LedgerError
from commonweal.federation.agreed import check_same_rules
from commonweal.ledger.agreed_rules import AgreedRules
from commonweal.ledger.canonical import Document
from commonweal.ledger.chain import key_rotations
from commonweal.ledger.checks import check_look_alikes, check_names
from commonweal.ledger.departures import check_departures
from commonweal.ledger.entries import time_text
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.later_head import contradiction
from commonweal.ledger.ledger import Clock, Ledger, Receipt, system_clock
from commonweal.ledger.member_documents import ClientReport
from commonweal.ledger.order import check_round_number
from commonweal.ledger.receipts import receipt_document
from commonweal.ledger.reports import ReportBasis, SignedReport
from commonweal.ledger.rounds import RoundToSettle, draft_round
from commonweal.ledger.seen_heads import trail_document
from commonweal.ledger.signed_files import head_document, signed_content
from commonweal.ledger.silence import KeptOut, at_the_limit, owed_reports
from commonweal.ledger.sql.location import shown
from commonweal.ledger.sql.store import SqlStore, has_ledger, open_store
from commonweal.ledger.state import LedgerState
from commonweal.ledger.statement_parts import MemberLines
from commonweal.ledger.statements import signed_statement
from commonweal.ledger.taking_part import was_not_silent
from commonweal.ledger.terms import Terms
from commonweal.records import RoundRecord

Sign = Callable[[ClientReport], str | None]
"""A client's signature of its report; None if the operator vouches for it."""


class FederationLedger:
    """The ledger that a federation settles in; created with the first round if it does not exist yet.

    `members` are all clients with their public keys; a ledger with members accepts no others. A ledger that has no
    agreed rules before its first round gets those in `agreed`.
    """

    def __init__(
        self,
        location: str,
        keys: KeyDirectory,
        *,
        name: str,
        members: Mapping[str, str | None],
        terms: Terms | None = None,
        sign: Sign = lambda report: None,
        clock: Clock = system_clock,
        replaces_existing: bool = False,
        agreed: AgreedRules | None = None,
    ) -> None:
        self.location = location
        self._keys = keys
        self.agreed = agreed  # by which this federation's rounds are measured and decided
        self.terms = replace(terms or Terms(name=name), agreed=agreed)  # of a ledger that is created here
        self.has_opened = False  # a new ledger was created
        self._members = members
        self._sign = sign
        self._clock = clock
        self._replaces_existing = replaces_existing  # the ledger there now is removed before this one is created
        self._store: SqlStore | None = None
        self._ledger: Ledger | None = None
        self._reader: Ledger | None = None  # until the ledger is opened to be written
        self._lines: MemberLines | None = None  # of all members, since statements were first asked for
        self._key: SigningKey | None = None  # that signed the last of them
        self._known_rotations: tuple[str, Sequence[Document]] | None = None

    def check(self) -> None:
        """Check before any computation that the ledger can accept the federation's rounds."""
        check_names(self._members)
        if not has_ledger(self.location):
            check_look_alikes(self._members)
            return
        store = open_store(self.location)
        try:
            ledger = Ledger(store, self._keys)
            self._keys.key_of(ledger.state.operator)
            self._check_members(ledger)
        finally:
            store.close()

    @property
    def exists(self) -> bool:
        """Whether there is a ledger at the location."""
        return has_ledger(self.location)

    @property
    def shown_location(self) -> str:
        """The location without passwords."""
        return shown(self.location)

    def open(self) -> str:
        """Open the ledger now rather than with the first round; returns its identity, which client reports name."""
        return self._opened().identity

    def settle(
        self,
        record: RoundRecord,
        sample_counts: Mapping[str, int] | None = None,
        signatures: Mapping[str, str] | None = None,
        bases: Mapping[str, ReportBasis] | None = None,
        unused_reports: Mapping[str, tuple[SignedReport, ...]] | None = None,
        *,
        at: str | None = None,
    ) -> Receipt:
        """Settle a round; a round that is already settled stays unchanged. Members without figures were absent.

        `signatures` are the clients' own, `bases` what they signed their reports on, and `unused_reports` those of
        clients that are absent in the end; without signatures each report is signed here. `at` is the time that the
        entry states, from `now`; the same time gives the same entry. Without it, the time is that of writing.
        """
        settled = replace(
            self._to_settle(record, sample_counts), bases=bases or {}, unused_reports=unused_reports or {}
        )
        if self._ledger is None and not has_ledger(self.location):  # create none for a round that it would refuse
            check_round_number(record.round_number, LedgerState(terms=self.terms))
            draft_round(settled, "", self.terms)
        ledger = self._opened()
        ledger.refresh()
        settled = _with_absent(_as_before(settled, ledger), ledger)
        if signatures is None:
            reports = [settled.report(ledger.identity, client) for client in record.decision.figures.clients]
            signatures = {report.client: signed for report in reports if (signed := self._sign(report)) is not None}
        receipt = ledger.settle(replace(settled, signatures=signatures), at=at)
        ledger.end_memberships(at=at)
        return receipt

    def now(self) -> str:
        """The time by the ledger's clock, for `settle`."""
        return time_text(self._clock())

    def check_round(
        self,
        record: RoundRecord,
        sample_counts: Mapping[str, int] | None = None,
        signatures: Mapping[str, str] | None = None,
        bases: Mapping[str, ReportBasis] | None = None,
        unused_reports: Mapping[str, tuple[SignedReport, ...]] | None = None,
    ) -> None:
        """Refuse a round that the ledger would refuse, before anything of it is stored.

        A round that is stored and cannot be settled would stop a session for good. Without signatures, only its content
        is checked.
        """
        settled = self._to_settle(record, sample_counts)
        state = self._state()
        terms = self.terms if state is None else state.terms_of(record.round_number).terms
        draft = draft_round(settled, "", terms)
        if state is not None and record.round_number not in state.rounds:
            check_departures(draft.body, state)
        if signatures and all(basis.terms == self.terms_hash for basis in (bases or {}).values()):
            ledger = self._opened()  # under other terms, clients do not adopt the round
            settled = replace(settled, signatures=signatures, bases=bases or {}, unused_reports=unused_reports or {})
            ledger.check_round(_with_absent(settled, ledger))

    def refuses_late(self, client: str, round_number: int, document: Document, signature: str) -> str:
        """Why the ledger would not take a late report; empty if it would."""
        try:
            self._opened().check_late_report(client, round_number, document, signature)
        except LedgerError as error:
            return str(error)
        return ""

    def report_late(self, client: str, round_number: int, document: Document, signature: str) -> Receipt:
        """Record a report of a settled round by a client that was silent in it."""
        return self._opened().report_late(client, round_number, document, signature)

    def kept_out(self, round_number: int) -> KeptOut:
        """Who gets no model in a round, by the terms on silence."""
        state = self._state()
        if state is None:
            return KeptOut()
        return KeptOut(
            owing={
                client: owed
                for client in state.active(round_number)
                if (owed := owed_reports(state, client, round_number))
            },
            excluded=frozenset(client for client, left in state.excluded.items() if left < round_number),
            at_the_limit=at_the_limit(state, round_number),
        )

    def check_rules(self) -> None:
        """Refuse a ledger whose terms this federation's rules depart from, or that has its clients in another order."""
        state = self._state()
        if state is None or self.agreed is None:
            return
        first, in_force = state.terms_since[0].terms.agreed, state.terms_since[-1].terms.agreed
        if in_force is not None:
            check_same_rules(self.agreed, in_force if first is None else first, in_force)
        elif state.ever_settled:
            if self.agreed.rates is not None:
                raise LedgerError(
                    f"The ledger {shown(self.location)!r} has rounds and no agreed rules, so rates cannot stand in "
                    "it. Use another ledger, or amend its terms first."
                )
            return  # a ledger without agreed rules continues without them
        admitted = [client for client in state.members if client in self._members]
        if (in_force or self.agreed).settlement_version >= 2 and admitted and admitted != list(self._members):
            raise LedgerError(
                f"The clients must be in the order in which the ledger {shown(self.location)!r} admitted them: "
                f"{', '.join(admitted)}. List them in this order."
            )

    def agreed_for(self, round_number: int) -> AgreedRules | None:
        """The rules in force for a round, as amended; None if the ledger has none, or is not there yet."""
        state = self._state()
        return None if state is None else state.terms_of(round_number).terms.agreed

    def withdraw(self, client: str, round_number: int, signature: str | None, *, at: str | None = None) -> Receipt:
        """Record a client's signed notice that it leaves after this round; `at` as for `settle`."""
        return self._opened().withdraw(client, round_number, signature, at=at)

    def statement(self, client: str) -> bytes:
        """The client's signed statement, as `commonweal ledger statement` writes it into a file."""
        self._opened()
        assert self._store is not None, "opened just now"
        return signed_statement(self._store, client, self._keys, at=time_text(self._clock()))

    def statement_part(self, client: str, since: int) -> bytes:
        """The client's signed statement without its first `since` lines; every entry is read once, for all clients."""
        ledger = self._opened()
        assert self._store is not None, "opened just now"
        if self._lines is None:
            self._lines = MemberLines(self._store)
        if self._lines.state.number != ledger.state.number:
            self._lines.catch_up()
        operator = self._lines.state.operator
        if self._key is None or self._key.public != operator:
            self._key = self._keys.key_of(operator)
        return self._lines.signed_part(client, self._key, since=since, at=time_text(self._clock()))

    def receipt(self, round_number: int, client: str, signature: str) -> bytes:
        """A receipt for a client's report of a round, signed with the ledger's current key.

        It is dated no earlier than the last entry, as entries are: the order of their dates may decide about a charge.
        """
        ledger = self._opened()
        ledger.refresh()  # the key may have been changed since
        now, latest = self._clock(), ledger.state.latest
        document = receipt_document(
            ledger=ledger.identity,
            round_number=round_number,
            client=client,
            signature=signature,
            at=time_text(now if latest is None else max(now, latest)),
            key_rotations=self._rotations(ledger),
        )
        return signed_content(document, self._keys.key_of(ledger.state.operator))

    def trail(self, after: int, *, until: int | None = None) -> bytes:
        """The hashes of the entries after this number, signed with the ledger's current key.

        `until` is the number of the last one: others may have entered more in the meantime.
        """
        ledger = self._opened()
        ledger.refresh()
        assert self._store is not None, "opened just now"
        with self._store.reading() as reading:
            entries = reading.entries(after=after)
            hashes = [entry.hash for entry in entries if until is None or entry.number <= until]
        document = trail_document(
            ledger=ledger.identity,
            first=after + 1,
            hashes=hashes,
            at=time_text(self._clock()),
            key_rotations=self._rotations(ledger),
        )
        return signed_content(document, self._keys.key_of(ledger.state.operator))

    def head(self) -> bytes:
        """The last entry, signed with the ledger's current key: proof for members of what the ledger holds."""
        ledger = self._opened()
        ledger.refresh()
        document = head_document(ledger.state, time_text(self._clock()), self._rotations(ledger))
        return signed_content(document, self._keys.key_of(ledger.state.operator))

    def _rotations(self, ledger: Ledger) -> Sequence[Document]:
        """The changes of the operator's key; the ledger is read again only after another one."""
        operator = ledger.state.operator
        if self._known_rotations is None or self._known_rotations[0] != operator:
            assert self._store is not None, "a ledger that was opened has a store"
            self._known_rotations = operator, key_rotations(self._store, "a receipt")
        return self._known_rotations[1]

    @property
    def settled_rounds(self) -> frozenset[int]:
        """The rounds that are settled and not reversed; none if there is no ledger yet."""
        if self._ledger is None and not has_ledger(self.location):
            return frozenset()
        ledger = self._opened()
        ledger.refresh()
        return frozenset(ledger.state.rounds)

    @property
    def operator_key(self) -> str:
        """The public key that signs the ledger now."""
        ledger = self._opened()
        ledger.refresh()
        return ledger.state.operator

    @property
    def terms_hash(self) -> str:
        """The hash of the terms that the next round is settled under."""
        ledger = self._opened()
        ledger.refresh()
        return ledger.state.terms_hash

    @property
    def stated_terms(self) -> frozenset[str]:
        """The hashes of all terms that the ledger has stated."""
        ledger = self._opened()
        ledger.refresh()
        return frozenset(ledger.state.stated_terms)

    def contradiction(self, content: bytes, source: str) -> str:
        """What a signed file that a member keeps says against this ledger; empty if it proves nothing."""
        self._opened()
        assert self._store is not None, "opened just now"
        return contradiction(self._store, content, source)

    def hash_of(self, number: int) -> str:
        """The hash of an entry; empty if there is no such entry."""
        self._opened()
        assert self._store is not None, "opened just now"
        with self._store.reading() as reading:
            entry = next(reading.entries(after=number - 1), None)
        return entry.hash if entry is not None and entry.number == number else ""

    def hash_of_round(self, round_number: int) -> str:
        """The hash of the entry that settles a round; empty if none does."""
        ledger = self._opened()
        ledger.refresh()
        return ledger.state.plays[round_number].entry if round_number in ledger.state.rounds else ""

    def reversals_before(self, round_number: int) -> int:
        """How many entries were reversed before the one that settles a round."""
        ledger = self._opened()
        ledger.refresh()
        settled = ledger.state.rounds.get(round_number, 0)
        return sum(entry < settled for entry in ledger.state.reversals.values())

    def rounds_with(self, client: str) -> list[int]:
        """The rounds that are settled with a client, in order."""
        ledger = self._opened()
        ledger.refresh()
        return sorted(number for number in ledger.state.rounds if client in ledger.state.took_part[number])

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    @property
    def terms_in_force(self) -> Terms:
        """The terms of the ledger; if there is none yet, those it would be opened with."""
        state = self._state()
        return self.terms if state is None or state.terms is None else state.terms

    def _state(self) -> LedgerState | None:
        """The state of the ledger; None if there is none yet, or if this federation's replaces it."""
        if self._ledger is None and (self._replaces_existing or not has_ledger(self.location)):
            return None
        if self._ledger is None and self._reader is None:
            if self._store is None:
                self._store = open_store(self.location)
            self._reader = Ledger(self._store, None)
        ledger = self._ledger or self._reader
        assert ledger is not None, "read just now"
        ledger.refresh()
        return ledger.state

    def _to_settle(self, record: RoundRecord, sample_counts: Mapping[str, int] | None) -> RoundToSettle:
        mechanism = make_mechanism(record.decision.rules)
        return RoundToSettle(
            record=record,
            rules_version=mechanism.version_in_ledgers,
            sample_counts=sample_counts or {},
            with_costs=mechanism.reads_costs,
            active=self._active_after(record) if mechanism.decides else None,
            measured_by=None if self.agreed is None else self.agreed.measured_by,
        )

    def _active_after(self, record: RoundRecord) -> tuple[str, ...]:
        """Who was still in the federation when the mechanism planned the round after this one."""
        there = {*record.decision.figures.clients, *record.absent, *record.resting} - {*record.left}
        return tuple(client for client in self._members if client in there)

    def _opened(self) -> Ledger:
        if self._ledger is None:
            if self._store is None:
                self._store = open_store(self.location, create=True)
            ledger = self._started(self._store)
            self._check_members(ledger)
            if not ledger.state.members:
                ledger.admit(self._members)
            if self.agreed is not None and ledger.terms.agreed is None and not ledger.state.ever_settled:
                ledger.agree(self.agreed)
            self._ledger = ledger
        return self._ledger

    def _started(self, store: SqlStore) -> Ledger:
        with store.reading() as reading:
            is_new = next(reading.entries(), None) is None
        if is_new:
            try:
                ledger = Ledger.start(store, self.terms, self._keys, clock=self._clock)
                self.has_opened = True
                return ledger
            except CommonwealError:  # another process created it first
                with store.reading() as reading:
                    if next(reading.entries(), None) is None:
                        raise
        return Ledger(store, self._keys, clock=self._clock)

    def _check_members(self, ledger: Ledger) -> None:
        """Refuse clients whose keys differ from those they were admitted with, before a round runs."""
        admitted = ledger.state.members
        for client, key in self._members.items():
            if admitted and client not in admitted:
                raise LedgerError(
                    f"Client {client!r} is not a member of the ledger {shown(self.location)!r}. Its members: "
                    f"{', '.join(list(admitted)[:10])}. Use another ledger."
                )
            if admitted and key is None and admitted[client] is not None:
                raise LedgerError(
                    f"{client!r} signs its own reports in the ledger {shown(self.location)!r}, but these figures are "
                    "not signed. Settle them from a federation whose clients sign, or in a ledger that admitted it "
                    "without a key."
                )
            if admitted and admitted[client] != key:
                raise LedgerError(
                    f"Client {client!r} was admitted to the ledger {shown(self.location)!r} with another key. Use that "
                    "key, or another ledger."
                )


def _as_before(settled: RoundToSettle, ledger: Ledger) -> RoundToSettle:
    """A round that is already settled keeps the version of rules that it was settled by."""
    entry = ledger.state.rounds.get(settled.record.round_number)
    if entry is None:
        return settled
    version, decision = ledger.document(entry)["body"]["rules_version"], settled.record.decision
    mechanism = make_mechanism(decision.rules)
    if version not in mechanism.earlier_versions:
        return settled
    decision = replace(decision, rules=mechanism.of_version(version, decision.rules).rules)
    return replace(settled, record=replace(settled.record, decision=decision), rules_version=version)


def _with_absent(settled: RoundToSettle, ledger: Ledger) -> RoundToSettle:
    """The round with all members absent that the ledger must list; one that was reversed makes nobody silent anew."""
    record, absent = settled.record, _absent(settled.record, ledger)
    number, state = record.round_number, ledger.state
    silent = tuple(c for c in absent if c in record.silent and not was_not_silent(c, number, state))
    return replace(settled, record=replace(record, absent=absent, silent=silent))


def _absent(record: RoundRecord, ledger: Ledger) -> tuple[str, ...]:
    """Members of the ledger that the round must list and that are not in it.

    For a settled round the ledger already lists them; who was admitted or withdrew since does not matter.
    """
    number, there, state = record.round_number, record.decision.figures.profits, ledger.state
    if number in state.rounds:
        return tuple(ledger.document(state.rounds[number])["body"]["absent"])
    return tuple(client for client in state.listed_in(number) if client not in there and client not in record.resting)


def default_ledger(directory: Path) -> Path:
    """The default location of a run's ledger."""
    return directory / "ledger.db"
