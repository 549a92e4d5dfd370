"""Exports: hledger reads its own, the documented grammar reads beancount's, and a copy verifies like the ledger."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import os
import re
import shutil
import sqlite3
import subprocess
import unicodedata
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.decide import decide_figures
from commonweal.errors import LedgerError, StorageError
from commonweal.ledger.entries import Draft, Posting, client_account, seal
from commonweal.ledger.export.beancount import BEANCOUNT_ACCOUNTS
from commonweal.ledger.export.exports import beancount_content, copy_ledger, csv_content, hledger_content
from commonweal.ledger.export.hledger import HLEDGER_ACCOUNTS
from commonweal.ledger.export.journal import Journal
from commonweal.ledger.export.plain_text import account_names
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.rounds import RoundToSettle
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.statements import make_statement
from commonweal.ledger.terms import Terms
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.records import Figures, RoundRecord, Rules
from commonweal.records.statement import amount_text
from tests.ledger.sample_ledger import make_sample, others_absent, rewritten, tampering

HLEDGER = shutil.which("hledger")
needs_hledger = pytest.mark.skipif(not HLEDGER, reason="needs hledger on the path, as packaged by Debian")
CONTENTS = (csv_content, hledger_content, beancount_content)
HOSTILE_NAMES = (
    "north", "North", "NORTH", "=1+1", "+49 30", "-3", "@home", "'quoted", "St. Mary's  General ; type:Z",
    'a, type:Z "x" \\', "(virtual)", "[balanced]", "a:b::c", "a|b", "* !", "42nd street", "🏥", "🏥🏥", "Köln-Süd",
    "東京病院", "ﬁne", "ǰ", "ß", "client", "north-2", "x" * 60, "date:2020-99-99", "1.00 XTS", "\\", "{a}", "~", "؟",
)  # fmt: skip
KINDS = list(itertools.product(("transfers", "accruals"), (0, 2, 6)))


def settled(number, clients, *, mu=math.inf, profits=None, contributions=None):
    spread = {client: 1.0 + math.sin(7 * place + number) for place, client in enumerate(clients)}
    figures = Figures(
        profits=profits or spread,
        contributions=contributions or {client: 1.0 + place % 5 for place, client in enumerate(clients)},
    )
    record = RoundRecord(round_number=number, decision=decide_figures(figures, Rules(mu=mu)))
    return RoundToSettle(record=record, rules_version="1")


def days():
    """One entry per day."""
    start = datetime(2026, 2, 26, 23, 59, 59, tzinfo=UTC)
    return iter([start + timedelta(days=count) for count in range(100)])


def fill(location, folder, *, clients=HOSTILE_NAMES, settlement="transfers", digits=2):
    """A ledger with entries of every kind."""
    moments = days()
    store = open_store(str(location), create=True)
    terms = Terms(name='"five"; banks', settlement=settlement, minor_digits=digits, worth=123_456)
    ledger = Ledger.start(store, terms, KeyDirectory(folder / "keys"), clock=lambda: next(moments))
    ledger.admit(dict.fromkeys(clients[:-2]))
    ledger.admit(dict.fromkeys(clients[-2:]))
    ledger.settle(settled(1, clients))
    profits = dict(zip(clients, (1.0, -2.0, 3.0, 0.5, 4.0), strict=False))
    ledger.settle(others_absent(settled(2, clients[:5], mu=0.0, profits=profits), ledger))
    nothing = dict.fromkeys(clients[2:4], 0.0)
    unpaid = settled(3, clients[2:4], profits=nothing, contributions=dict.fromkeys(nothing, 1.0))
    ledger.settle(others_absent(unpaid, ledger))
    ledger.reverse_round(1, 'wrong "figures"; see \\ below, type:Z')
    ledger.settle(others_absent(settled(1, (*clients[::2], *clients[5::2])), ledger))
    if settlement == "accruals":
        ledger.realise(10**7 + 1, "=INV; 7 | 8")
        ledger.reverse(ledger.realise(333, "2026-02").entry, "paid back")
    ledger.withdraw(clients[3], 3, None)
    ledger.rotate_key()
    return store, ledger


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: "-".join(map(str, kind)))
def filled(request, tmp_path_factory):
    settlement, digits = request.param
    folder = tmp_path_factory.mktemp("ledger")
    store, ledger = fill(folder / "ledger.db", folder, settlement=settlement, digits=digits)
    yield store, ledger
    store.close()


@pytest.fixture(scope="module")
def small_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    fill(folder / "ledger.db", folder, clients=("a", "b", "c", "d", "e"), settlement="accruals")[0].close()
    return folder / "ledger.db"


@pytest.fixture
def small(small_file, tmp_path):
    """A ledger of five clients that a test may damage, and its file."""
    file = tmp_path / "ledger.db"
    shutil.copy(small_file, file)
    store = open_store(str(file))
    yield store, file
    store.close()


def spoil(file, statement, *values):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement, values)


def entry_documents(store):
    with store.reading() as reading:
        return [(json.loads(entry.content), entry) for entry in reading.entries()]


def moved_balances(ledger):
    return {account: amount for account, amount in ledger.state.balances.items() if amount}


# CSV


def rows_of(content):
    text = content.decode()
    assert text.startswith("\ufeff")
    assert re.sub(r'"(?:[^"]|"")*"', "", text).count("\n") == text.count("\r\n")
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def test_the_table_has_a_row_for_each_posting(filled):
    store, ledger = filled
    expected = [
        (str(document["number"]), document["at"], document["kind"], account, amount_text(int(amount), digits))
        for digits in [ledger.terms.minor_digits]
        for document, _ in entry_documents(store)
        for account, amount in document["postings"]
    ]
    rows = rows_of(csv_content(store))
    assert [tuple(row[name] for name in ("entry", "at", "kind", "account", "amount")) for row in rows] == expected
    assert {row["currency"] for row in rows} == {"XTS"}
    for row in rows:
        assert row["account"].partition("/")[2] == row["client"].removeprefix("'")


def test_no_cell_of_the_table_is_a_formula(filled):
    for row in rows_of(csv_content(filled[0])):
        assert not row["client"].startswith(("=", "+", "-", "@"))
        assert not row["text"].startswith(("=", "+", "-", "@"))
    names = {row["account"].partition("/")[2]: row["client"] for row in rows_of(csv_content(filled[0]))}
    assert names["=1+1"] == "'=1+1"
    assert names["'quoted"] == "''quoted"
    assert names["north"] == "north"


def test_a_reversal_has_its_round_and_reason(filled):
    reversals = [row for row in rows_of(csv_content(filled[0])) if row["kind"] == "reversal" and row["round"]]
    assert {(row["round"], row["text"]) for row in reversals} == {
        ("1", 'reversal of entry 4: wrong "figures"; see \\ below, type:Z')
    }


# hledger


def hledger(content, folder, *arguments):
    file = folder / "ledger.journal"
    file.write_bytes(content)
    return subprocess.run(
        [HLEDGER, "-f", file, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
    )


def hledger_accounts(content):
    """The ledger's accounts by their hledger names, from the comment before each declaration."""
    accounts = {"income:model": "model-income", "income:potential": "model-potential"}
    for quoted, name in re.findall(r'^; (".*"):\naccount (.*)$', content.decode(), re.MULTILINE):
        kind = name.split(":")[1]
        accounts[name] = f"{kind}/{json.loads(quoted)}"
    return accounts


