"""Verify a book without trusting anybody: replay the chain, the signatures, the balances, and every decision.

All findings are returned, each naming the entry, the rule, what was expected and what was found. What is checked is
computed anew from each entry's own inputs, never taken over from the code that wrote the entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from commonweal.errors import InputError
from commonweal.ledger.book import rotation_message
from commonweal.ledger.canonical import canonical, hash_of, parse
from commonweal.ledger.difference import first_difference
from commonweal.ledger.entries import (
    FORMAT,
    INCOME,
    Posting,
    StoredEntry,
    client_account,
    postings_of,
    signed_message,
)
from commonweal.ledger.keys import is_signed
from commonweal.ledger.money import in_proportion
from commonweal.ledger.rounds import decision_document, figures_of, report_of, round_postings
from commonweal.ledger.state import BookState
from commonweal.ledger.store import Store, StoredPosting
from commonweal.ledger.witness import Witness
from commonweal.records import Decision, Figures, Rules

Recompute = Callable[[str, Figures, Rules, bool], Decision]
"""The mechanism of a version of the rules: (version, figures, rules, grace) → decision. InputError: no such version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is not as it must be."""

    entry: int
    rule: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"entry {self.entry}: {self.rule}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What came out of verifying a book."""

    findings: tuple[Finding, ...]
    state: BookState  # where the book stands, by its entries' contents
    round_count: int  # decisions that were recomputed
    signed_reports: int
    unsigned_reports: int  # of clients that were admitted without a key: the operator's word


def audit(
    store: Store,
    recompute: Recompute,
    *,
    operator: str | None = None,
    witnesses: Sequence[Witness] = (),
    progress: Callable[[int], None] | None = None,
) -> Audit:
    """Verify the whole book. `operator` is the public key that must have signed its first entry, or a later one since.

    `witnesses` are heads that somebody kept: an operator that rewrote the book cannot have foreseen them.
    """
    auditor = _Auditor(recompute, witnesses)
    with store.reading() as reading:
        postings = groupby(reading.postings(), key=attrgetter("entry"))
        waiting = next(postings, None)
        for entry in reading.entries():
            while waiting is not None and waiting[0] < entry.number:
                auditor.orphans(waiting[0], list(waiting[1]))
                waiting = next(postings, None)
            rows: list[StoredPosting] = []
            if waiting is not None and waiting[0] == entry.number:
                rows = list(waiting[1])
                waiting = next(postings, None)
            auditor.check(entry, rows)
            if progress is not None:
                progress(entry.number)
        while waiting is not None:
            auditor.orphans(waiting[0], list(waiting[1]))
            waiting = next(postings, None)
    auditor.conclude(operator)
    return Audit(
        findings=tuple(auditor.findings),
        state=auditor.state,
        round_count=auditor.round_count,
        signed_reports=auditor.signed_reports,
        unsigned_reports=auditor.unsigned_reports,
    )


