"""The statements that a member keeps as evidence. None is ever overwritten, and a new one must continue those kept.

statements/round-0001.json              whole statements, or parts with what was new
statements/round-0001-entry-5.json      a later one that came after the same round, up to entry 5 of the ledger
statements/doubtful/round-0001-….json   what contradicts them, signed by the operator
statements/doubtful/other-….json        what the operator signed as well, but is no readable statement of this member,
                                        or tells kept lines in other words
statements/doubtful/early-….json        what starts after lines that are not here; they were asked for
statements/doubtful/unsigned-….json     what the operator did not sign
account.json                            what the statements come to; made again from them if it is lost
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commonweal.atomic_write import make_directory, write_atomically
from commonweal.errors import CommonwealError, StorageError
from commonweal.ledger.canonical import canonical, hash_of
from commonweal.ledger.chain import keys_since
from commonweal.ledger.keys import public_pem, read_public_key
from commonweal.ledger.line_texts import says_the_same
from commonweal.ledger.signed_files import STATEMENT_PART_FORMAT, SignedDocument, read_signed, signed_in
from commonweal.ledger.statement_parts import (
    STATEMENT_FORMATS,
    LinesSoFar,
    StatementPart,
    faults_of_part,
    part_in,
    read_part,
)
from commonweal.ledger.statements import faults_of_signature
from commonweal.records.statement import Statement, StatementLine
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.operator_key import key_in_use, replaced_by, replaced_in_words
from commonweal.remote.member.store import ACCOUNT, DOUBTFUL, ERROR, OPERATOR_KEY, STATEMENTS, MemberStore
from commonweal.remote.member.told_rounds import differences, last_round_told, mislabelled
from commonweal.remote.messages.message import printable

DOUBTFUL_STATEMENT = "DOUBTFUL STATEMENT"  # in the log: after the time of a line that tells of one
MOST_BYTES = 32 * 2**20  # of a statement
# kinds of doubt: how the names of their files start
CONTRADICTING, OTHER, UNSIGNED, EARLY = "", "other-", "unsigned-", "early-"
MOST_DOUBTFUL = {  # files, and bytes of all of them: each kind has a room of its own
    CONTRADICTING: (100, 128 * 2**20),
    OTHER: (20, 16 * 2**20),
    UNSIGNED: (20, 16 * 2**20),
    EARLY: (20, 16 * 2**20),
}
_LONGEST_LINE = 2000  # characters in the log; part of it may be text from the operator
_DATE = re.compile(r"[0-9T:.Z+-]{1,40}")
_FORMAT = "commonweal.account/1"
_UNCHANGED = ("ledger", "client", "client_key", "currency", "minor_digits", "worth", "settlement")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What the statements kept so far come to."""

    facts: dict[str, Any]  # that no later statement may change
    head_number: int
    head: str
    signer: str
    lines: LinesSoFar
    last_round: int | None = None  # that lines tell of; None: kept by a version that did not look

    @classmethod
    def after(cls, part: StatementPart, signed: SignedDocument, before: Account | None) -> Account:
        statement = part.statement
        last_round = 0 if before is None else before.last_round
        return cls(
            facts=_facts(statement),
            head_number=statement.head_number,
            head=statement.head,
            signer=signed.signer,
            lines=part.after,
            last_round=last_round_told(statement.lines, last_round),
        )

    def contradictions(self, part: StatementPart, signed: SignedDocument) -> list[str]:
        """Why a statement cannot come after those kept, whatever its lines are."""
        statement, found, here = part.statement, list[str](), "in the statements kept here"
        for name, value in _facts(statement).items():
            if value != self.facts[name]:
                found.append(f"{name} is {value!r}, but {self.facts[name]!r} {here}")
        if statement.head_number < self.head_number:
            found.append(f"it ends with entry {statement.head_number}, but entry {self.head_number} is {here}")
        elif statement.head_number == self.head_number and statement.head != self.head:
            found.append(f"entry {self.head_number} is {statement.head[:16]}…, but {self.head[:16]}… {here}")
        if signed.signer not in keys_since(self.signer, statement.ledger, signed.document["key_rotations"]):
            found.append(f"it is signed with the key {signed.signer[:16]}…, but with {self.signer[:16]}… {here}")
        return found

    def line_contradictions(self, part: StatementPart) -> list[str]:
        """Why its lines do not continue those kept; no line between them may be missing."""
        statement, known = part.statement, self.lines.count - part.before.count
        if part.before.then(statement.lines[:known]) != self.lines:
            return [f"its first {self.lines.count} lines are not those of the statements kept here"]
        return _out_of_order(statement.lines[known:], self.head_number, statement.head_number)

    def is_told_again(self, part: StatementPart) -> bool:
        statement = part.statement
        return (statement.head_number, statement.head, part.after) == (self.head_number, self.head, self.lines)