@needs_hledger
def test_hledger_finds_nothing_wrong_and_the_same_balances(filled, tmp_path):
    store, ledger = filled
    content = hledger_content(store)
    checked = hledger(content, tmp_path, "check", "--strict")
    assert (checked.returncode, checked.stderr) == (0, "")
    table = hledger(content, tmp_path, "balance", "--flat", "--no-total", "-O", "csv").stdout
    accounts, digits = hledger_accounts(content), ledger.terms.minor_digits
    found = {accounts[row["account"]]: row["balance"] for row in csv.DictReader(io.StringIO(table))}
    assert found == {
        account: f"{amount_text(amount, digits)} XTS" for account, amount in moved_balances(ledger).items()
    }


@needs_hledger
def test_hledger_has_a_transaction_for_each_entry_that_moved_money(filled, tmp_path):
    store, _ = filled
    listed = json.loads(hledger(hledger_content(store), tmp_path, "print", "-O", "json").stdout)
    found = {(each["tcode"], each["tdate"], dict(each["ttags"])["hash"]) for each in listed if each["tcode"]}
    assert found == {
        (str(document["number"]), document["at"][:10], entry.hash)
        for document, entry in entry_documents(store)
        if any(int(amount) for _, amount in document["postings"])
    }


@needs_hledger
def test_hledger_checks_the_balances_that_are_stated(small, tmp_path):
    content = hledger_content(small[0])
    assert hledger(content, tmp_path, "check").returncode == 0
    wrong = re.sub(rb"= (\S+) XTS$", one_cent_more, content, count=1, flags=re.MULTILINE)
    answer = hledger(wrong, tmp_path, "check")
    assert answer.returncode != 0
    assert "balance assertion" in answer.stderr