class _Auditor:
    """An audit under way: the book's state so far, and what was found."""

    def __init__(self, recompute: Recompute, witnesses: Sequence[Witness]) -> None:
        self._recompute = recompute
        self._witnesses = witnesses
        self._witnessed = {witness.number for witness in witnesses}
        self._seen: dict[int, str] = {}  # hashes of the entries that witnesses speak of
        self._past: dict[int, tuple[str, tuple[Posting, ...]]] = {}  # kind and postings: what can be reversed
        self._operators: list[str] = []
        self._rows_by_account: Counter[str] = Counter()
        self.state = BookState()
        self.findings: list[Finding] = []
        self.round_count = self.signed_reports = self.unsigned_reports = 0

    def check(self, entry: StoredEntry, rows: Sequence[StoredPosting]) -> None:
        """One entry, after all before it."""
        number = entry.number
        for missing in range(self.state.number + 1, min(number, self.state.number + 101)):
            self._find(missing, "entries are numbered without gaps", "an entry", f"none; the next is {number}")
        document = parse(entry.content)
        if entry.number in self._witnessed:
            self._seen[number] = entry.hash
        self._check_chain(entry, document)
        for row in rows:
            self._rows_by_account[row.posting.account] += row.posting.amount
        if document is None:
            self.state.number, self.state.head = number, entry.hash
            return
        try:
            stated = postings_of(document)
            self._check_postings(number, stated, rows)
            expected = self._expected_postings(number, document)
            if expected is not None:
                self._compare(number, "postings follow from the entry's inputs", _sorted(expected), _sorted(stated))
            self._past[number] = (document["kind"], stated)
            self.state.apply(document, entry.hash)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            self._find(number, "an entry states all that its kind needs", "an entry of a known form", _told(error))
        self.state.number, self.state.head = number, entry.hash
        if document.get("kind") in ("opening", "key-rotation"):
            self._operators.append(self.state.operator)

    def orphans(self, number: int, rows: Sequence[StoredPosting]) -> None:
        """Postings of an entry that is not there."""
        self._find(number, "postings belong to an entry", f"entry {number}", f"{len(rows)} postings and no such entry")
        for row in rows:
            self._rows_by_account[row.posting.account] += row.posting.amount

    def conclude(self, operator: str | None) -> None:
        """What can be told once all entries were seen."""
        if not self.state.number:
            self._find(1, "a book starts with its terms", "an opening entry", "no entry")
        if operator is not None and operator not in self._operators:
            self._find(1, "the book is the operator's", f"its key {operator[:16]}…", _short_keys(self._operators))
        replayed = +self.state.balances
        for account in sorted({*self._rows_by_account, *self.state.balances}):
            if self._rows_by_account[account] != self.state.balances[account]:
                self._find(
                    self.state.number,
                    f"the balance of {account} follows from the entries",
                    str(self.state.balances[account]),
                    str(self._rows_by_account[account]),
                )
        if sum(self.state.balances.values()):
            self._find(self.state.number, "the book sums to zero", "0", str(sum(replayed.values())))
        for witness in self._witnesses:
            self._check_witness(witness)

    def _check_chain(self, entry: StoredEntry, document: Mapping[str, Any] | None) -> None:
        number, content = entry.number, entry.content.encode()
        digest = hash_of(content)
        self._compare(number, "the hash is that of the content", digest, entry.hash)
        if document is None:
            self._find(number, "the content is a JSON document", "one", entry.content[:60])
            return
        if not _is_canonical(document, content):
            self._find(number, "the content is canonical JSON (RFC 8785)", "its one form", "another")
        self._compare(number, "the content is of a known format", FORMAT, document.get("format"))
        self._compare(number, "the content states its own number", number, document.get("number"))
        self._compare(number, "an entry is chained to the one before", self.state.head, document.get("previous"))
        # The first entry names the key that signs it; who may say so is for the caller's `operator` and witnesses.
        body = document.get("body")
        opening = document.get("kind") == "opening" and isinstance(body, dict)
        operator = body.get("operator", "") if opening and isinstance(body, dict) else self.state.operator
        if not is_signed(signed_message(digest), entry.signature, operator):
            self._find(number, "the operator signed the entry", f"a signature by {operator[:16]}…", "another or none")

    def _check_postings(self, number: int, stated: Sequence[Posting], rows: Sequence[StoredPosting]) -> None:
        if sum(posting.amount for posting in stated):
            self._find(number, "an entry sums to zero", "0", str(sum(posting.amount for posting in stated)))
        expected = [(place, posting) for place, posting in enumerate(stated)]
        found = [(row.position, row.posting) for row in rows]
        for wanted, got in zip(expected, found, strict=False):
            if wanted != got:
                self._find(number, "the table of postings is what the entry states", _row(*wanted), _row(*got))
                return
        if len(expected) != len(found):
            self._compare(
                number, "the table of postings is what the entry states", f"{len(expected)} rows", f"{len(found)} rows"
            )

    def _expected_postings(self, number: int, document: Mapping[str, Any]) -> tuple[Posting, ...] | None:
        """The postings that an entry must have by its own inputs; rules of its kind are checked on the way."""
        kind, body = document["kind"], document["body"]
        if (kind == "opening") != (number == 1):
            self._find(number, "a book has one opening, its first entry", "entry 1", f"{kind} as entry {number}")
        if kind == "round":
            return self._check_round(number, body)
        if kind == "realisation":
            return self._check_realisation(number, body)
        if kind == "reversal":
            return self._check_reversal(number, body)
        if kind == "admission":
            for member in body["members"]:
                if member["client"] in self.state.members:
                    self._find(number, "a client is admitted once", "a new client", member["client"])
        elif kind == "key-rotation":
            public = body["operator"]
            if not is_signed(rotation_message(self.state.book, public), body["proof"], public):
                self._find(number, "a new key signs its own name", f"a proof by {public[:16]}…", "another or none")
        elif kind != "opening":
            self._find(number, "an entry is of a known kind", "one of six kinds", str(kind))
        return ()

    def _check_round(self, number: int, body: Mapping[str, Any]) -> tuple[Posting, ...] | None:
        held, state = body["round"], self.state
        if held in state.rounds:
            self._find(number, "a round is settled once", f"round {held} in entry {state.rounds[held]} alone", "again")
        for client in (*(row["client"] for row in body["inputs"]), *body["absent"]):
            if client not in state.members:
                self._find(number, "rounds are settled among members", "an admitted client", str(client))
        for row in body["inputs"]:
            self._check_report(number, body, row)
            gone = state.eliminated.get(row["client"])
            if gone is not None and gone < held:
                self._find(
                    number, "the eliminated take part in no later round", f"{row['client']} gone since {gone}", "it did"
                )
        for client in body["decision"]["eliminated"]:
            later = state.took_part_after(client, held)
            if later is not None:
                self._find(
                    number, "the eliminated take part in no later round", f"{client} not in round {later}", "it was"
                )
        return self._check_decision(number, body)

    def _check_report(self, number: int, body: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        client, signature = row["client"], row["signature"]
        key = self.state.members.get(client)
        if key is None:
            self.unsigned_reports += 1
        elif signature is None or not report_of(body, row, self.state.book).is_signed(signature, key):
            self._find(
                number,
                "a report is signed by its client",
                f"a signature by {client}",
                "none" if not signature else "another",
            )
        else:
            self.signed_reports += 1

    def _check_decision(self, number: int, body: Mapping[str, Any]) -> tuple[Posting, ...] | None:
        figures, rules, grace = figures_of(body)
        try:
            decision = self._recompute(body["rules_version"], figures, rules, grace)
        except InputError as error:
            self._find(number, "the decision can be made again from its inputs", "a decision", str(error))
            return None
        self.round_count += 1
        recorded, again = body["decision"], decision_document(decision)
        for name in ("retained", "eliminated"):
            self._compare(number, f"the decision follows from its inputs: {name}", again[name], recorded[name])
        if again["retained"] != recorded["retained"]:
            return None
        rounding = decision.rounding
        for name in ("objective", "budget"):
            self._compare_figures(number, name, [again[name]], [recorded[name]], rounding)
        for name in ("shares", "payoffs", "transfers"):
            # A share is a ratio: its rounding does not grow with the profits.
            self._compare_figures(number, name, again[name], recorded[name], 1e-9 if name == "shares" else rounding)
        assert self.state.terms is not None, "a book starts with its terms"
        return round_postings(_as_recorded(decision, recorded), self.state.terms)

    def _check_realisation(self, number: int, body: Mapping[str, Any]) -> tuple[Posting, ...] | None:
        amount, reference = int(body["amount"]), body["reference"]
        before = self.state.references.get(reference)
        if before is not None:
            self._find(number, "a reference is used once", f"{reference!r} in entry {before.entry} alone", "again")
        weights = self.state.weights()
        if amount <= 0 or not weights:
            self._find(number, "income is divided among those who accrued", "income and somebody", f"{amount}")
            return None
        parts = in_proportion(amount, weights)
        return (
            Posting(INCOME, -amount),
            *(Posting(client_account(client), part) for client, part in parts.items() if part),
        )

    def _check_reversal(self, number: int, body: Mapping[str, Any]) -> tuple[Posting, ...] | None:
        entry = body["entry"]
        if entry in self.state.reversals:
            self._find(number, "an entry is reversed once", f"entry {entry} by {self.state.reversals[entry]}", "again")
        kind, stated = self._past.get(entry, ("no entry", ()))
        if kind not in ("round", "realisation"):
            self._find(number, "rounds and realisations can be reversed", "one of them", f"entry {entry}, {kind}")
            return None
        return tuple(Posting(posting.account, -posting.amount) for posting in stated)

    def _check_witness(self, witness: Witness) -> None:
        if witness.book != self.state.book:
            self._find(
                1, f"{witness.source} speaks of this book", f"book {witness.book[:16]}…", f"{self.state.book[:16]}…"
            )
        elif not any(witness.is_signed_by(operator) for operator in self._operators):
            self._find(
                witness.number,
                f"the operator signed {witness.source}",
                _short_keys(self._operators),
                "another key or none",
            )
        elif witness.number not in self._seen:
            self._find(
                witness.number, f"{witness.source} has seen this entry", f"hash {witness.head[:16]}…", "no such entry"
            )
        elif self._seen[witness.number] != witness.head:
            self._find(
                witness.number,
                f"the entry is as {witness.source} has seen it",
                f"hash {witness.head[:16]}…",
                f"{self._seen[witness.number][:16]}…",
            )

    def _compare_figures(
        self, number: int, name: str, expected: Sequence[Any], found: Sequence[Any], rounding: float
    ) -> None:
        wanted, got = [float(value) for value in expected], [float(value) for value in found]
        same = len(wanted) == len(got) and all(
            one == other or abs(one - other) <= rounding for one, other in zip(wanted, got, strict=True)
        )
        if not same:
            self._compare(number, f"the decision follows from its inputs: {name}", wanted, got)

    def _compare(self, number: int, rule: str, expected: Any, found: Any) -> None:
        difference = first_difference(expected, found)
        if difference is not None:
            path, wanted, got = difference
            self._find(number, rule, f"{path} {wanted}".strip(), got)

    def _find(self, entry: int, rule: str, expected: str, found: str) -> None:
        self.findings.append(Finding(entry=entry, rule=rule, expected=expected, found=found))


def _as_recorded(decision: Decision, recorded: Mapping[str, Any]) -> Decision:
    """The decision with the amounts that were recorded: within rounding they are what the money was made from."""
    from dataclasses import replace

    def amounts(name: str) -> dict[str, float]:
        return dict(zip(decision.retained, map(float, recorded[name]), strict=True))

    return replace(decision, payoffs=amounts("payoffs"), transfers=amounts("transfers"))


def _is_canonical(document: Mapping[str, Any], content: bytes) -> bool:
    try:
        return canonical(document) == content
    except (ValueError, RecursionError):
        return False


def _sorted(postings: Sequence[Posting]) -> list[str]:
    return [f"{posting.account} {posting.amount}" for posting in postings]


def _row(position: int, posting: Posting) -> str:
    return f"[{position}] {posting.account} {posting.amount}"


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:100]


def _short_keys(operators: Sequence[str]) -> str:
    return ", ".join(f"{operator[:16]}…" for operator in operators) or "no key"
