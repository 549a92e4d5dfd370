"""Trails and heads that a member keeps aside, in trails/doubtful. There is a limit for each kind, not for all together:
files of one kind must not take the place of another.

doubtful       the operator signed it, and it cannot be read or believed
unsigned       nobody knows who signed it
contradicting  it is of another ledger than the one that was seen
early, apart   a trail that is not learned: its statement was not kept, or entries are missing before it
other          it has fields that others of its format do not have
key-change     the first document that names a change of the operator's key, or only that change
"""

from __future__ import annotations

from commonweal.atomic_write import make_directory, write_atomically
from commonweal.ledger.canonical import hash_of
from commonweal.ledger.seen_heads import LARGEST_TRAIL
from commonweal.remote.member.store import DOUBTFUL, ERROR, TRAILS, MemberStore

CONTRADICTING = "contradicting"
EARLY_TRAIL, APART = "early", "apart"
OTHER = "other"
MOST_DOUBTFUL = 20  # files of a kind; together at most 500 MB


class KeptAside:
    def __init__(self, store: MemberStore) -> None:
        self._store = store

    def keep(self, content: bytes, kind: str) -> str:
        """Keep a trail that the operator signed, as long as there is room for its kind; returns where it is.

        Without a line in the log, files that alarm nobody could take the room of one that would.
        """
        place = self.place(content, kind)
        file = self._store.path / place
        if not self.has_room(content, kind):
            unkept = f"a trail that was not kept, SHA-256 {hash_of(content)}"
            reason = f"it has {len(content)} bytes, and there is room for {MOST_DOUBTFUL} {kind} files"
            self._store.log(f"{ERROR} {unkept}: {reason} in {TRAILS}/{DOUBTFUL}. Move them elsewhere")
            return unkept
        if not file.exists():
            make_directory(file.parent)
            write_atomically(file, content, what="a doubtful trail")
        return place

    def has_room(self, content: bytes, kind: str) -> bool:
        """Whether this can be kept, or is kept."""
        file = self._store.path / self.place(content, kind)
        is_small = len(content) <= LARGEST_TRAIL and len(list(file.parent.glob(f"{kind}-*.json"))) < MOST_DOUBTFUL
        return is_small or file.exists()

    def place(self, content: bytes, kind: str) -> str:
        return f"{TRAILS}/{DOUBTFUL}/{kind}-{hash_of(content)[:32]}.json"
