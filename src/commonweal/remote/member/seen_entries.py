"""Which entries of the ledger the operator showed a member, by number and hash.

heads.txt   one line for each entry that a statement or a trail named: its number, its hash, and where that stands
trails/     the trails as the operator signed them
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from commonweal.atomic_write import write_atomically
from commonweal.errors import CommonwealError, StorageError, os_reason
from commonweal.ledger.seen_heads import TRAIL_FORMAT, SeenHead, hashes_in_trail
from commonweal.ledger.signed_files import known_head_in, signed_in
from commonweal.remote.member.contradictions import Contradictions
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.operator_key import known_operator
from commonweal.remote.member.store import STATEMENTS, MemberStore

HEADS, TRAILS = "heads.txt", "trails"
_LINE = re.compile(r"(\d{1,15}) ([0-9a-f]{64}) (\S+)")


class SeenEntries:
    """The entries that a member saw. Call it only while the member's folder is locked."""

    def __init__(self, store: MemberStore, member: Member, ledger: str) -> None:
        self._store = store
        self._member = member
        self._ledger = ledger
        self._known: dict[int, tuple[str, str]] | None = None  # number → hash, and where it stands

    @property
    def by_number(self) -> dict[int, tuple[str, str]]:
        """The hash of each entry, and where it stands; a line that is not complete is no line."""
        if self._known is None:
            try:
                text = (self._store.path / HEADS).read_text(errors="replace")
            except OSError:
                text = ""
            found = (_LINE.fullmatch(line) for line in text.splitlines())
            self._known = {}
            for match in found:
                if match is not None:
                    self._known.setdefault(int(match[1]), (match[2], match[3]))
        return self._known

    def head(self) -> SeenHead | None:
        """The last entry that was seen."""
        if not self.by_number:
            return None
        number = max(self.by_number)
        return SeenHead(ledger=self._ledger, client=self._member.name, number=number, hash=self.by_number[number][0])

    def learn(self, fields: Mapping[str, Any], *, is_kept: bool) -> list[str]:
        """Remember what a question that closes a round names; returns lines for the log if something is wrong.

        A statement counts if it was kept: then it is the operator's.
        """
        lines = self._learn_trail(fields["trail"]) if fields.get("trail") else []
        if not is_kept:
            return lines
        known = known_head_in(fields["statement"].encode(), "the statement")
        return [*lines, *self._learn({known.number: known.head}, f"{STATEMENTS}/round-{fields['round']}")]

    def _learn_trail(self, content: str) -> list[str]:
        """Remember the entries that a trail names; returns lines for the log if something is wrong with it."""
        try:
            signed = signed_in(content.encode(), "the message", (TRAIL_FORMAT,))
            operator = known_operator(self._store, self._member, signed)
            hashes = hashes_in_trail(signed, ledger=self._ledger, operator=operator)
        except CommonwealError as error:
            return [f"DOUBTFUL TRAIL of the ledger's entries: {error}"]
        if not hashes:
            return []
        file = self._store.path / TRAILS / f"{min(hashes):06d}-{max(hashes):06d}-{hashes[max(hashes)][:16]}.json"
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            write_atomically(file, content.encode(), what="a trail")
        return self._learn(hashes, f"{TRAILS}/{file.name}")

    def _learn(self, hashes: dict[int, str], source: str) -> list[str]:
        known, lines = self.by_number, []
        fresh = {number: digest for number, digest in hashes.items() if number not in known}
        self._append([f"{number} {digest} {source}" for number, digest in fresh.items()])
        known |= {number: (digest, source) for number, digest in fresh.items()}
        for number, digest in hashes.items():
            before, where = known[number]
            if before != digest:
                text = (
                    f"the operator signed two different entries {number}: {before[:16]}… in {where} and {digest[:16]}… "
                    f"in {source}"
                )
                evidence = {"entry": number, "first": [before, where], "second": [digest, source]}
                lines.append(Contradictions(self._store).keep(text, evidence))
        return lines

    def _append(self, lines: list[str]) -> None:
        """Add lines that are on the disk before anything is signed; after a crash the last one may be incomplete."""
        if not lines:
            return
        file = self._store.path / HEADS
        try:
            with file.open("ab+") as heads:
                heads.seek(max(heads.seek(0, os.SEEK_END) - 1, 0))
                start = b"" if heads.read(1) in (b"", b"\n") else b"\n"
                heads.write(start + "".join(f"{line}\n" for line in lines).encode())
                heads.flush()
                os.fsync(heads.fileno())
        except OSError as error:
            raise StorageError(f"Cannot write {file}: {os_reason(error)}.") from None
