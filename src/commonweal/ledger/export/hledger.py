"""A ledger as an hledger journal, which passes `hledger check --strict`.

Text written by users appears only in comments that begin a line, where hledger reads nothing: in other comments a
client's name could set a tag that hledger obeys, such as `type:`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from commonweal.ledger.export.journal import Journal, JournalEntry, client_of
from commonweal.ledger.export.plain_text import AccountSyntax, account_names, legal_part, money, preface, quoted, remark
from commonweal.ledger.terms import Terms
from commonweal.records.statement import amount_text


def _part(client: str) -> str:
    return legal_part(client, kept=" -_.&'", categories=("L", "M", "N"))


HLEDGER_ACCOUNTS = AccountSyntax(
    clients="assets:clients:",
    accrued="assets:accrued:",
    income="income:model",
    potential="income:potential",
    external="equity:external",
    part=_part,
)


def to_hledger(journal: Journal) -> str:
    """The journal as text, to be saved as UTF-8. If names are not ASCII, hledger needs a UTF-8 locale."""
    return "\n\n".join("\n".join(block) for block in _blocks(journal)) + "\n"


def _blocks(journal: Journal) -> Iterator[list[str]]:
    terms, names = journal.terms, account_names(journal, HLEDGER_ACCOUNTS)
    yield preface(journal)
    example = amount_text(1000 * 10**terms.minor_digits, terms.minor_digits)
    yield ["decimal-mark .", f"commodity {example}{'' if terms.minor_digits else '.'} {terms.currency}"]
    for account, name in names.items():
        client = client_of(account)
        yield [f"account {name}"] if client is None else [f"; {quoted(client)}:", f"account {name}"]
    for entry in journal.entries:
        yield _transaction(entry, names, terms) if entry.moved else remark(entry)
    if journal.balances:
        yield _assertions(journal, names)


def _transaction(entry: JournalEntry, names: Mapping[str, str], terms: Terms) -> list[str]:
    tags = {"entry": entry.number, "kind": entry.kind, "round": entry.round_number, "hash": entry.hash}
    stated = ", ".join(f"{tag}:{value}" for tag, value in tags.items() if value is not None)
    return [
        *([f"; {quoted(entry.note)}:"] if entry.note else []),
        f"{entry.day} ({entry.number}) {entry.words}  ; {stated}",
        *(_posting(names[posting.account], money(posting.amount, terms)) for posting in entry.moved),
    ]


def _assertions(journal: Journal, names: Mapping[str, str]) -> list[str]:
    nothing = money(0, journal.terms)
    return [
        "; No money moves here; hledger checks that every balance is as stated:",
        f"{journal.last_day} balances after entry {journal.entries[-1].number}",
        *(
            f"{_posting(names[account], nothing)} = {money(balance, journal.terms)}"
            for account, balance in journal.balances.items()
        ),
    ]


def _posting(name: str, amount: str) -> str:
    return f"    {name:<40}  {amount:>16}"
