"""A ledger in the format of beancount. Text written by users appears only in strings and comments."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from datetime import timedelta

from commonweal.ledger.export.journal import Journal, JournalEntry, client_of
from commonweal.ledger.export.plain_text import AccountSyntax, account_names, legal_part, money, preface, quoted, remark
from commonweal.ledger.terms import Terms
from commonweal.records.statement import amount_text


def _part(client: str) -> str:
    """Letters, digits and dashes, starting with a capital or a digit; some scripts have no capitals."""
    part = legal_part(client, kept="-", categories=("L", "Nd"))
    capital = part[0].upper()  # ß becomes SS, and ǰ a J plus an accent, which is not a letter
    if all(unicodedata.category(letter) in ("Lu", "Nd") for letter in capital):
        return capital + part[1:]
    return f"X-{part}"


BEANCOUNT_ACCOUNTS = AccountSyntax(
    clients="Assets:Clients:",
    accrued="Assets:Accrued:",
    income="Income:Model",
    potential="Income:Potential",
    external="Equity:External",
    part=_part,
)


def to_beancount(journal: Journal) -> str:
    """The ledger as text, to be saved as UTF-8."""
    return "\n\n".join("\n".join(block) for block in _blocks(journal)) + "\n"


def _blocks(journal: Journal) -> Iterator[list[str]]:
    terms, names, opened = journal.terms, account_names(journal, BEANCOUNT_ACCOUNTS), journal.first_day
    yield preface(journal)
    yield [f'option "title" {quoted(terms.name)}', f'option "operating_currency" "{terms.currency}"']
    yield [f"{opened} commodity {terms.currency}"]
    for account, name in names.items():
        client = client_of(account)
        whose = [] if client is None else [f"  client: {quoted(client)}"]
        yield [f"{opened} open {name} {terms.currency}", *whose]
    for entry in journal.entries:
        yield _transaction(entry, names, terms) if entry.moved else remark(entry)
    if journal.balances:
        yield _assertions(journal, names)


def _transaction(entry: JournalEntry, names: Mapping[str, str], terms: Terms) -> list[str]:
    facts = {
        "entry": str(entry.number),
        "kind": quoted(entry.kind),
        "round": None if entry.round_number is None else str(entry.round_number),
        "note": quoted(entry.note) if entry.note else None,
        "hash": quoted(entry.hash),
    }
    return [
        f"{entry.day} * {quoted(entry.words)}",
        *(f"  {fact}: {value}" for fact, value in facts.items() if value is not None),
        *(f"  {names[posting.account]:<40}  {money(posting.amount, terms):>16}" for posting in entry.moved),
    ]


def _assertions(journal: Journal, names: Mapping[str, str]) -> list[str]:
    """Assert exact balances at the start of the next day: without `~ 0`, beancount tolerates one minor unit."""
    terms, after = journal.terms, journal.last_day + timedelta(days=1)
    return [
        f"{after} balance {names[account]:<40}  {amount_text(balance, terms.minor_digits)} ~ 0 {terms.currency}"
        for account, balance in journal.balances.items()
    ]
