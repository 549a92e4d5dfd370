"""What hledger and beancount files have in common: names of accounts, quoting, comments."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from commonweal.ledger.entries import EXTERNAL, INCOME, POTENTIAL, accrued_account, client_account
from commonweal.ledger.export.journal import Journal, JournalEntry, client_of
from commonweal.ledger.terms import Terms
from commonweal.records.statement import amount_text


def quoted(text: str) -> str:
    """A user's text on one line in double quotes, with quotes and backslashes escaped by a backslash."""
    visible = "".join(letter if letter.isprintable() else f"<U+{ord(letter):04X}>" for letter in text)
    return '"' + visible.replace("\\", "\\\\").replace('"', '\\"') + '"'


def money(amount: int, terms: Terms) -> str:
    return f"{amount_text(amount, terms.minor_digits)} {terms.currency}"


def preface(journal: Journal) -> list[str]:
    """Comments that say which ledger this is."""
    return [
        f"; {quoted(journal.terms.name)}, a ledger of settlements, exported by commonweal.",
        f"; Ledger {journal.ledger}, up to entry {journal.entries[-1].number}.",
        f"; One unit of utility is worth {money(journal.terms.worth, journal.terms)}.",
    ]


def remark(entry: JournalEntry) -> list[str]:
    """Comments for an entry that moved no money."""
    note = f": {quoted(entry.note)}" if entry.note else ""
    return [f"; entry {entry.number}, {entry.day}, {entry.words}{note}", f"; hash {entry.hash}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSyntax:
    """How a program names accounts."""

    clients: str  # prefix of a client's account
    accrued: str
    income: str
    potential: str
    external: str
    part: Callable[[str], str]  # a client's name as part of an account's name


def account_names(journal: Journal, syntax: AccountSyntax) -> dict[str, str]:
    """A name for every member's account, and for every other account with postings.

    If two names become the same, the member who was admitted first keeps it and the other one gets a number.
    """
    balances, accrues = journal.balances, journal.terms.settlement == "accruals"
    parts = _unique([*journal.members, *filter(None, map(client_of, balances))], syntax.part)
    names = {INCOME: syntax.income, POTENTIAL: syntax.potential, EXTERNAL: syntax.external}
    for client, part in parts.items():
        names[client_account(client)] = syntax.clients + part
        names[accrued_account(client)] = syntax.accrued + part
    used = [client_account(client) for client in journal.members]
    used += [accrued_account(client) for client in journal.members if accrues]
    return {account: names[account] for account in dict.fromkeys((*used, *balances))}


def legal_part(name: str, *, kept: str, categories: tuple[str, ...]) -> str:
    """Replace each run of characters that are neither in `kept` nor in these Unicode categories with a dash."""
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
