"""What the files of all plain-text accounting have in common. Comments start with a semicolon."""

from __future__ import annotations

from commonweal.ledger.export.journal import Journal, JournalEntry
from commonweal.ledger.terms import Terms
from commonweal.records.statement import amount_text


def quoted(text: str) -> str:
    """What a user wrote, on one line between double quotes; a backslash stands before quotes and backslashes in it."""
    visible = "".join(letter if letter.isprintable() else f"<U+{ord(letter):04X}>" for letter in text)
    return '"' + visible.replace("\\", "\\\\").replace('"', '\\"') + '"'


def money(amount: int, terms: Terms) -> str:
    return f"{amount_text(amount, terms.minor_digits)} {terms.currency}"


def preface(journal: Journal) -> list[str]:
    """Which book it is, in comments."""
    return [
        f"; {quoted(journal.terms.name)}, a book of settlements, exported by commonweal.",
        f"; It is book {journal.book}, here up to entry {journal.entries[-1].number}.",
        f"; One unit of utility is worth {money(journal.terms.worth, journal.terms)}.",
    ]


def remark(entry: JournalEntry) -> list[str]:
    """An entry by which no money moved, in comments."""
    note = f": {quoted(entry.note)}" if entry.note else ""
    return [f"; entry {entry.number}, {entry.day}, {entry.words}{note}", f"; hash {entry.hash}"]
