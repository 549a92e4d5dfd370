"""The heads that the other members signed, compared with what this member was shown: is it one ledger?

peers.json   the public keys of the other members, as they were first told; those in the member's own file come first
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from commonweal.atomic_write import write_atomically
from commonweal.errors import CommonwealError
from commonweal.ledger.seen_heads import SignedSeenHead
from commonweal.remote.member.contradictions import Contradictions
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.seen_entries import SeenEntries
from commonweal.remote.member.store import MemberStore

PEERS = "peers.json"


class PeerHeads:
    """What a member knows of the others. Call it only while the member's folder is locked."""

    def __init__(self, store: MemberStore, member: Member) -> None:
        self._store = store
        self._member = member
        self._contradictions = Contradictions(store)

    def compare(self, fields: Mapping[str, Any]) -> list[str]:
        """Compare the heads in a question that opens a round with what was seen; returns lines for the log."""
        ledger, round_number = fields["book"], fields["round"]
        seen = SeenEntries(self._store, self._member, ledger)
        head = seen.head()
        if "peers" not in fields and head is None:
            return []  # a coordinator of an earlier version
        keys, heads = _table(fields.get("peers")), _table(fields.get("heads"))
        lines = self._learn_keys(keys)
        if head is None:
            return lines
        known_keys, agreeing, missing, behind = self._known_keys(), [], [], []
        for peer in dict.fromkeys((*keys, *self._member.peers)):
            if peer == self._member.name:
                continue
            try:
                signed = SignedSeenHead.from_document(heads.get(peer) or {}, ledger=ledger, client=peer)
            except (CommonwealError, AttributeError):
                missing.append(peer)
                continue
            number, digest = signed.head.number, signed.head.hash
            own, source = seen.by_number.get(number, (None, ""))
            if not signed.is_signed(known_keys.get(peer, "")):
                lines.append(f"round {round_number}: DOUBTFUL HEAD: it is not signed with the key of {peer}")
            elif own is not None and own != digest:
                text = (
                    f"entry {number} of the ledger is {own[:16]}… by what the operator signed for this member "
                    f"({source}), but {digest[:16]}… by the head that {peer} signed: the operator shows two ledgers, "
                    f"or {peer} signed a false head. Compare statements with {peer}"
                )
                evidence = {"entry": number, "own": [own, source], "client": peer, "key": known_keys[peer]}
                lines.append(self._contradictions.keep(text, {**evidence, "signed": dict(signed.to_document())}))
            elif own is not None and number >= head.number:
                agreeing.append(peer)
            else:
                behind.append(peer)
        return [*lines, *_summary(round_number, agreeing, missing, behind)]

    def _learn_keys(self, told: Mapping[str, Any]) -> list[str]:
        known, lines = self._known_keys(), []
        fresh = {}
        for peer, key in told.items():
            if peer == self._member.name or not isinstance(key, str):
                continue
            if peer not in known:
                fresh[peer] = key
            elif known[peer] != key:
                text = (
                    f"the operator now names the key {key[:24]}… for {peer}, not {known[peer][:24]}… as before or as "
                    f"in this member's file. Ask {peer} for its public key"
                )
                lines.append(self._contradictions.keep(text, {"client": peer, "known": known[peer], "told": key}))
        if fresh:
            content = json.dumps(self._pinned() | fresh, indent=1, ensure_ascii=False).encode()
            write_atomically(self._store.path / PEERS, content, what="the keys of the other members")
        return lines

    def _known_keys(self) -> dict[str, str]:
        return {**self._pinned(), **self._member.peers}

    def _pinned(self) -> dict[str, str]:
        try:
            content = (self._store.path / PEERS).read_text()
        except FileNotFoundError:
            return {}
        return {peer: key for peer, key in _table(content).items() if isinstance(key, str)}


def _summary(round_number: int, agreeing: list[str], missing: list[str], behind: list[str]) -> list[str]:
    """One line on who saw the same ledger; the operator may withhold heads, so it says whose did not come."""
    count = len(agreeing) + len(missing) + len(behind)
    if not count:
        return []
    line = f"round {round_number}: {len(agreeing)} of {count} other members saw the same ledger up to its last entry"
    if missing:
        line += f"; NO HEAD of {', '.join(missing)} was passed on"
    if behind:
        line += f"; the head of {', '.join(behind)} is of another entry"
    return [line]


def _table(text: object) -> dict[str, Any]:
    """A table in JSON; an empty one if it is anything else."""
    try:
        found = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        found = {}
    return found if isinstance(found, dict) else {}