def one_cent_more(stated):
    return f"= {Decimal(stated[1].decode()) + Decimal('0.01')} XTS".encode()


def test_a_journal_of_plain_names_is_ascii(small):
    assert hledger_content(small[0]).isascii()  # hledger needs a UTF-8 locale for other characters


# beancount


@dataclass
class Beancount:
    """The content of a file, read by the grammar in beancount's documentation."""

    options: dict = field(default_factory=dict)
    opened: dict = field(default_factory=dict)  # account → day
    clients: dict = field(default_factory=dict)  # account → name
    transactions: list = field(default_factory=list)  # (day, metadata, postings)
    balances: list = field(default_factory=list)  # (day, account, amount, tolerance)


DATE, CURRENCY, NUMBER = r"(\d{4}-\d\d-\d\d)", r"([A-Z][A-Z0-9'._-]{0,22}[A-Z0-9])", r"(-?\d+(?:\.\d+)?)"
STRING, ACCOUNT = r'("(?:[^\\"]|\\.)*")', r"(\S+)"


def read_beancount(content):
    found, about = Beancount(), None
    for line in content.decode().split("\n"):
        if not line or line.startswith(";"):
            about = None
        elif match := re.fullmatch(rf"option {STRING} {STRING}", line):
            found.options[json.loads(match[1])] = json.loads(match[2])
        elif match := re.fullmatch(rf"{DATE} commodity {CURRENCY}", line):
            date.fromisoformat(match[1])
        elif match := re.fullmatch(rf"{DATE} open {ACCOUNT} {CURRENCY}", line):
            assert match[2] not in found.opened
            assert is_account(match[2])
            found.opened[match[2]] = date.fromisoformat(match[1])
            about = {}
            found.clients[match[2]] = about
        elif match := re.fullmatch(rf"{DATE} \* {STRING}", line):
            about, postings = {}, []
            found.transactions.append((date.fromisoformat(match[1]), about, postings))
        elif match := re.fullmatch(rf"  ([a-z][a-zA-Z0-9_-]+): (?:{STRING}|{NUMBER})", line):
            assert about is not None
            about[match[1]] = json.loads(match[2] or match[3])
        elif match := re.fullmatch(rf"  {ACCOUNT} +{NUMBER} {CURRENCY}", line):
            assert found.opened[match[1]] <= found.transactions[-1][0]
            postings.append((match[1], Decimal(match[2])))
        elif match := re.fullmatch(rf"{DATE} balance {ACCOUNT} +{NUMBER} ~ {NUMBER} {CURRENCY}", line):
            found.balances.append((date.fromisoformat(match[1]), match[2], Decimal(match[3]), Decimal(match[4])))
        else:
            raise AssertionError(f"no line of beancount: {line!r}")
    found.clients = {account: about["client"] for account, about in found.clients.items() if about}
    return found