def _out_of_order(lines: Iterable[StatementLine], last: int, head_number: int) -> list[str]:
    """A line that is not about an entry after the `last` one told, up to the head."""
    for line in lines:
        if not last < line.entry <= head_number:
            return [f"a line about entry {line.entry} does not lie between entry {last} and entry {head_number}"]
        last = line.entry
    return []


def _facts(statement: Statement) -> dict[str, Any]:
    return {name: getattr(statement, name) for name in _UNCHANGED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What became of a statement."""

    line: str  # for the log
    is_kept: bool  # among the good ones, now or before
    line_count: int  # that the member has, so that it can be sent those after them
    doubt: str = ""  # why it is not among the good ones; empty also if lines before it are missing
    difference: str = ""  # from the member's own reports
    file: str = ""  # where it stands in the member's folder; empty if it was told again, or there was no room
    aside: str = ""  # where it stands if it was told again and says more than what is kept
    new_lines: tuple[StatementLine, ...] = ()
    lines_again: tuple[StatementLine, ...] = ()  # of a statement that was here already: it may not have been logged

    @property
    def answer(self) -> dict[str, Any]:
        """What the coordinator is told."""
        told = {"kept": self.is_kept, "line_count": self.line_count}
        reasons = {"doubt": self.doubt, "difference": self.difference}
        return told | {name: reason for name, reason in reasons.items() if reason}


def keep_statement(store: MemberStore, member: Member, content: str, *, ledger: str, round_number: object) -> Kept:
    """Check a statement against those kept, and keep it with them or aside."""
    return _Keeper(store, member, ledger).keep(content.encode(errors="surrogatepass"), round_number)


def count_statements(store: MemberStore) -> int:
    """How many are kept among the good ones."""
    return len(list((store.path / STATEMENTS).glob("*.json")))


def renew_account(store: MemberStore, member: Member, ledger: str) -> None:
    """Make the account again if a statement was kept since: it says which key of the operator is in use."""
    _Keeper(store, member, ledger).renew_account()


def kept_lines(store: MemberStore, member: Member, ledger: str) -> list[StatementLine]:
    """The lines of all statements kept, in the order of the ledger; those told twice are here twice."""
    return _Keeper(store, member, ledger).lines()


class _Keeper:
    """The statements of one member; its folder is locked."""

    def __init__(self, store: MemberStore, member: Member, ledger: str) -> None:
        self._store = store
        self._member = member
        self._ledger = ledger
        self._folder = store.path / STATEMENTS

    def keep(self, content: bytes, round_number: object) -> Kept:
        # It is to be part of a file's name.
        closed = round_number if type(round_number) is int and 0 <= round_number < 10**9 else None
        name = "round-unknown" if closed is None else f"round-{closed:04d}"
        account = self._account()
        line_count = 0 if account is None else account.lines.count
        file = self._folder / f"{name}.json"
        if _is_content(file, content):
            line = f"statement {file.name} was here already"
            again = tuple(part_in(content, file.name)[0].statement.lines)
            place = self._place(file)
            return Kept(line=line, is_kept=True, line_count=line_count, file=place, lines_again=again)
        try:
            part, signed = self._checked(content, account)
        except _DoubtError as doubt:
            aside, doubtful = self._keep_aside(content, name, doubt.kind)
            return Kept(
                line=f"{DOUBTFUL_STATEMENT} in {name}: {printable(str(doubt), limit=_LONGEST_LINE)} ({aside})",
                is_kept=False,
                line_count=line_count,
                doubt=printable(str(doubt)),
                file=doubtful,
            )
        if part.before.count > line_count:
            aside, early = self._keep_aside(content, name, EARLY)
            line = (
                f"{ERROR} the statement starts after line {part.before.count}, but only {line_count} lines are kept "
                f"here: asked for those between ({aside}). Unless this folder was restored from a backup, the operator "
                "leaves out lines"
            )
            return Kept(line=line, is_kept=False, line_count=line_count, file=early)
        new = part.statement.lines[max(line_count - part.before.count, 0) :]
        difference = self._compare_with_reports(new, account, closed or 0)
        if account is not None and account.is_told_again(part):
            line, place = _signed_line("the statement kept last", part), ""
            if otherwise := self._in_another_form(part, signed, hash_of(content)):
                aside, place = self._keep_aside(content, name, OTHER)
                line += f"; {otherwise} ({aside})"
            return Kept(line=line, is_kept=True, line_count=line_count, difference=difference, aside=place)
        if file.exists():
            file = self._folder / f"{name}-entry-{part.statement.head_number}.json"
        self._trust(signed.signer)  # first: what came between a crash and the next statement could be trusted instead
        write_atomically(file, content, what="a statement")
        self._save(Account.after(part, signed, account))
        return Kept(
            line=_signed_line(f"statement {file.name}", part),
            is_kept=True,
            line_count=part.after.count,
            difference=difference,
            file=self._place(file),
            new_lines=new,
        )

    def _place(self, file: Path) -> str:
        return str(file.relative_to(self._store.path))

    def _checked(self, content: bytes, account: Account | None) -> tuple[StatementPart, SignedDocument]:
        """A statement that continues those kept, except that lines between may be missing; else `_DoubtError`.

        Whatever goes wrong while it is read is a doubt: an error would leave no trace of what the operator signed.
        """
        if len(content) > MOST_BYTES:
            raise _DoubtError(f"it has {len(content)} bytes; at most {MOST_BYTES} are read", kind=UNSIGNED)
        try:
            part, signed = part_in(content, "it")
            self._check_own(part, signed)
            entry = replaced_by(self._store, signed, self._ledger)
            if entry is not None and part.statement.head_number >= entry:
                _doubt([replaced_in_words(signed.signer, entry)])
            if account is not None:
                _doubt(account.contradictions(part, signed))
            _doubt(mislabelled(part.statement.lines, is_part=signed.document["format"] == STATEMENT_PART_FORMAT))
            if account is not None and part.before.count <= account.lines.count:
                _doubt(account.line_contradictions(part))
                _doubt(self._told_otherwise(part, account))
            elif account is None and not part.before.count:
                _doubt(_out_of_order(part.statement.lines, 0, part.statement.head_number))
        except (_DoubtError, StorageError):
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, CommonwealError) else f"it cannot be read ({type(error).__name__})"
            raise _DoubtError(reason, kind=self._kind_of_unreadable(content)) from None
        return part, signed

    def _told_otherwise(self, part: StatementPart, account: Account) -> list[str]:
        """Lines that are kept, and that now say something else: the running hash does not cover their words."""
        again = part.statement.lines[: account.lines.count - part.before.count]
        kept: dict[int, StatementLine] = {}
        for line in self.lines() if again else ():
            kept.setdefault(line.entry, line)
        return [
            f"the line about entry {line.entry} says {line.text[:40]!r}, but {kept[line.entry].text[:40]!r} in the "
            "statements kept here"
            for line in again
            if line.entry in kept and not says_the_same(line, kept[line.entry])
        ]

    def _in_another_form(self, part: StatementPart, signed: SignedDocument, digest: str) -> str:
        """What a statement that is told again says otherwise than those kept; empty if only its date is another one.

        Other words may explain something else, and anything that is signed may be what an operator denies later. If it
        was kept aside before, under its `digest`, it is told again from there.
        """
        kept: dict[int, set[str]] = {}
        for line in self.lines():
            kept.setdefault(line.entry, set()).add(line.text)
        others = [line.entry for line in part.statement.lines if line.text not in kept.get(line.entry, {line.text})]
        if others:
            return f"it tells entry {', '.join(map(str, others))} in other words than before"
        known: set[bytes] = set()
        for file in (*self._folder.glob("*.json"), *(self._folder / DOUBTFUL).glob(f"{OTHER}*.json")):
            with suppress(CommonwealError, ValueError):
                known |= set() if digest[:32] in file.name else _forms(read_signed(file, STATEMENT_FORMATS))
        return "" if _forms(signed) <= known else "it says more than those kept, or says it otherwise"

    def _kind_of_unreadable(self, content: bytes) -> str:
        """What the operator signed has a room of its own, which others cannot fill."""
        with suppress(Exception):
            signed = signed_in(content, "it", STATEMENT_FORMATS)
            rotations = signed.document.get("key_rotations")
            known = self._operator_key() or signed.signer
            keys = keys_since(known, self._ledger, rotations if isinstance(rotations, list) else [])
            if signed.is_sound and signed.signer in (*keys, key_in_use(self._store, known)):
                return OTHER
        return UNSIGNED

    def _compare_with_reports(self, new: Sequence[StatementLine], account: Account | None, closed: int) -> str:
        """Log where new lines differ from the member's own reports, before they are kept and no longer new.

        `closed` is the round that the statement closes; 0 if that is not known.
        """
        last_round = 0 if account is None else account.last_round
        found = differences(self._store, new, last_round, closed=closed, kept=self.lines)
        for difference in found:
            self._store.log(f"{ERROR} {difference}")
        return printable("; ".join(found))

    def _check_own(self, part: StatementPart, signed: SignedDocument) -> None:
        """Doubt a statement that the operator did not sign, that does not add up, or that is somebody else's."""
        statement, key = part.statement, self._operator_key() or signed.signer
        found = faults_of_part(part, signed, key)
        if statement.client != self._member.name or statement.ledger != self._ledger:
            found.append(f"it is for {statement.client!r} in ledger {statement.ledger[:16]}…, not for this member")
        keys = (key, key_in_use(self._store, key))  # who signs with the latter may have left out how it came about
        _doubt(found, kind=UNSIGNED if all(faults_of_signature(statement, signed, each) for each in keys) else OTHER)

    def _operator_key(self) -> str | None:
        """None: no statement has come yet, and the key that signs the first one will be trusted."""
        known = self._member.operator_key_file or self._store.path / OPERATOR_KEY
        if self._member.operator_key_file is None and not known.exists():
            return None
        return read_public_key(known)

    def _trust(self, signer: str) -> None:
        """From the first statement on, it must be the same operator."""
        if self._operator_key() is None:
            write_atomically(self._store.path / OPERATOR_KEY, public_pem(signer), what="the operator's public key")

    def _keep_aside(self, content: bytes, name: str, kind: str) -> tuple[str, str]:
        """Keep what may prove something, as long as there is room for its kind.

        Returns what became of it, in words, and where it is; empty if it is nowhere.
        """
        folder = self._folder / DOUBTFUL
        file = folder / f"{kind}{name}-{hash_of(content)[:32]}.json"
        if file.exists():
            return f"kept before as {DOUBTFUL}/{file.name}", self._place(file)
        most, most_bytes = MOST_DOUBTFUL[kind]
        alike = [path for path in folder.glob("*.json") if _kind_of(path) == kind]
        if len(alike) >= most:
            which = f" {kind.rstrip('-')} ones" if kind else ""
            return f"not kept, since there are {len(alike)}{which} in {DOUBTFUL}; SHA-256 {hash_of(content)}", ""
        if len(content) > MOST_BYTES or sum(path.stat().st_size for path in alike) + len(content) > most_bytes:
            return f"not kept, since it has {len(content)} bytes; SHA-256 {hash_of(content)}", ""
        make_directory(folder)
        write_atomically(file, content, what="a doubtful statement")
        return f"kept as {DOUBTFUL}/{file.name}", self._place(file)

    def renew_account(self) -> None:
        self._account()

    def _account(self) -> Account | None:
        """What the statements come to; None if there are none."""
        files = sorted(self._folder.glob("*.json"))
        if not files:
            return None
        try:
            given = json.loads((self._store.path / ACCOUNT).read_bytes())
            if given["format"] == _FORMAT and given["file_count"] == len(files):
                head, lines = given["head"], LinesSoFar.from_document(given["lines"])
                facts = {name: given["facts"][name] for name in _UNCHANGED}
                return Account(
                    facts=facts,
                    head_number=int(head["number"]),
                    head=head["hash"],
                    signer=given["signer"],
                    lines=lines,
                    last_round=None if given.get("last_round") is None else int(given["last_round"]),
                )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # of an earlier version, or damaged
        return self._made_again(files)

    def lines(self) -> list[StatementLine]:
        return [line for _, part, _ in self._sound(self._folder.glob("*.json")) for line in part.statement.lines]

    def _sound(self, files: Iterable[Path]) -> list[tuple[str, StatementPart, SignedDocument]]:
        """The statements in files that the operator signed for this member, by their last entries."""
        readable = []
        for file in files:
            try:
                part, signed = read_part(file)
                self._check_own(part, signed)
                readable.append((part.statement.head_number, file.name, part, signed))
            except (CommonwealError, _DoubtError) as error:
                self._store.log(f"{DOUBTFUL_STATEMENT} in {file.name}: {error}")
        return [each[1:] for each in sorted(readable, key=lambda each: each[:2])]

    def _made_again(self, files: Iterable[Path]) -> Account | None:
        """The account by the files alone. Earlier versions kept doubtful ones among them; those do not count."""
        account: Account | None = None
        for name, part, signed in self._sound(files):
            found = [] if account is None else account.contradictions(part, signed)
            if account is not None and not found and part.before.count <= account.lines.count:
                found = account.line_contradictions(part)
            if found:
                self._store.log(f"{DOUBTFUL_STATEMENT} in {name}: {'; '.join(found)}")
            else:
                account = Account.after(part, signed, account)
        if account is not None:
            self._save(account)
        return account

    def _save(self, account: Account) -> None:
        document = {
            "format": _FORMAT,
            "file_count": count_statements(self._store),
            "facts": account.facts,
            "head": {"number": account.head_number, "hash": account.head},
            "signer": account.signer,
            "lines": account.lines.to_document(),
            "last_round": account.last_round,
        }
        content = json.dumps(document, indent=1).encode()
        write_atomically(self._store.path / ACCOUNT, content, what="what the statements come to")


class _DoubtError(Exception):
    """Why a statement is not kept with the others."""

    def __init__(self, text: str, *, kind: str) -> None:
        super().__init__(text)
        self.kind = kind


def _doubt(found: list[str], *, kind: str = CONTRADICTING) -> None:
    if found:
        raise _DoubtError("; ".join(found), kind=kind)


def _kind_of(file: Path) -> str:
    return next((kind for kind in (OTHER, UNSIGNED, EARLY) if file.name.startswith(kind)), CONTRADICTING)


def _forms(signed: SignedDocument) -> set[bytes]:
    """What was signed but for its date: each line, and what is around them, whatever lines are left out."""
    given, around = signed.document, {**signed.document, "lines": None}
    with suppress(ValueError, TypeError, KeyError):
        if LinesSoFar.from_document(given["before"]).to_document() == given["before"]:
            around["before"] = None
    if isinstance(given.get("at"), str) and _DATE.fullmatch(given["at"]):
        around["at"] = None
    lines = given["lines"] if isinstance(given.get("lines"), list) else []
    return {canonical({"around": around, "signer": signed.signer}), *(canonical({"line": line}) for line in lines)}


def _is_content(file: Path, content: bytes) -> bool:
    return file.exists() and file.stat().st_size == len(content) and file.read_bytes() == content


def _signed_line(what: str, part: StatementPart) -> str:
    return f"{what} is signed by the operator, balance {part.after.balance} minor units"
