"""Which entries of the ledger the operator showed a member, by number and hash.

heads.txt          one line for each entry that a statement or a trail named: number, hash, and where that stands;
                   each statement and each entry of a trail has a line, so files without them are read again: the
                   program may have been killed between writing the two, or while it wrote the lines
trails/            the trails as the operator signed them
trails/doubtful/   trails and heads that do not continue what was seen, or that cannot be read
operator-head.json the latest head that the operator signed when it opened a round
operator-heads/    heads before it, as long as no statement ends with the same entries
named.txt          lines as in heads.txt, for entries that other signed files name: a change of the operator's key, the
                   last entry of a statement that was not accepted; they are only compared

A trail is learned if no entry is left out between those seen and the statement that came with it: it starts right after
the last entry seen, or before, with the same hashes, and ends with the last entry of the statement. A member that has
seen nothing, because it joined late or lost its folder, starts with the first trail it gets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from commonweal.atomic_write import make_directory, write_atomically
from commonweal.errors import CommonwealError, LedgerError, StorageError, os_reason
from commonweal.ledger.canonical import hash_of
from commonweal.ledger.chain import keys_since, rotation_entries
from commonweal.ledger.receipts import RECEIPT_FORMAT
from commonweal.ledger.seen_heads import LARGEST_TRAIL, TRAIL_FORMAT, SeenHead, hashes_in_trail
from commonweal.ledger.signed_files import (
    HEAD_FORMAT,
    WITH_HEAD,
    KnownHead,
    SignedDocument,
    known_head_in,
    read_signed,
    signed_in,
)
from commonweal.remote.member.contradictions import Contradictions
from commonweal.remote.member.kept_statements import EARLY, MOST_BYTES, Kept
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.operator_key import (
    KEY_CHANGE,
    has_operator,
    kept_rotations,
    key_in_use,
    known_operator,
    replaced_by,
    replaced_in_words,
    rotations_in,
)
from commonweal.remote.member.store import (
    DOUBTFUL,
    ERROR,
    OPERATOR_HEAD,
    OPERATOR_HEADS,
    STATEMENTS,
    TRAILS,
    MemberStore,
)

HEADS, NAMED = "heads.txt", "named.txt"
CONTRADICTING = "contradicting"  # how the names of files in trails/doubtful start that are of another ledger
LARGEST_HEAD = 1_000_000  # bytes
_EARLY, _APART = "early", "apart"  # how the names of trails start that are not learned, and only compared
MOST_NAMED = 10_000  # lines
MOST_DOUBTFUL = 20  # trails of a kind; together at most 500 MB
_ADVICE = "Unless this folder was restored from a backup, the operator leaves out entries: ask for a copy of the ledger"
_TRAIL_NAME = re.compile(rf"{TRAILS}/(\d{{6,15}})-(\d{{6,15}})-[0-9a-f]{{32}}\.json")
_LINE = re.compile(r"(\d{1,15}) ([0-9a-f]{64}) (\S+)")


class SeenEntries:
    """The entries that a member saw. Call it only while the member's folder is locked."""

    def __init__(self, store: MemberStore, member: Member, ledger: str) -> None:
        self._store = store
        self._member = member
        self.ledger = ledger
        self._in_file: dict[Path, dict[int, str]] = {}  # entries that other files name
        self.went_back = ""  # why the head or statement that came now shows an older ledger than was seen, or another
        self.came: dict[int, str] = {}  # the entries that these and a trail name

    @cached_property
    def _lines(self) -> list[tuple[int, str, str]]:
        """Number, hash and place in the lines of heads.txt."""
        return self._read_lines(HEADS)

    @cached_property
    def _only_named(self) -> list[tuple[int, str, str]]:
        """The same of named.txt."""
        return self._read_lines(NAMED)

    def _read_lines(self, name: str) -> list[tuple[int, str, str]]:
        """A line that is not complete is no line."""
        try:
            text = (self._store.path / name).read_text(errors="replace")
        except OSError:
            text = ""
        found = (_LINE.fullmatch(line) for line in text.splitlines())
        return [(int(match[1]), match[2], match[3]) for match in found if match is not None]

    @cached_property
    def by_number(self) -> dict[int, tuple[str, str]]:
        """The hash of each entry, and where it stands."""
        known: dict[int, tuple[str, str]] = {}
        for number, digest, place in self._lines:
            known.setdefault(number, (digest, place))
        return known

    @cached_property
    def _listed(self) -> set[str]:
        """The files that heads.txt names; trails only with all their entries: the list may have been cut off."""
        return {place for place in {place for _, _, place in self._lines} if self._is_complete(place)}

    @cached_property
    def _stated(self) -> set[tuple[int, str]]:
        """The last entries of statements that are kept: each proves as much as a head, which a trail does not."""
        return {(number, digest) for number, digest, place in self._lines if place.startswith(f"{STATEMENTS}/")}

    def _is_complete(self, place: str) -> bool:
        name = _TRAIL_NAME.fullmatch(place)
        return name is None or all(number in self.by_number for number in range(int(name[1]), int(name[2]) + 1))

    @property
    def shown(self) -> dict[int, tuple[str, str]]:
        """As `by_number`, with the entries that heads and early statements name: there may be gaps before them."""
        return _by_number(self._shown())

    def _shown(self) -> Iterator[tuple[int, str, str]]:
        """Each entry that was shown, with its hash and the file that names it; several files may name one."""
        for known in (self.by_number, self._heads()):
            for number, (digest, place) in known.items():
                yield number, digest, place
        yield from self._unlisted()

    def _named(self) -> Iterator[tuple[int, str, str]]:
        """The same, with the entries that are only compared."""
        yield from self._shown()
        yield from self._only_named

    def _heads(self) -> dict[int, tuple[str, str]]:
        """The entries that heads of openings name."""
        found: dict[int, tuple[str, str]] = {}
        for file in (*sorted((self._store.path / OPERATOR_HEADS).glob("*.json")), self._store.path / OPERATOR_HEAD):
            with suppress(CommonwealError, OSError):
                known = known_head_in(file.read_bytes(), file.name)
                found.setdefault(known.number, (known.head, self._place(file)))
        return found

    def _unlisted(self) -> Iterator[tuple[int, str, str]]:
        """The entries of statements and trails that heads.txt does not name, and of statements that came early."""
        if not has_operator(self._store, self._member):
            return
        early = (self._store.path / STATEMENTS / DOUBTFUL).glob(f"{EARLY}*.json")
        for file in (*self._kept(), *sorted(early)):
            if (place := self._place(file)) not in self._listed:
                for number, digest in self._read_once(file).items():
                    yield number, digest, place

    def _not_learned(self) -> list[Path]:
        """The files of trails that came early or apart. They prove nothing of the entries before, but are signed."""
        folder = self._store.path / TRAILS / DOUBTFUL
        return [file for kind in (_EARLY, _APART) for file in sorted(folder.glob(f"{kind}-*.json"))]

    def _read_once(self, file: Path) -> dict[int, str]:
        if file not in self._in_file:
            self._in_file[file] = self._entries_in(file)
        return self._in_file[file]

    def _entries_in(self, file: Path) -> dict[int, str]:
        """The entries that a file names; none if the operator did not sign it: earlier versions kept such files."""
        with suppress(CommonwealError, OSError):
            if TRAILS in (file.parent.name, file.parent.parent.name):
                signed = read_signed(file, (TRAIL_FORMAT,))
                return hashes_in_trail(signed, ledger=self.ledger, operator=self._operator(signed))
            known = known_head_in(file.read_bytes(), file.name)
            if self._is_by_operator(known, self._operator(known.signed)):
                return {known.number: known.head}
        return {}

    def _operator(self, signed: SignedDocument) -> str:
        return known_operator(self._store, self._member, signed, self.ledger)

    def _is_by_operator(self, known: KnownHead, operator: str) -> bool:
        keys = keys_since(operator, self.ledger, known.key_rotations)
        return known.ledger == self.ledger and known.signed.is_sound and known.signed.signer in keys

    def _place(self, file: Path) -> str:
        return str(file.relative_to(self._store.path))

    def latest(self, round_number: int) -> SeenHead | None:
        """The last entry that the operator showed, by a trail, a statement or the head of an opening."""
        shown = self.shown
        if not shown:
            return None
        number = max(shown)
        return SeenHead(
            ledger=self.ledger,
            client=self._member.name,
            number=number,
            hash=shown[number][0],
            round_number=round_number,
        )

    def head(self, round_number: int | None = None) -> SeenHead | None:
        """The last entry that was seen with all entries before it, from the first one that was seen.

        `round_number` is the last round that statements tell of.
        """
        if not self.by_number:
            return None
        number = self._last()
        return SeenHead(
            ledger=self.ledger,
            client=self._member.name,
            number=number,
            hash=self.by_number[number][0],
            round_number=round_number,
        )

    def catch_up(self) -> list[str]:
        """Compare and list the statements and trails that were kept right before the program was killed.

        Returns lines for the log.
        """
        lines: list[str] = []
        for file in self._kept():
            place = self._place(file)
            entries = {} if place in self._listed else self._entries_in(file)
            if entries and file.parent.name == TRAILS:
                lines += self._learn(entries, place)
            for number, digest in entries.items() if file.parent.name == STATEMENTS else ():
                signed = known_head_in(file.read_bytes(), file.name).signed
                lines += self.compare_rotations(signed, place, {number: (digest, place)})
                lines += self._learn_last(number, digest, place)
        return lines

    def _kept(self) -> list[Path]:
        """The files of trails and statements; as a trail comes with its statement, trails come first."""
        return [file for folder in (TRAILS, STATEMENTS) for file in sorted((self._store.path / folder).glob("*.json"))]

    def learn(self, statement: str | None, trail: str | None, kept: Kept | None) -> list[str]:
        """Remember what a question that closes a round names; returns lines for the log if something is wrong.

        A statement counts if it was kept: then it is the operator's. If not, its trail is only compared, and so is its
        last entry if the operator signed it, whatever else is wrong with it and whether or not there was room for it.
        """
        shown: dict[int, tuple[str, str]] = {}
        known, source, seen = None, "", self.shown
        if kept is not None and kept.is_kept and statement is not None:
            known = known_head_in(statement.encode(), "the statement")
            # What was told again is not kept again: its last entry stands where it was named first.
            source = kept.file or self.shown.get(known.number, ("", STATEMENTS))[1]
            shown = {known.number: (known.head, source)}
        elif kept is not None and statement is not None:
            known = self._signed_head(statement)
            source = kept.file or f"{STATEMENTS}/{DOUBTFUL}/not-kept"
        if known is not None:
            self._check_going_back(known, seen)
        lines = self._learn_trail(trail, shown) if trail else []
        if known is not None:
            content = b"" if shown or statement is None or len(statement) > LARGEST_TRAIL else statement.encode()
            named = {known.number: (known.head, source)}
            lines += self.compare_rotations(known.signed, source, named, content)
            if not shown:
                lines += self._compare_and_name({known.number: known.head}, source)
        for number, (digest, source) in shown.items():
            lines += self._learn_last(number, digest, source)
            if not lines and number > (last := self._last()):
                lines.append(f"{ERROR} no trail came of entries {last + 1} to {number}. {_ADVICE}")
        return lines

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
                if self._is_by_operator(known, key_in_use(self._store, self._operator(known.signed))):
                    return known
        return None

    def _learn_last(self, number: int, digest: str, source: str) -> list[str]:
        """Remember the last entry of a statement that is kept; returns lines for the log."""
        lines = []
        if (latest := max(self._heads(), default=0)) > number:
            lines = [
                f"{ERROR} the statement ends with entry {number}, but the operator signed entry {latest} when it "
                f"opened a round. {_ADVICE}"
            ]
        if not self.by_number or number >= min(self.by_number):
            lines += self._learn({number: digest}, source)
        return lines

    def take_head(self, given: str) -> list[str]:
        """Keep a head that the operator signed; returns lines for the log if something is wrong."""
        content = given.encode(errors="surrogatepass")
        try:
            if len(content) > LARGEST_HEAD:
                raise LedgerError(f"it has {len(content)} bytes; at most {LARGEST_HEAD} are read")
            known = known_head_in(content, "the message")
            operator = key_in_use(self._store, self._operator(known.signed))
            if not self._is_by_operator(known, operator):
                raise LedgerError("the operator did not sign it")
        except StorageError:
            raise
        except Exception as error:
            return [self._doubt("HEAD of the ledger", content, error)]
        seen = self.shown
        self._check_going_back(known, seen)
        if seen.get(known.number, (known.head,))[0] != known.head:
            source = self._keep_aside(content, CONTRADICTING)
            return [self._contradiction(known.number, known.head, source, *seen[known.number])]
        if reason := self._replaced(known.signed, known.number):
            self.went_back = f"the head of the ledger cannot be the operator's: {reason}"
            found = self._compare({known.number: known.head}, self._place_aside(content, "doubtful"))
            return [self._doubt("HEAD of the ledger", content, LedgerError(reason)), *found]
        if known.number not in self.by_number and (place := self._contradicting(known)):
            self.went_back = _another_ledger(known.number, known.head, f"what {place} contradicts")
            aside = self._keep_aside(content, CONTRADICTING)
            return [f"DOUBTFUL HEAD of the ledger: it is of another one, as {place} is ({aside})"]
        if not _is_head(known):
            place, entry = self._place_aside(content, self._kind_of_doubt(content)), {known.number: known.head}
            return [
                self._doubt("HEAD of the ledger", content, LedgerError("it is a statement, which is no head")),
                *self.compare_rotations(known.signed, place, {known.number: (known.head, place)}, content),
                *self._compare_and_name(entry, place),
            ]
        latest = max(seen, default=0)
        lines = self._compare({known.number: known.head}, OPERATOR_HEAD)
        if known.number not in self._heads() and not self._is_stated(known):
            lines += self._keep_head(content, known.number, known.head, is_latest=known.number > latest)
        return [*lines, *self.compare_rotations(known.signed, "the head of an opening", {}, content)]

    def _replaced(self, signed: SignedDocument, last: int) -> str:
        """Why the operator cannot have signed a document that ends with this entry; empty if it can."""
        entry = replaced_by(self._store, signed, self.ledger)
        return "" if entry is None or last < entry else replaced_in_words(signed.signer, entry)

    def _is_stated(self, known: KnownHead) -> bool:
        """Whether a statement proves as much as a head; one that a replaced key signed may prove nothing.

        No statement proves as much as another one, which has lines of its own.
        """
        is_by_same = _is_head(known) and known.signed.signer == key_in_use(self._store, known.signed.signer)
        return is_by_same and (known.number, known.head) in self._stated

    def _contradicting(self, known: KnownHead) -> str:
        """The trail that contradicts what was seen and names the same entry; empty if there is none."""
        for file in sorted((self._store.path / TRAILS / DOUBTFUL).glob(f"{CONTRADICTING}-*.json")):
            if self._read_once(file).get(known.number) == known.head:
                return self._place(file)
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
                lines = [f"{ERROR} {error} It cannot be compared any more, and is kept as {self._place(file)}"]
        write_atomically(newest, content, what="the ledger's last entry")
        return lines

    def compare_receipt(self, content: str) -> list[str]:
        """Compare the changes of the operator's key that a receipt names; returns lines for the log."""
        given = content.encode(errors="surrogatepass")
        try:
            signed = signed_in(given, "the receipt", (RECEIPT_FORMAT,))
        except CommonwealError:
            return []  # it is kept as doubtful
        kept = given if len(given) <= LARGEST_HEAD else b""  # it must not fill the disk
        return self.compare_rotations(signed, "a receipt", {}, kept) if signed.is_sound else []

    def compare_rotations(
        self, signed: SignedDocument, source: str, named: Mapping[int, tuple[str, str]], content: bytes = b""
    ) -> list[str]:
        """Changes of the operator's key are entries: compare them with those seen, and those that the file names.

        The file is kept aside if its `content` is given and it is the first to name one of them, or contradicts.
        """
        operator = self._operator(signed)
        entries = rotation_entries(operator, self.ledger, rotations_in(signed))
        if not entries:
            return []
        seen = {**named, **_by_number(self._named())}
        differing = {number: digest for number, digest in entries.items() if seen.get(number, (digest,))[0] != digest}
        known = {
            number for given in kept_rotations(self._store) for number in rotation_entries(operator, self.ledger, given)
        }
        successors = self._other_successors(operator, rotations_in(signed))
        if content and (differing or not entries.keys() <= known & seen.keys()):
            kind = CONTRADICTING if differing else KEY_CHANGE
            is_new = not (self._store.path / self._place_aside(content, kind)).exists()
            source = self._keep_aside(content, kind)
            if is_new and not differing:
                changes = ", ".join(map(str, entries))
                self._store.log(f"the operator's key is said to be changed by entry {changes}, in {source}")
        lines = [
            Contradictions(self._store).keep(
                f"the operator signed two different changes of its key {key[:16]}…: to {first[:16]}… and to "
                f"{second[:16]}…, in {source}",
                {"key": key, "first": first, "second": second, "source": source},
                kind="key",
            )
            for key, first, second in successors
        ]
        lines += [
            self._contradiction(number, digest, f"a change of the operator's key in {source}", *seen[number])
            for number, digest in differing.items()
        ]
        rest = {number: digest for number, digest in entries.items() if number not in differing}
        return [*lines, *self._compare_and_name(rest, source)]

    def _other_successors(self, operator: str, rotations: Iterable[Any]) -> list[tuple[str, str, str]]:
        """Keys that these changes replace by another key than those of a kept file do, with both."""
        given = keys_since(operator, self.ledger, rotations)
        found: dict[str, tuple[str, str]] = {}
        for kept in kept_rotations(self._store):
            before = dict(pairwise(keys_since(operator, self.ledger, kept)))
            found |= {key: (before[key], new) for key, new in pairwise(given) if before.get(key, new) != new}
        return [(key, first, second) for key, (first, second) in found.items()]

    def _compare_and_name(self, hashes: Mapping[int, str], source: str) -> list[str]:
        """Compare entries that are not learned, and remember those that nothing else names.

        Returns lines for the log.
        """
        if not hashes:
            return []
        lines, seen, place = self._compare(hashes, source), _by_number(self._named()), source.replace(" ", "-")
        fresh = [(number, digest, place) for number, digest in hashes.items() if number not in seen]
        if len(fresh) + len(self._only_named) > MOST_NAMED:
            return [*lines, f"{ERROR} there is no room in {NAMED} for {len(fresh)} more entries, named in {source}"]
        self._append([f"{number} {digest} {place}" for number, digest, place in fresh], NAMED)
        self._only_named.extend(fresh)
        return lines

    def _last(self) -> int:
        number = min(self.by_number)
        while number + 1 in self.by_number:
            number += 1
        return number

    def _compare(self, hashes: Mapping[int, str], source: str) -> list[str]:
        """Compare entries that a file names with those that other files name; returns lines for the log.

        Of a trail that was not learned, one entry is enough: all of it may be false.
        """
        differing: dict[int, tuple[str, str]] = {}
        for number, digest, place in self._named():
            if place != source and hashes.get(number, digest) != digest:
                differing.setdefault(number, (digest, place))
        for file in self._not_learned():
            entries, place = self._read_once(file), self._place(file)
            first = next((number for number in entries if hashes.get(number, entries[number]) != entries[number]), None)
            if place != source and first is not None:
                differing.setdefault(first, (entries[first], place))
        return [self._contradiction(number, hashes[number], source, *before) for number, before in differing.items()]

    def _doubt(self, what: str, content: bytes, error: Exception) -> str:
        """Keep what cannot be read or checked, whatever is wrong with it; returns the line for the log."""
        reason = str(error) if isinstance(error, CommonwealError) else f"it cannot be read ({type(error).__name__})"
        aside = (
            self._keep_aside(content, self._kind_of_doubt(content))
            if len(content) <= LARGEST_HEAD
            else f"not kept, since it has {len(content)} bytes; SHA-256 {hash_of(content)}"
        )
        return f"DOUBTFUL {what}: {reason} ({aside})"

    def _kind_of_doubt(self, content: bytes) -> str:
        """What the operator signed has a room of its own, which others cannot fill."""
        with suppress(Exception):
            signed = signed_in(content, "it", (TRAIL_FORMAT, *WITH_HEAD))
            operator, rotations = self._operator(signed), signed.document["key_rotations"]
            keys = (*keys_since(operator, self.ledger, rotations), key_in_use(self._store, operator))
            if signed.is_sound and signed.signer in keys:
                return "doubtful"
        return "unsigned"

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
            operator = self._operator(signed)
            hashes = hashes_in_trail(signed, ledger=self.ledger, operator=key_in_use(self._store, operator))
            reason = self._replaced(signed, max(hashes, default=0))
        except StorageError:
            raise
        except Exception as error:
            return [self._doubt("TRAIL of the ledger's entries", content, error)]
        if reason:
            found = self._compare(hashes, self._place_aside(content, "doubtful"))
            return [self._doubt("TRAIL of the ledger's entries", content, LedgerError(reason)), *found]
        self.came |= hashes
        known = {**shown, **self.shown}
        if differing := [number for number, digest in hashes.items() if known.get(number, (digest,))[0] != digest]:
            first = differing[0]
            self.went_back = _another_ledger(first, hashes[first], known[first][1])
            source = self._keep_aside(content, CONTRADICTING)
            return [self._contradiction(differing[0], hashes[differing[0]], source, *known[differing[0]])]
        own = {number: (digest, "the trail itself") for number, digest in hashes.items()}
        if lines := self.compare_rotations(signed, "a trail", own, content):
            self._keep_aside(content, CONTRADICTING)
            return [*lines, *self._compare(hashes, self._place_aside(content, CONTRADICTING))]
        if hashes.keys() <= self.by_number.keys():
            return self._compare(hashes, TRAILS)  # there is nothing to learn
        if not shown:
            found = self._compare(hashes, self._place_aside(content, _EARLY))
            source = self._keep_aside(content, _EARLY)
            return [f"a trail of the ledger's entries came with a statement that was not kept ({source})", *found]
        first, last, (head,) = min(hashes), max(hashes), shown
        lines, faults = [], []
        if not self.by_number and first > 1:
            lines = [
                f"{ERROR} the first trail seen here starts with entry {first}; entries before it cannot be compared. "
                f"{_ADVICE}"
            ]
        elif self.by_number and first > self._last() + 1:
            faults.append(f"it starts with entry {first}, but entry {self._last()} is the last one seen here")
        if last != head:
            faults.append(f"it ends with entry {last}, but the statement that came with it ends with entry {head}")
        if faults:
            found = self._compare(hashes, self._place_aside(content, _APART))
            source = self._keep_aside(content, _APART)
            return [
                f"{ERROR} a trail of the ledger's entries is not learned: {'; '.join(faults)} ({source}). {_ADVICE}",
                *found,
            ]
        file = self._store.path / TRAILS / f"{first:06d}-{last:06d}-{hash_of(content)[:32]}.json"
        make_directory(file.parent)
        write_atomically(file, content, what="a trail")
        return [*lines, *self._learn(hashes, f"{TRAILS}/{file.name}")]

    def _keep_aside(self, content: bytes, kind: str) -> str:
        """Keep a trail that the operator signed, as long as there is room for its kind; returns where it is."""
        place = self._place_aside(content, kind)
        file = self._store.path / place
        if not file.exists():
            if len(list(file.parent.glob(f"{kind}-*.json"))) >= MOST_DOUBTFUL:
                return f"a trail that was not kept, SHA-256 {hash_of(content)}"
            make_directory(file.parent)
            write_atomically(file, content, what="a doubtful trail")
        return place

    def _place_aside(self, content: bytes, kind: str) -> str:
        return f"{TRAILS}/{DOUBTFUL}/{kind}-{hash_of(content)[:32]}.json"

    def _learn(self, hashes: dict[int, str], source: str) -> list[str]:
        """Compare entries and list them, in this order: what is listed counts as compared."""
        lines, known = self._compare(hashes, source), self.by_number
        fresh = {number: digest for number, digest in hashes.items() if number not in known}
        if source not in self._listed:  # also if it names nothing new: then it need not be read again
            self._append([f"{number} {digest} {source}" for number, digest in (fresh or hashes).items()])
            self._listed.add(source)
        known |= {number: (digest, source) for number, digest in fresh.items()}
        return lines

    def _contradiction(self, number: int, digest: str, source: str, before: str, where: str) -> str:
        text = (
            f"the operator signed two different entries {number}: {before[:16]}… in {where} and {digest[:16]}… "
            f"in {source}"
        )
        evidence = {"entry": number, "first": [before, where], "second": [digest, source]}
        return Contradictions(self._store).keep(text, evidence, kind="entry")

    def _append(self, lines: list[str], name: str = HEADS) -> None:
        """Add lines that are on the disk before anything is signed; after a crash the last one may be incomplete."""
        if not lines:
            return
        file = self._store.path / name
        try:
            with file.open("ab+") as heads:
                heads.seek(max(heads.seek(0, os.SEEK_END) - 1, 0))
                start = b"" if heads.read(1) in (b"", b"\n") else b"\n"
                heads.write(start + "".join(f"{line}\n" for line in lines).encode())
                heads.flush()
                os.fsync(heads.fileno())
        except OSError as error:
            raise StorageError(f"Cannot write {file}: {os_reason(error)}.") from None


def _is_head(known: KnownHead) -> bool:
    return bool(known.signed.document["format"] == HEAD_FORMAT)


def _by_number(named: Iterable[tuple[int, str, str]]) -> dict[int, tuple[str, str]]:
    """The first hash of each entry, and where it stands."""
    found: dict[int, tuple[str, str]] = {}
    for number, digest, place in named:
        found.setdefault(number, (digest, place))
    return found


def _another_ledger(number: int, digest: str, where: str) -> str:
    return (
        f"the ledger is said to have entry {number}, {digest[:16]}…, which is not of the ledger that the operator "
        f"showed here before, in {where}"
    )
