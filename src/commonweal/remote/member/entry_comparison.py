"""Compare the entries that a signed file names with those that the operator showed before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from commonweal.errors import CommonwealError
from commonweal.ledger.chain import KeyChange, key_changes, rotation_entries
from commonweal.ledger.receipts import RECEIPT_FORMAT
from commonweal.ledger.seen_heads import LARGEST_TRAIL
from commonweal.ledger.signed_files import SignedDocument, signed_in
from commonweal.remote.member.contradictions import Contradictions
from commonweal.remote.member.kept_aside import CONTRADICTING, KeptAside
from commonweal.remote.member.operator_key import KEY_CHANGE, changes_alone, kept_rotations, rotations_in
from commonweal.remote.member.seen_entries import NAMED, SeenEntries, by_number
from commonweal.remote.member.store import ERROR, MemberStore

LARGEST_HEAD = 1_000_000  # bytes
MOST_NAMED = 10_000  # lines


class EntryComparison:
    """Every method returns lines for the log."""

    def __init__(self, store: MemberStore, seen: SeenEntries) -> None:
        self._store = store
        self._seen = seen
        self._aside = KeptAside(store)

    def compare(self, hashes: Mapping[int, str], source: str) -> list[str]:
        """Compare entries that a file names with those that other files name; returns lines for the log.

        Of a trail that was not learned, one entry is enough: all of it may be false.
        """
        differing: dict[int, tuple[str, str]] = {}
        for number, digest, place in self._seen.named():
            if place != source and hashes.get(number, digest) != digest:
                differing.setdefault(number, (digest, place))
        for file in self._seen.not_learned():
            entries, place = self._seen.read_once(file), self._seen.place_of(file)
            first = next((number for number in entries if hashes.get(number, entries[number]) != entries[number]), None)
            if place != source and first is not None:
                differing.setdefault(first, (entries[first], place))
        return [self.contradiction(number, hashes[number], source, *before) for number, before in differing.items()]

    def compare_and_name(self, hashes: Mapping[int, str], source: str) -> list[str]:
        """Compare entries that are not learned, and remember those that nothing else names.

        Returns lines for the log.
        """
        if not hashes:
            return []
        lines, seen, place = self.compare(hashes, source), by_number(self._seen.named()), source.replace(" ", "-")
        fresh = [(number, digest, place) for number, digest in hashes.items() if number not in seen]
        if len(fresh) + len(self._seen.only_named) > MOST_NAMED:
            return [*lines, f"{ERROR} there is no room in {NAMED} for {len(fresh)} more entries, named in {source}"]
        self._seen.name_entries(fresh)
        return lines

    def compare_receipt(self, content: str) -> list[str]:
        """Compare the changes of the operator's key that a receipt names; returns lines for the log."""
        given = content.encode(errors="surrogatepass")
        try:
            signed = signed_in(given, "the receipt", (RECEIPT_FORMAT,))
        except CommonwealError:
            return []  # it is kept as doubtful
        return self.compare_rotations(signed, "a receipt", {}, given) if signed.is_sound else []

    def compare_rotations(
        self, signed: SignedDocument, source: str, named: Mapping[int, tuple[str, str]], content: bytes = b""
    ) -> list[str]:
        """Changes of the operator's key are entries: compare them with those seen, and those that the file names.

        A document that no file holds has its `content` given. It is kept aside if it is the first to name one of them,
        or contradicts. If it is too large, or stands in a file that is not read again, its changes are kept alone.
        """
        operator = self._seen.operator_of(signed)
        changes = list(key_changes(operator, self._seen.ledger, rotations_in(signed)))
        if not changes:
            return []
        entries = {change.document["number"]: change.hash for change in changes}
        seen = {**named, **by_number(self._seen.named())}
        differing = {number: digest for number, digest in entries.items() if seen.get(number, (digest,))[0] != digest}
        known = {
            number
            for given in kept_rotations(self._store)
            for number in rotation_entries(operator, self._seen.ledger, given)
        }
        others = self._other_changes(operator, changes)
        alone = changes_alone(self._seen.ledger, changes)
        if differing and content:
            source = self._aside.keep(content if len(content) <= LARGEST_TRAIL else alone, CONTRADICTING)
        elif not differing and not entries.keys() <= known & seen.keys():
            kept = content if 0 < len(content) <= LARGEST_HEAD else alone
            is_new = not (self._store.path / self._aside.place(kept, KEY_CHANGE)).exists()
            aside = self._aside.keep(kept, KEY_CHANGE)
            source = aside if content else source
            if is_new:
                numbers = ", ".join(map(str, entries))
                self._store.log(f"the operator's key is said to be changed by entry {numbers}, in {source}")
        lines = [
            Contradictions(self._store).keep(
                f"the operator signed two different changes of its key {first.before[:16]}…: "
                f"{_in_words(first)} and {_in_words(second)}, in {source}",
                {"key": first.before, "first": _facts(first), "second": _facts(second), "source": source},
                kind="key",
            )
            for first, second in others
        ]
        lines += [
            self.contradiction(number, digest, f"a change of the operator's key in {source}", *seen[number])
            for number, digest in differing.items()
        ]
        rest = {number: digest for number, digest in entries.items() if number not in differing}
        return [*lines, *self.compare_and_name(rest, source)]

    def _other_changes(self, operator: str, given: Iterable[KeyChange]) -> list[tuple[KeyChange, KeyChange]]:
        """Changes of a key that a kept file names otherwise, to another key or by another entry, after the kept one."""
        found: dict[str, tuple[KeyChange, KeyChange]] = {}
        for kept in kept_rotations(self._store):
            before = {change.before: change for change in key_changes(operator, self._seen.ledger, kept)}
            for change in given:
                first = before.get(change.before, change)
                if (first.key, first.document["number"]) != (change.key, change.document["number"]):
                    found[change.before] = (first, change)
        return list(found.values())

    def contradiction(self, number: int, digest: str, source: str, before: str, where: str) -> str:
        text = (
            f"the operator signed two different entries {number}: {before[:16]}… in {where} and {digest[:16]}… "
            f"in {source}"
        )
        evidence = {"entry": number, "first": [before, where], "second": [digest, source]}
        return Contradictions(self._store).keep(text, evidence, kind="entry")


def _in_words(change: KeyChange) -> str:
    return f"to {change.key[:16]}… by entry {change.document['number']}"


def _facts(change: KeyChange) -> list[str | int]:
    return [change.key, change.document["number"]]