def is_account(name):
    """[Lu][L Nd -]* and at least one :[Lu Nd][L Nd -]* after a root that beancount knows."""
    root, *parts = name.split(":")
    return root in ("Assets", "Income") and bool(parts) and all(map(is_account_part, parts))


def is_account_part(part):
    categories = [unicodedata.category(letter) for letter in part]
    return categories[:1] in (["Lu"], ["Nd"]) and all(
        letter == "-" or category.startswith("L") or category == "Nd"
        for letter, category in zip(part, categories, strict=True)
    )


def test_beancount_has_the_same_transactions_and_balances(filled):
    store, ledger = filled
    found = read_beancount(beancount_content(store))
    assert found.options == {"title": '"five"; banks', "operating_currency": "XTS"}
    roots = {"Income:Model": "model-income", "Income:Potential": "model-potential"}
    accounts = roots | {name: f"{name.split(':')[1].lower()}/{client}" for name, client in found.clients.items()}
    summed, units = Counter(), 10**ledger.terms.minor_digits
    for _, _, postings in found.transactions:
        assert sum(amount for _, amount in postings) == 0
        for name, amount in postings:
            summed[accounts[name]] += int(amount * units)
    assert +summed == +Counter(moved_balances(ledger))
    assert -summed == -Counter(moved_balances(ledger))
    assert {accounts[name]: int(amount * units) for _, name, amount, _ in found.balances} == dict(summed)
    assert {tolerance for *_, tolerance in found.balances} == {0}
    (after,) = {day for day, *_ in found.balances}
    assert after == max(date.fromisoformat(document["at"][:10]) for document, _ in entry_documents(store)) + timedelta(
        1
    )
    assert [(str(day), about["entry"], about["kind"], about["hash"]) for day, about, _ in found.transactions] == [
        (document["at"][:10], document["number"], document["kind"], entry.hash)
        for document, entry in entry_documents(store)
        if any(int(amount) for _, amount in document["postings"])
    ]


def test_entries_without_money_are_comments(filled):
    store, _ = filled
    quiet = [
        (document, entry)
        for document, entry in entry_documents(store)
        if not any(int(amount) for _, amount in document["postings"])
    ]
    assert {"opening", "admission", "round", "withdrawal", "key-rotation"} == {
        document["kind"] for document, _ in quiet
    }
    for make in (hledger_content, beancount_content):
        text = make(store).decode()
        for document, entry in quiet:
            assert f"\n; entry {document['number']}, {document['at'][:10]}, " in text
            assert f"\n; hash {entry.hash}\n" in text


# Names


def journal_of(members):
    return Journal(terms=Terms(name="x", settlement="accruals"), ledger="", members=tuple(members), entries=())


letters = st.characters(exclude_categories=("C", "Z"), include_characters=" ")
printable = st.text(letters, min_size=1, max_size=60)
ascii_names = st.text("aA1 -:;|()[]'\"", min_size=1, max_size=4)


@given(st.lists(printable | ascii_names, unique=True, max_size=8), st.integers(0, 8))
def test_any_names_become_legal_accounts_that_stay_apart_and_stay_the_same(members, earlier):
    for syntax in (HLEDGER_ACCOUNTS, BEANCOUNT_ACCOUNTS):
        names = account_names(journal_of(members), syntax)
        assert len(set(names.values())) == len(names) == 2 * len(members)
        before = account_names(journal_of(members[:earlier]), syntax)
        assert before == {account: names[account] for account in before}
        for name in names.values():
            if syntax is BEANCOUNT_ACCOUNTS:
                assert is_account(name)
            else:
                assert name.count(":") == 2
                assert not re.search(r"  |[;|()\[\]\"\t\n]|[: ]$|: ", name)


