"""What hledger and beancount files have in common: names of accounts, quoting, comments."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from commonweal.ledger.entries import INCOME, POTENTIAL, accrued_account, client_account
from commonweal.ledger.export.journal import Journal, JournalEntry, client_of
from commonweal.ledger.terms import Terms
from commonweal.records.statement import amount_text


def quoted(text: str) -> str:
    """What a user wrote, on one line between double quotes; a backslash stands before quotes and backslashes in it."""
    visible = "".join(letter if letter.isprintable() else f"<U+{ord(letter):04X}>" for letter in text)
    return '"' + visible.replace("\\", "\\\\").replace('"', '\\"') + '"'


def money(amount: int, terms: Terms) -> str:
    return f"{amount_text(amount, terms.minor_digits)} {terms.currency}"


def preface(journal: Journal) -> list[str]:
    """Which ledger it is, in comments."""
    return [
        f"; {quoted(journal.terms.name)}, a ledger of settlements, exported by commonweal.",
        f"; It is ledger {journal.ledger}, here up to entry {journal.entries[-1].number}.",
        f"; One unit of utility is worth {money(journal.terms.worth, journal.terms)}.",
    ]


def remark(entry: JournalEntry) -> list[str]:
    """An entry by which no money moved, in comments."""
    note = f": {quoted(entry.note)}" if entry.note else ""
    return [f"; entry {entry.number}, {entry.day}, {entry.words}{note}", f"; hash {entry.hash}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSyntax:
    """How a program wants accounts to be named."""

    clients: str  # what stands before a client's name
    accrued: str
    income: str
    potential: str
    part: Callable[[str], str]  # a client's name as one part of an account's


def account_names(journal: Journal, syntax: AccountSyntax) -> dict[str, str]:
    """A name for every account of the members, and for all others on which something moved.

    Whoever was admitted earlier keeps the name; who comes later and would have the same gets a number.
    """
    balances, accrues = journal.balances, journal.terms.settlement == "accruals"
    parts = _unique([*journal.members, *filter(None, map(client_of, balances))], syntax.part)
    names = {INCOME: syntax.income, POTENTIAL: syntax.potential}
    for client, part in parts.items():
        names[client_account(client)] = syntax.clients + part
        names[accrued_account(client)] = syntax.accrued + part
    used = [client_account(client) for client in journal.members]
    used += [accrued_account(client) for client in journal.members if accrues]
    return {account: names[account] for account in dict.fromkeys((*used, *balances))}


def legal_part(name: str, *, kept: str, categories: tuple[str, ...]) -> str:
    """The name with a dash for each run of characters that are neither kept nor of these Unicode categories."""
    marked = "".join(
        letter if letter in kept or unicodedata.category(letter).startswith(categories) else "\0"
        for letter in unicodedata.normalize("NFC", name)
    )
    return re.sub(" +", " ", re.sub("\0+", "-", marked)).strip(" -") or "client"


def _unique(clients: Iterable[str], part_of: Callable[[str], str]) -> dict[str, str]:
    parts: dict[str, str] = {}
    taken: set[str] = set()
    for client in dict.fromkeys(clients):
        wanted = part = part_of(client)
        number = 1
        while part in taken:
            number += 1
            part = f"{wanted}-{number}"
        parts[client] = part
        taken.add(part)
    return parts
