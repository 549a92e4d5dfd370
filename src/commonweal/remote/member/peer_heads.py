"""The heads that the other members signed, compared with what this member was shown: is it one ledger?

peers.json        the public keys of the other members as first told; those in the member's own file come first
peer-heads.json   heads of entries that this member was not shown yet, to be compared when it is
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from commonweal.atomic_write import write_atomically
from commonweal.errors import CommonwealError
from commonweal.ledger.seen_heads import SignedSeenHead
from commonweal.remote.member.contradictions import Contradictions
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.seen_entries import SeenEntries
from commonweal.remote.member.store import ERROR, MemberStore

PEERS, WAITING = "peers.json", "peer-heads.json"
MOST_PEERS = 1000
MOST_WAITING = 20  # heads of a member
MOST_HEADS = 5  # of a member that contradict what was seen here; one is enough
_LONGEST_NAME, _LONGEST_KEY = 200, 1000  # characters


class PeerHeads:
    """What a member knows of the others. Call it only while the member's folder is locked."""

    def __init__(self, store: MemberStore, member: Member) -> None:
        self._store = store
        self._member = member
        self._contradictions = Contradictions(store)

    def compare(self, fields: Mapping[str, Any]) -> Iterator[str]:
        """Compare the heads in a question that opens a round with what was seen; yields lines for the log.

        Everybody whose key is known is missed, whether or not the question names it: the operator may hide it.
        """
        ledger, round_number = fields["book"], fields["round"]
        seen = SeenEntries(self._store, self._member, ledger)
        head, shown = seen.head(), seen.shown
        is_due = head is not None or round_number > 1  # before that, nobody has seen anything
        if "peers" not in fields and not is_due:
            return
        told, heads = _table(fields.get("peers")), _table(fields.get("heads"))
        yield from self._learn_keys(told)
        yield from self.compare_waiting(seen)
        last = max(shown, default=0) if head is None else head.number
        found, fresh = _Found(), list[SignedSeenHead]()
        keys = self._known_keys()
        for peer, key in keys.items():
            try:
                signed = SignedSeenHead.from_document(heads.get(peer) or {}, ledger=ledger, client=peer)
            except (CommonwealError, AttributeError):
                (found.missing if peer in told else found.unnamed).append(peer)
                continue
            number = signed.head.number
            if not signed.is_signed(key):
                yield f"round {round_number}: DOUBTFUL HEAD: it is not signed with the key of {peer}"
                continue
            if number not in shown:
                fresh.append(signed)
            elif contradiction := self._contradiction(shown, signed, key):
                yield contradiction
                continue
            if (signed.head.round_number or 0) < round_number - 1:
                found.old.append(peer)  # the operator may keep back a newer one
            elif number < min(seen.by_number, default=0):
                found.below.append(peer)
            elif number in shown and number >= last:
                found.agreeing.append(peer)
            elif number in shown:
                found.behind.append(peer)
            else:
                found.uncompared.append(peer)
        self._wait(seen, fresh)
        if not is_due:
            return
        for signed in self._waiting(ledger):  # until they have been compared
            if signed.head.client in keys:
                found.waiting[signed.head.client] = signed.head.number
        yield found.summary(round_number, last, has_peers=bool(keys))

    def compare_waiting(self, seen: SeenEntries) -> Iterator[str]:
        """Compare the heads that came before their entries were seen; yields lines for the log."""
        waiting, keys, shown = self._waiting(seen.ledger), self._known_keys(), seen.shown
        due = [signed for signed in waiting if signed.head.number in shown]
        for signed in due:
            key = keys.get(signed.head.client)
            if key is not None and signed.is_signed(key) and (line := self._contradiction(shown, signed, key)):
                yield line
        if due:  # after that was logged
            self._save_waiting([signed for signed in waiting if signed not in due])

    def _contradiction(self, shown: Mapping[int, tuple[str, str]], signed: SignedSeenHead, key: str) -> str:
        """The line for the log if a head that its member signed is not what was shown here; empty if it is."""
        peer, number, digest = signed.head.client, signed.head.number, signed.head.hash
        own, source = shown[number]
        if own == digest:
            return ""
        text = (
            f"entry {number} of the ledger is {own[:16]}… by what the operator signed for this member "
            f"({source}), but {digest[:16]}… by the head that {peer} signed: the operator shows two ledgers, "
            f"or {peer} signed a false head. Compare statements with {peer}"
        )
        evidence = {"entry": number, "own": [own, source], "client": peer, "key": key}
        evidence["signed"] = dict(signed.to_document())
        return self._contradictions.keep(text, evidence, kind=f"head of {peer}", most=MOST_HEADS)

    def _wait(self, seen: SeenEntries, fresh: list[SignedSeenHead]) -> None:
        """Remember heads of entries that may still be shown here."""
        waiting = self._waiting(seen.ledger)
        first, count = min(seen.by_number, default=1), len(waiting)
        for signed in fresh:
            of_peer = [other.head for other in waiting if other.head.client == signed.head.client]
            if signed.head.number > first and signed.head not in of_peer and len(of_peer) < MOST_WAITING:
                waiting.append(signed)
        if len(waiting) > count:
            self._save_waiting(waiting)

    def _waiting(self, ledger: str) -> list[SignedSeenHead]:
        try:
            found = json.loads((self._store.path / WAITING).read_text())
            return [
                SignedSeenHead.from_document(document, ledger=ledger, client=peer)
                for peer, documents in found.items()
                for document in documents
            ]
        except (OSError, ValueError, TypeError, AttributeError, CommonwealError):
            return []

    def _save_waiting(self, waiting: list[SignedSeenHead]) -> None:
        by_peer: dict[str, list[Any]] = {}
        for signed in waiting:
            by_peer.setdefault(signed.head.client, []).append(dict(signed.to_document()))
        content = json.dumps(by_peer, indent=1).encode()
        write_atomically(self._store.path / WAITING, content, what="heads of the other members")

    def _learn_keys(self, told: Mapping[str, Any]) -> list[str]:
        known, lines = self._known_keys(), []
        fresh: dict[str, str] = {}
        for peer, key in told.items():
            if peer == self._member.name:
                continue
            if not isinstance(key, str) or len(key) > _LONGEST_KEY or len(peer) > _LONGEST_NAME:
                lines.append(f"{ERROR} the operator names no key of {peer[:_LONGEST_NAME]} that can be read")
            elif peer not in known:
                fresh[peer] = key
            elif known[peer] != key:
                text = (
                    f"the operator now names the key {key[:24]}… for {peer}, not {known[peer][:24]}… as before or as "
                    f"in this member's file. Ask {peer} for its public key"
                )
                evidence = {"client": peer, "known": known[peer], "told": key}
                lines.append(self._contradictions.keep(text, evidence, kind="key"))
        if len(known) + len(fresh) > MOST_PEERS:
            return [
                *lines,
                f"{ERROR} the operator names {len(fresh)} more members; at most {MOST_PEERS} are known here",
            ]
        if fresh:
            content = json.dumps(self._pinned() | fresh, indent=1).encode()
            write_atomically(self._store.path / PEERS, content, what="the keys of the other members")
        return lines

    def _known_keys(self) -> dict[str, str]:
        known = {**self._pinned(), **self._member.peers}
        return {peer: key for peer, key in known.items() if peer != self._member.name}

    def _pinned(self) -> dict[str, str]:
        try:
            content = (self._store.path / PEERS).read_text()
        except FileNotFoundError:
            return {}
        return {peer: key for peer, key in _table(content).items() if isinstance(key, str)}