def test_ordinary_names_are_hardly_changed():
    members = ("St. Mary's", "Köln-Süd", "north", "North")
    hledger_names = account_names(journal_of(members), HLEDGER_ACCOUNTS)
    assert [hledger_names[client_account(client)] for client in members] == [
        "assets:clients:St. Mary's", "assets:clients:Köln-Süd", "assets:clients:north", "assets:clients:North",
    ]  # fmt: skip
    beancount_names = account_names(journal_of(members), BEANCOUNT_ACCOUNTS)
    assert [beancount_names[client_account(client)] for client in members] == [
        "Assets:Clients:St-Mary-s", "Assets:Clients:Köln-Süd", "Assets:Clients:North", "Assets:Clients:North-2",
    ]  # fmt: skip


# What is no sound ledger


@pytest.mark.parametrize("make", [*CONTENTS, lambda store: make_statement(store, "a", at="")])
@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        (
            "UPDATE commonweal_entries SET content = replace(content, '\"a\"', '\"z\"') WHERE number = 4",
            "entry 4 was changed",
        ),
        ("UPDATE commonweal_entries SET content = 'no document' WHERE number = 5", "entry 5 was changed"),
        ("DELETE FROM commonweal_entries WHERE number = 3", "entry 4 does not follow the one before it"),
    ],
)
def test_a_changed_ledger_is_not_exported(small, make, statement, fault):
    store, file = small
    spoil(file, statement)
    with pytest.raises(
        LedgerError,
        match=rf"^Cannot make an? (export|statement): the ledger is not sound \({fault}\)\..*commonweal ledger verify$",
    ):
        make(store)


@pytest.mark.parametrize("make", CONTENTS)
@pytest.mark.parametrize(
    "draft",
    [
        Draft(kind="gift", body={}),
        Draft(kind="reversal", body={"entry": 4}),
        Draft(kind="round", body={"round": 9}),
        Draft(kind="reversal", body={"entry": 4, "reason": ""}, postings=(Posting("a\nb", 1), Posting("c/d", -1))),
        Draft(
            kind="reversal",
            body={"entry": 4, "reason": ""},
            postings=(Posting("clients/", 1), Posting("clients/a", -1)),
        ),
    ],
    ids=["kind", "reason", "round", "account", "account of nobody"],
)
def test_entries_of_an_unknown_version_are_refused(small, small_file, make, draft):
    store, _ = small
    key = KeyDirectory(small_file.parent / "keys").current()
    number, last = len(entry_documents(store)) + 1, entry_documents(store)[-1][1]
    with store.writing() as writing:
        writing.add(seal(draft, number=number, previous=last.hash, at="2026-03-01T", key=key), ())
    with pytest.raises(LedgerError, match=rf"this version cannot read entry {number}\..*commonweal ledger verify$"):
        make(store)


@pytest.mark.parametrize("make", CONTENTS)
def test_an_empty_store_cannot_be_exported(make, tmp_path):
    store = open_store(str(tmp_path / "empty.db"), create=True)
    with pytest.raises(LedgerError, match=r"has no ledger yet.*commonweal ledger init$"):
        make(store)
    store.close()


def test_a_new_ledger_can_be_exported(tmp_path):
    store = open_store(str(tmp_path / "ledger.db"), create=True)
    Ledger.start(store, Terms(name="new", minor_digits=0), KeyDirectory(tmp_path / "keys"))
    assert rows_of(csv_content(store)) == []
    assert read_beancount(beancount_content(store)).transactions == []
    if HLEDGER:
        assert hledger(hledger_content(store), tmp_path, "check", "--strict").returncode == 0
    store.close()


# Copies


