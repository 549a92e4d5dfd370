"""What the operator signed and sends now, compared with the entries seen before: statements, trails and heads.

A trail is learned if no entry is left out between those seen and the statement that came with it: it starts right after
the last entry seen, or before, with the same hashes, and ends with the last entry of the statement. A member that has
seen nothing, because it joined late or lost its folder, starts with the first trail it gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from commonweal.atomic_write import make_directory, write_atomically
from commonweal.errors import CommonwealError, LedgerError, StorageError
from commonweal.ledger.canonical import hash_of
from commonweal.ledger.chain import keys_since
from commonweal.ledger.seen_heads import LARGEST_TRAIL, TRAIL_FIELDS, TRAIL_FORMAT, hashes_in_trail
from commonweal.ledger.signed_files import (
    HEAD_FIELDS,
    HEAD_FORMAT,
    WITH_HEAD,
    KnownHead,
    SignedDocument,
    known_head_in,
    signed_in,
)
from commonweal.remote.member.entry_comparison import LARGEST_HEAD, EntryComparison
from commonweal.remote.member.kept_aside import APART, CONTRADICTING, EARLY_TRAIL, OTHER, KeptAside
from commonweal.remote.member.kept_statements import MOST_BYTES, Kept
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.operator_key import key_in_use, replaced_by, replaced_in_words
from commonweal.remote.member.seen_entries import SeenEntries
from commonweal.remote.member.store import (
    DOUBTFUL,
    ERROR,
    OPERATOR_HEAD,
    OPERATOR_HEADS,
    STATEMENTS,
    TRAILS,
    MemberStore,
)

_ADVICE = "Unless this folder was restored from a backup, the operator leaves out entries: ask for a copy of the ledger"

_FIELDS = {HEAD_FORMAT: HEAD_FIELDS, TRAIL_FORMAT: TRAIL_FIELDS}


class Incoming:
    """Call it only while the member's folder is locked."""

    def __init__(self, store: MemberStore, member: Member, ledger: str) -> None:
        self._store = store
        self.seen = SeenEntries(store, member, ledger)
        self._comparison = EntryComparison(store, self.seen)
        self._aside = KeptAside(store)
        self.went_back = ""  # why the head or statement that came now shows an older ledger than was seen, or another
        self.came: dict[int, str] = {}  # the entries that these and a trail name

    def compare_receipt(self, content: str) -> list[str]:
        """Compare the changes of the operator's key that a receipt names; returns lines for the log."""
        return self._comparison.compare_receipt(content)

    def catch_up(self) -> list[str]:
        """Compare and list the statements and trails that were kept right before the program was killed.

        Returns lines for the log.
        """
        lines: list[str] = []
        for file in self.seen.kept_files():
            place = self.seen.place_of(file)
            entries = {} if place in self.seen.listed else self.seen.entries_in(file)
            if entries and file.parent.name == TRAILS:
                lines += self._learn(entries, place)
            for number, digest in entries.items() if file.parent.name == STATEMENTS else ():
                signed = known_head_in(file.read_bytes(), file.name).signed
                lines += self._comparison.compare_rotations(signed, place, {number: (digest, place)})
                lines += self._learn_last(number, digest, place)
        return lines

    def learn(self, statement: str | None, trail: str | None, kept: Kept | None) -> list[str]:
        """Remember what a question that closes a round names; returns lines for the log if something is wrong.

        A statement counts if it was kept: then it is the operator's. If not, its trail is only compared, and so is its
        last entry if the operator signed it, whatever else is wrong with it and whether or not there was room for it.
        """
        shown: dict[int, tuple[str, str]] = {}
        known, source, seen = None, "", self.seen.shown
        if kept is not None and kept.is_kept and statement is not None:
            known = known_head_in(statement.encode(), "the statement")
            # What was told again is not kept again: its last entry stands where it was named first.
            shown = {known.number: (known.head, kept.file or self.seen.shown.get(known.number, ("", STATEMENTS))[1])}
            source = kept.file or kept.aside or "a statement that was told again"
        elif kept is not None and statement is not None:
            known = self._signed_head(statement)
            source = kept.file or f"{STATEMENTS}/{DOUBTFUL}/not-kept"
        if known is not None:
            self._check_going_back(known, seen)
        lines = [*self._learn_trail(trail, shown), *self._keep_what_says_more(trail)] if trail else []
        if known is not None:
            is_in_file = statement is None or (kept is not None and bool(kept.file or kept.aside))
            content = b"" if statement is None or is_in_file else statement.encode()
            named = {known.number: (known.head, source)}
            lines += self._comparison.compare_rotations(known.signed, source, named, content)
            if not shown:
                lines += self._comparison.compare_and_name({known.number: known.head}, source)
        for number, (digest, source) in shown.items():
            lines += self._learn_last(number, digest, source)
            if not lines and number > (last := self.seen.last()):
                lines.append(f"{ERROR} no trail came of entries {last + 1} to {number}. {_ADVICE}")
        return lines

    def _learn_trail(self, given: str, shown: Mapping[int, tuple[str, str]]) -> list[str]:
        """Remember the entries that a trail names; returns lines for the log if something is wrong with it.

        `shown` is the last entry by the statement that came with it; empty if that was not kept.
        """
        content = given.encode(errors="surrogatepass")
        if len(content) > LARGEST_TRAIL:
            return [
                f"{ERROR} a trail of the ledger's entries has {len(content)} bytes; at most {LARGEST_TRAIL} are read. "
                f"Not kept, SHA-256 {hash_of(content)}. {_ADVICE}"
            ]
        try:
            signed = signed_in(content, "the message", (TRAIL_FORMAT,))
            operator = self.seen.operator_of(signed)
            hashes = hashes_in_trail(signed, ledger=self.seen.ledger, operator=key_in_use(self._store, operator))
            reason = self._replaced(signed, max(hashes, default=0))
        except StorageError:
            raise
        except Exception as error:
            return [self._doubt("TRAIL of the ledger's entries", content, error)]
        if reason:
            found = self._comparison.compare(hashes, self._aside.place(content, "doubtful"))
            return [self._doubt("TRAIL of the ledger's entries", content, LedgerError(reason)), *found]
        self.came |= hashes
        known = {**shown, **self.seen.shown}
        if differing := [number for number, digest in hashes.items() if known.get(number, (digest,))[0] != digest]:
            first = differing[0]
            self.went_back = _another_ledger(first, hashes[first], known[first][1])
            source = self._aside.keep(content, CONTRADICTING)
            return [self._comparison.contradiction(differing[0], hashes[differing[0]], source, *known[differing[0]])]
        own = {number: (digest, "the trail itself") for number, digest in hashes.items()}
        if lines := self._comparison.compare_rotations(signed, "a trail", own, content):
            self._aside.keep(content, CONTRADICTING)
            return [*lines, *self._comparison.compare(hashes, self._aside.place(content, CONTRADICTING))]
        if hashes.keys() <= self.seen.by_number.keys():
            return self._comparison.compare(hashes, TRAILS)  # there is nothing to learn
        if not shown:
            source, found = self._compare_unlearned(content, hashes, EARLY_TRAIL)
            return [f"a trail of the ledger's entries came with a statement that was not kept ({source})", *found]
        first, last, (head,) = min(hashes), max(hashes), shown
        lines, faults = [], []
        if not self.seen.by_number and first > 1:
            lines = [
                f"{ERROR} the first trail seen here starts with entry {first}; entries before it cannot be compared. "
                f"{_ADVICE}"
            ]
        elif self.seen.by_number and first > self.seen.last() + 1:
            faults.append(f"it starts with entry {first}, but entry {self.seen.last()} is the last one seen here")
        if last != head:
            faults.append(f"it ends with entry {last}, but the statement that came with it ends with entry {head}")
        if faults:
            source, found = self._compare_unlearned(content, hashes, APART)
            return [
                f"{ERROR} a trail of the ledger's entries is not learned: {'; '.join(faults)} ({source}). {_ADVICE}",
                *found,
            ]
        file = self._store.path / TRAILS / f"{first:06d}-{last:06d}-{hash_of(content)[:32]}.json"
        make_directory(file.parent)
        write_atomically(file, content, what="a trail")
        return [*lines, *self._learn(hashes, f"{TRAILS}/{file.name}")]

    def _compare_unlearned(self, content: bytes, hashes: Mapping[int, str], kind: str) -> tuple[str, list[str]]:
        """Compare a trail that is not learned, and keep it aside for later ones; returns where, and lines for the log.

        If there is no room for it, its entries are named: the next trail may contradict it.
        """
        if not self._aside.has_room(content, kind):
            source = self._aside.keep(content, kind)  # it says so in the log
            return source, self._comparison.compare_and_name(hashes, source)
        found = self._comparison.compare(hashes, self._aside.place(content, kind))
        return self._aside.keep(content, kind), found

    def _check_going_back(self, known: KnownHead, seen: Mapping[int, tuple[str, str]]) -> None:
        """Note if what came ends with another entry than was seen, or an earlier one."""
        latest = max(seen, default=0)
        self.came[known.number] = known.head
        if seen.get(known.number, (known.head,))[0] != known.head:
            self.went_back = _another_ledger(known.number, known.head, seen[known.number][1])
        elif known.number < latest:
            self.went_back = (
                f"the ledger is said to end with entry {known.number}, but the operator showed entry {latest} here "
                f"before, in {seen[latest][1]}"
            )

    def _signed_head(self, statement: str) -> KnownHead | None:
        """The last entry that a statement names; None if the operator did not sign it, or it is too long to be read."""
        if len(statement) <= MOST_BYTES:
            with suppress(CommonwealError, UnicodeEncodeError):
                known = known_head_in(statement.encode(), "the statement")
                if self.seen.is_by_operator(known, key_in_use(self._store, self.seen.operator_of(known.signed))):
                    return known
        return None

    def _learn_last(self, number: int, digest: str, source: str) -> list[str]:
        """Remember the last entry of a statement that is kept; returns lines for the log."""
        lines = []
        if (latest := max(self.seen.heads(), default=0)) > number:
            lines = [
                f"{ERROR} the statement ends with entry {number}, but the operator signed entry {latest} when it "
                f"opened a round. {_ADVICE}"
            ]
        if not self.seen.by_number or number >= min(self.seen.by_number):
            lines += self._learn({number: digest}, source)
        return lines

    def take_head(self, given: str) -> list[str]:
        """Keep a head that the operator signed; returns lines for the log if something is wrong."""
        content = given.encode(errors="surrogatepass")
        try:
            if len(content) > LARGEST_HEAD:
                raise LedgerError(f"it has {len(content)} bytes; at most {LARGEST_HEAD} are read")
            known = known_head_in(content, "the message")
            operator = key_in_use(self._store, self.seen.operator_of(known.signed))
            if not self.seen.is_by_operator(known, operator):
                raise LedgerError("the operator did not sign it")
        except StorageError:
            raise
        except Exception as error:
            return [self._doubt("HEAD of the ledger", content, error)]
        seen = self.seen.shown
        self._check_going_back(known, seen)
        if seen.get(known.number, (known.head,))[0] != known.head:
            source = self._aside.keep(content, CONTRADICTING)
            return [self._comparison.contradiction(known.number, known.head, source, *seen[known.number])]
        if reason := self._replaced(known.signed, known.number):
            self.went_back = f"the head of the ledger cannot be the operator's: {reason}"
            found = self._comparison.compare({known.number: known.head}, self._aside.place(content, "doubtful"))
            return [self._doubt("HEAD of the ledger", content, LedgerError(reason)), *found]
        if known.number not in self.seen.by_number and (place := self._contradicting(known)):
            self.went_back = _another_ledger(known.number, known.head, f"what {place} contradicts")
            aside = self._aside.keep(content, CONTRADICTING)
            return [f"DOUBTFUL HEAD of the ledger: it is of another one, as {place} is ({aside})"]
        if not _is_head(known):
            place, entry = self._aside.place(content, self._kind_of_doubt(content)), {known.number: known.head}
            return [
                self._doubt("HEAD of the ledger", content, LedgerError("it is a statement, which is no head")),
                *self._comparison.compare_rotations(known.signed, place, {known.number: (known.head, place)}, content),
                *self._comparison.compare_and_name(entry, place),
            ]
        latest = max(seen, default=0)
        lines = self._comparison.compare({known.number: known.head}, OPERATOR_HEAD)
        if known.number not in self.seen.heads() and not self._is_stated(known):
            lines += self._keep_head(content, known.number, known.head, is_latest=known.number > latest)
        rotations = self._comparison.compare_rotations(known.signed, "the head of an opening", {}, content)
        return [*lines, *rotations, *self._keep_what_says_more(given)]

    def _replaced(self, signed: SignedDocument, last: int) -> str:
        """Why the operator cannot have signed a document that ends with this entry; empty if it can."""
        entry = replaced_by(self._store, signed, self.seen.ledger)
        return "" if entry is None or last < entry else replaced_in_words(signed.signer, entry)

    def _is_stated(self, known: KnownHead) -> bool:
        """Whether a statement proves as much as a head; one that a replaced key signed may prove nothing.

        No statement proves as much as another one, which has lines of its own.
        """
        is_by_same = _is_head(known) and known.signed.signer == key_in_use(self._store, known.signed.signer)
        return is_by_same and (known.number, known.head) in self.seen.stated

    def _contradicting(self, known: KnownHead) -> str:
        """The trail that contradicts what was seen and names the same entry; empty if there is none."""
        for file in sorted((self._store.path / TRAILS / DOUBTFUL).glob(f"{CONTRADICTING}-*.json")):
            if self.seen.read_once(file).get(known.number) == known.head:
                return self.seen.place_of(file)
        return ""

    def _keep_head(self, content: bytes, number: int, digest: str, *, is_latest: bool) -> list[str]:
        """Keep it beside those before it: none is lost, except for a statement that ends with the same entry.

        Returns lines for the log.
        """
        folder, newest = self._store.path / OPERATOR_HEADS, self._store.path / OPERATOR_HEAD
        make_directory(folder)
        if not is_latest:
            write_atomically(folder / f"{number:06d}-{digest[:32]}.json", content, what="an entry of the ledger")
            return []
        lines = []
        if newest.exists():
            before = newest.read_bytes()
            try:
                known = known_head_in(before, OPERATOR_HEAD)
                if not self._is_stated(known):
                    file = folder / f"{known.number:06d}-{hash_of(before)[:32]}.json"
                    write_atomically(file, before, what="an entry of the ledger")
            except CommonwealError as error:
                file = folder / f"unreadable-{hash_of(before)[:32]}.txt"
                write_atomically(file, before, what="an entry of the ledger")
                lines = [f"{ERROR} {error} It cannot be compared any more, and is kept as {self.seen.place_of(file)}"]
        write_atomically(newest, content, what="the ledger's last entry")
        return lines

    def _learn(self, hashes: dict[int, str], source: str) -> list[str]:
        """Compare entries and list them, in this order: what is listed counts as compared."""
        lines = self._comparison.compare(hashes, source)
        self.seen.list_entries(hashes, source)
        return lines

    def _doubt(self, what: str, content: bytes, error: Exception) -> str:
        """Keep what cannot be read or checked, whatever is wrong with it; returns the line for the log."""
        reason = str(error) if isinstance(error, CommonwealError) else f"it cannot be read ({type(error).__name__})"
        aside = (
            self._aside.keep(content, self._kind_of_doubt(content))
            if len(content) <= LARGEST_HEAD
            else f"not kept, since it has {len(content)} bytes; SHA-256 {hash_of(content)}"
        )
        return f"DOUBTFUL {what}: {reason} ({aside})"

    def _keep_what_says_more(self, given: str) -> list[str]:
        """Keep a head or trail with further fields, which an operator may deny later; returns lines for the log."""
        content, further = given.encode(errors="surrogatepass"), frozenset[str]()
        with suppress(Exception):  # what cannot be read is doubted already
            document = signed_in(content, "it", tuple(_FIELDS)).document
            further = frozenset(document) - _FIELDS[document["format"]]
        if not further or self._kind_of_doubt(content) == "unsigned":
            return []
        return [f"a head or trail says more than others of its format ({self._aside.keep(content, OTHER)})"]

    def _kind_of_doubt(self, content: bytes) -> str:
        """What the operator signed has a room of its own, which others cannot fill."""
        with suppress(Exception):
            signed = signed_in(content, "it", (TRAIL_FORMAT, *WITH_HEAD))
            operator, rotations = self.seen.operator_of(signed), signed.document["key_rotations"]
            keys = (*keys_since(operator, self.seen.ledger, rotations), key_in_use(self._store, operator))
            if signed.is_sound and signed.signer in keys:
                return "doubtful"
        return "unsigned"


def _is_head(known: KnownHead) -> bool:
    return bool(known.signed.document["format"] == HEAD_FORMAT)


def _another_ledger(number: int, digest: str, where: str) -> str:
    return (
        f"the ledger is said to have entry {number}, {digest[:16]}…, which is not of the ledger that the operator "
        f"showed here before, in {where}"
    )