@dataclass(slots=True)
class _Found:
    """What the heads of the others say, by names."""

    agreeing: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)  # missing, and the question does not name them at all
    behind: list[str] = field(default_factory=list)  # of an entry before the last one seen here, and the same
    uncompared: list[str] = field(default_factory=list)  # of an entry that was not shown here
    waiting: dict[str, int] = field(default_factory=dict)  # the last such entries, also of earlier rounds
    old: list[str] = field(default_factory=list)  # signed before the last round was closed
    below: list[str] = field(default_factory=list)  # of an entry before the first one seen here

    def summary(self, round_number: int, last: int, *, has_peers: bool) -> str:
        """One line on who saw the same ledger; the operator may withhold heads, so it says whose did not come.

        `last` is the last entry that was shown here.
        """
        if not has_peers:
            return f"round {round_number}: the operator names no other members, so NO HEAD can be compared"
        heads = (self.agreeing, self.missing, self.unnamed, self.behind, self.uncompared, self.old, self.below)
        count = sum(map(len, heads))
        line = (
            f"round {round_number}: {len(self.agreeing)} of {count} other members saw the same ledger up to its last "
            "entry"
        )
        if self.missing:
            line += f"; NO HEAD of {', '.join(self.missing)} was passed on"
        if self.unnamed:
            line += f"; NO HEAD of {', '.join(self.unnamed)}, and the operator does not name them now"
        if self.old:
            line += f"; NO HEAD of {', '.join(self.old)} since round {round_number - 1} was closed"
        if self.below:
            line += f"; NO HEAD of {', '.join(self.below)} that can be compared: it is of an entry never shown here"
        for peer, number in self.waiting.items():
            line += (
                f"; NO HEAD of {peer} that can be compared: it was shown entry {number}, and this member only entries "
                f"up to {last}"
            )
        if self.behind:
            line += f"; the head of {', '.join(self.behind)} is of an earlier entry"
        return line


def _table(text: object) -> dict[str, Any]:
    """A table in JSON; an empty one if it is anything else."""
    try:
        found = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        found = {}
    return found if isinstance(found, dict) else {}