@contextmanager
def copied(store, path):
    copy_ledger(store, path)
    copy = open_store(str(path))
    yield copy
    copy.close()


def test_a_copy_is_verified_with_the_same_outcome(new_location, tmp_path):
    store, ledger = fill(new_location(), tmp_path, settlement="accruals")
    with copied(store, tmp_path / "copy.db") as copy:
        outcome = verify_ledger(copy, recompute)
        assert outcome.findings == ()
        assert outcome == verify_ledger(store, recompute)
        assert outcome.state == ledger.state
        for make in CONTENTS:
            assert make(copy) == make(store)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".db" or path.name[0] == ".") in (
        ["copy.db"],
        ["0.db", "copy.db"],
    )
    store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE commonweal_entries SET content = replace(content, 'round', 'rownd') WHERE number = 4",
        "UPDATE commonweal_postings SET amount = amount + 1 WHERE entry = 4 AND position = 0",
        "UPDATE commonweal_postings SET position = 17 WHERE entry = 4 AND position = 0",
        "DELETE FROM commonweal_entries WHERE number = 4",  # but not its postings
        "UPDATE commonweal_entries SET signature = 'none' WHERE number = 2",
    ],
)
def test_a_copy_of_a_damaged_ledger_has_the_same_damage(small, tmp_path, statement):
    store, file = small
    spoil(file, statement)
    with copied(store, tmp_path / "copy.db") as copy:
        outcome = verify_ledger(copy, recompute)
    assert outcome.findings
    assert outcome == verify_ledger(store, recompute)


def test_a_copy_overwrites_nothing(small, tmp_path):
    store, file = small
    before = file.read_bytes()
    with pytest.raises(StorageError, match=r"Cannot copy the ledger to .*: the file already exists"):
        copy_ledger(store, file)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="the file already exists"):
        copy_ledger(store, tmp_path / "link")
    assert file.read_bytes() == before


def test_a_copy_needs_its_folder(small, tmp_path):
    with pytest.raises(StorageError, match=r"Cannot copy the ledger to .*nowhere/copy\.db: no such file or directory"):
        copy_ledger(small[0], tmp_path / "nowhere" / "copy.db")


class BreakingStore:
    """A store whose connection is lost in the middle of its postings."""

    def __init__(self, store, error):
        self._store, self._error = store, error

    @contextmanager
    def reading(self):
        with self._store.reading() as reading:
            yield BreakingReading(reading, self._error)


class BreakingReading:
    def __init__(self, reading, error):
        self.entries, self._postings, self._error = reading.entries, reading.postings, error

    def postings(self, *, after=0):
        yield from itertools.islice(self._postings(after=after), 3)
        raise self._error


@pytest.mark.parametrize("error", [StorageError("The server has gone."), KeyboardInterrupt(), OSError(28, "No room")])
def test_a_copy_that_fails_leaves_nothing(small, tmp_path, error):
    before = sorted(tmp_path.iterdir())
    with pytest.raises((StorageError, KeyboardInterrupt)):
        copy_ledger(BreakingStore(small[0], error), tmp_path / "copy.db")
    assert sorted(tmp_path.iterdir()) == before


def test_a_ledger_whose_dates_go_back_can_be_exported(tmp_path):
    """Earlier versions wrote whatever their clock said: an entry may be dated before the opening."""
    sample = make_sample(str(tmp_path / "ledger.db"), tmp_path / "keys", "accruals")

    def date_back(document):
        document["at"] = "2025-12-29T23:59:59.000000Z"

    with tampering(sample.store) as attacker:
        for entry in rewritten(attacker.entries(), date_back, 5, sample.keys.key_of):
            attacker.put(entry)
        assert "2025-12-29 open Assets:Clients:Ann EUR" in beancount_content(attacker).decode()
        assert "\n2025-12-29 (5) reversal of entry 3" in hledger_content(attacker).decode()
    sample.store.close()
