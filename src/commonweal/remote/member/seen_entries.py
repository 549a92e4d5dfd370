"""Which entries of the ledger the operator showed a member, by number and hash, as its folder says.

heads.txt          one line for each entry that a statement or a trail named: number, hash, and where that stands;
                   each statement and each entry of a trail has a line, so files without them are read again: the
                   program may have been killed between writing the two, or while it wrote the lines
trails/            the trails as the operator signed them
trails/doubtful/   trails and heads that do not continue what was seen, or that cannot be read
operator-head.json the latest head that the operator signed when it opened a round
operator-heads/    heads before it, as long as no statement ends with the same entries
named.txt          lines as in heads.txt, for entries that other signed files name: a change of the operator's key, the
                   last entry of a statement that was not accepted; they are only compared
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from commonweal.errors import CommonwealError, StorageError, os_reason
from commonweal.ledger.chain import keys_since
from commonweal.ledger.seen_heads import TRAIL_FORMAT, SeenHead, hashes_in_trail
from commonweal.ledger.signed_files import KnownHead, SignedDocument, known_head_in, read_signed
from commonweal.remote.member.kept_aside import APART, EARLY_TRAIL
from commonweal.remote.member.kept_statements import EARLY
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.operator_key import has_operator, known_operator
from commonweal.remote.member.store import DOUBTFUL, OPERATOR_HEAD, OPERATOR_HEADS, STATEMENTS, TRAILS, MemberStore

HEADS, NAMED = "heads.txt", "named.txt"
_TRAIL_NAME = re.compile(rf"{TRAILS}/(\d{{6,15}})-(\d{{6,15}})-[0-9a-f]{{32}}\.json")
_LINE = re.compile(r"(\d{1,15}) ([0-9a-f]{64}) (\S+)")


class SeenEntries:
    """The entries that a member saw. Call it only while the member's folder is locked."""

    def __init__(self, store: MemberStore, member: Member, ledger: str) -> None:
        self._store = store
        self._member = member
        self.ledger = ledger
        self._in_file: dict[Path, dict[int, str]] = {}  # entries that other files name

    @cached_property
    def _lines(self) -> list[tuple[int, str, str]]:
        """Number, hash and place in the lines of heads.txt."""
        return self._read_lines(HEADS)

    @cached_property
    def only_named(self) -> list[tuple[int, str, str]]:
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
        return by_number(self._lines)

    @cached_property
    def listed(self) -> set[str]:
        """The files that heads.txt names; trails only with all their entries: the list may have been cut off."""
        return {place for place in {place for _, _, place in self._lines} if self._is_complete(place)}

    @cached_property
    def stated(self) -> set[tuple[int, str]]:
        """The last entries of statements that are kept: each proves as much as a head, which a trail does not."""
        return {(number, digest) for number, digest, place in self._lines if place.startswith(f"{STATEMENTS}/")}

    def _is_complete(self, place: str) -> bool:
        name = _TRAIL_NAME.fullmatch(place)
        return name is None or all(number in self.by_number for number in range(int(name[1]), int(name[2]) + 1))

    @property
    def shown(self) -> dict[int, tuple[str, str]]:
        """As `by_number`, with the entries that heads and early statements name: there may be gaps before them."""
        return by_number(self._shown())

    def _shown(self) -> Iterator[tuple[int, str, str]]:
        """Each entry that was shown, with its hash and the file that names it; several files may name one."""
        for known in (self.by_number, self.heads()):
            for number, (digest, place) in known.items():
                yield number, digest, place
        yield from self.unlisted()

    def named(self) -> Iterator[tuple[int, str, str]]:
        """The same, with the entries that are only compared."""
        yield from self._shown()
        yield from self.only_named

    def heads(self) -> dict[int, tuple[str, str]]:
        """The entries that heads of openings name."""
        found: dict[int, tuple[str, str]] = {}
        for file in (*sorted((self._store.path / OPERATOR_HEADS).glob("*.json")), self._store.path / OPERATOR_HEAD):
            with suppress(CommonwealError, OSError):
                known = known_head_in(file.read_bytes(), file.name)
                found.setdefault(known.number, (known.head, self.place_of(file)))
        return found

    def unlisted(self) -> Iterator[tuple[int, str, str]]:
        """The entries of statements and trails that heads.txt does not name, and of statements that came early."""
        if not has_operator(self._store, self._member):
            return
        early = (self._store.path / STATEMENTS / DOUBTFUL).glob(f"{EARLY}*.json")
        for file in (*self.kept_files(), *sorted(early)):
            if (place := self.place_of(file)) not in self.listed:
                for number, digest in self.read_once(file).items():
                    yield number, digest, place

    def not_learned(self) -> list[Path]:
        """The files of trails that came early or apart. They prove nothing of the entries before, but are signed."""
        folder = self._store.path / TRAILS / DOUBTFUL
        return [file for kind in (EARLY_TRAIL, APART) for file in sorted(folder.glob(f"{kind}-*.json"))]

    def kept_files(self) -> list[Path]:
        """The files of trails and statements; as a trail comes with its statement, trails come first."""
        return [file for folder in (TRAILS, STATEMENTS) for file in sorted((self._store.path / folder).glob("*.json"))]

    def read_once(self, file: Path) -> dict[int, str]:
        if file not in self._in_file:
            self._in_file[file] = self.entries_in(file)
        return self._in_file[file]

    def entries_in(self, file: Path) -> dict[int, str]:
        """The entries that a file names; none if the operator did not sign it: earlier versions kept such files."""
        with suppress(CommonwealError, OSError):
            if TRAILS in (file.parent.name, file.parent.parent.name):
                signed = read_signed(file, (TRAIL_FORMAT,))
                return hashes_in_trail(signed, ledger=self.ledger, operator=self.operator_of(signed))
            known = known_head_in(file.read_bytes(), file.name)
            if self.is_by_operator(known, self.operator_of(known.signed)):
                return {known.number: known.head}
        return {}

    def operator_of(self, signed: SignedDocument) -> str:
        return known_operator(self._store, self._member, signed, self.ledger)

    def is_by_operator(self, known: KnownHead, operator: str) -> bool:
        keys = keys_since(operator, self.ledger, known.key_rotations)
        return known.ledger == self.ledger and known.signed.is_sound and known.signed.signer in keys

    def place_of(self, file: Path) -> str:
        return str(file.relative_to(self._store.path))

    def last(self) -> int:
        number = min(self.by_number)
        while number + 1 in self.by_number:
            number += 1
        return number

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
        number = self.last()
        return SeenHead(
            ledger=self.ledger,
            client=self._member.name,
            number=number,
            hash=self.by_number[number][0],
            round_number=round_number,
        )

    def list_entries(self, hashes: Mapping[int, str], source: str) -> None:
        """List the entries that a statement or a trail names in heads.txt: what is listed counts as compared."""
        known = self.by_number
        fresh = {number: digest for number, digest in hashes.items() if number not in known}
        if source not in self.listed:  # also if it names nothing new: then it need not be read again
            self._append([(number, digest, source) for number, digest in (fresh or hashes).items()], HEADS)
            self.listed.add(source)
        known |= {number: (digest, source) for number, digest in fresh.items()}

    def name_entries(self, entries: list[tuple[int, str, str]]) -> None:
        """Add entries, each with its hash and the file that names it, to those that are only compared."""
        self._append(entries, NAMED)
        self.only_named.extend(entries)

    def _append(self, entries: list[tuple[int, str, str]], name: str) -> None:
        """Add lines that are on the disk before anything is signed; after a crash the last one may be incomplete."""
        if not entries:
            return
        file = self._store.path / name
        try:
            with file.open("ab+") as heads:
                heads.seek(max(heads.seek(0, os.SEEK_END) - 1, 0))
                start = b"" if heads.read(1) in (b"", b"\n") else b"\n"
                heads.write(
                    start + "".join(f"{number} {digest} {place}\n" for number, digest, place in entries).encode()
                )
                heads.flush()
                os.fsync(heads.fileno())
        except OSError as error:
            raise StorageError(f"Cannot write {file}: {os_reason(error)}.") from None


def by_number(named: Iterable[tuple[int, str, str]]) -> dict[int, tuple[str, str]]:
    """The first hash of each entry, and where it stands."""
    found: dict[int, tuple[str, str]] = {}
    for number, digest, place in named:
        found.setdefault(number, (digest, place))
    return found
