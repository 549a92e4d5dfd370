"""What version 0.1.0 wrote still verifies, reads the same, and can be continued."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from commonweal.ledger.export.exports import csv_content, hledger_content
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import SigningKey, read_operator_key
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.signed_files import read_known_head
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.statements import faults_of, make_statement, read_statement
from commonweal.ledger.verification.members import contradictions
from commonweal.records import Rules
from tests.ledger.sample_ledger import CLIENT_KEYS, LENIENT, signed_round, verified

OLD = Path(__file__).parent / "made_by_0_1"
FIRST_KEY = SigningKey.from_seed(b"the operator's first signing key")
SECOND_KEY = SigningKey.from_seed(b"the operator's other signing key")
LEDGERS = ("transfers", "accruals", "raw")

# Computed by hand from the inputs of each round. One unit of utility is worth 100,000 minor units, and
# transfer = share of the budget − profit.
TRANSFERS = {
    # Round 1: budget 0.38, shares 5/8, 3/8, 0 (a negative contribution is clipped).
    # Round 2: cyd is eliminated, and ann alone pays nobody. Round 3: the loss of 0.18 is divided by cost, 7 : 3 : 5;
    # bob would pay 0.096 but pays at most 0.05, so ann receives 0.116 − 0.046. Round 4: a loss of 0.02, in equal parts.
    "clients/ann": -5250 + 0 + 7000 + 2000,
    "clients/bob": 1250 - 5000 - 2000,
    "clients/cyd": 4000,
    "clients/dan": -2000,
}
ACCRUALS = {
    # Payoffs of round 1 are 5/8 and 3/8 of 0.38, of round 2 the 0.18 that ann made.
    "accrued/ann": 23_750 + 18_000,
    "accrued/bob": 14_250,
    "accrued/cyd": 0,
    "model-potential": -56_000,
    # Income of 100 by 23,750 : 14,250 is 62.5 and 37.5; of equal remainders the first gets the unit.
    "clients/ann": 63,
    "clients/bob": 37,
    "clients/cyd": 0,
    "model-income": -100,
}
RAW = {
    # Shares 2 and −1 of a budget of 0.2, less profits of 0.1 each; then 5/8 and 3/8 of 0.08, less 0.1 and −0.02.
    "clients/x": 30_000 - 5_000,
    "clients/y": -30_000 + 5_000,
}
BALANCES = {"transfers": TRANSFERS, "accruals": ACCRUALS, "raw": RAW}


def restore(name: str, folder: Path) -> str:
    """The old SQLite file again."""
    path = folder / f"{name}.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((OLD / f"{name}.sql").read_text(encoding="utf-8"))
    return str(path)


@pytest.fixture(params=LEDGERS)
def old(request, tmp_path):
    with closing(open_store(restore(request.param, tmp_path))) as store:
        yield request.param, store


def test_an_old_ledger_verifies(old):
    name, store = old
    operator = read_operator_key(OLD / "operator.pub.pem")
    assert operator == FIRST_KEY.public
    heads = [read_known_head(path) for path in OLD.glob(f"{name}*.json")]
    assert heads
    result = verified(store, operator=operator, known_heads=heads)
    assert result.findings == ()
    assert (result.round_count, result.signed_reports, result.unsigned_reports) == {
        "transfers": (5, 10, 3),
        "accruals": (3, 5, 3),
        "raw": (2, 0, 4),
    }[name]


def test_the_old_ledgers_have_every_kind_of_entry(tmp_path):
    kinds = set()
    for name in LEDGERS:
        with closing(open_store(restore(name, tmp_path))) as store, store.reading() as reading:
            kinds |= {json.loads(entry.content)["kind"] for entry in reading.entries()}
    assert kinds == {"opening", "admission", "round", "realisation", "reversal", "withdrawal", "key-rotation"}


def test_balances_are_those_computed_by_hand(old):
    name, store = old
    assert Ledger(store, None).state.balances == BALANCES[name]


@pytest.mark.parametrize("path", [*sorted(OLD.glob("*-???.json")), OLD / "raw-y.json"], ids=lambda path: path.name)
def test_an_old_statement_verifies_offline_and_agrees_with_its_ledger(path, tmp_path):
    statement, signed = read_statement(path)
    assert faults_of(statement, signed, FIRST_KEY.public) == []
    assert faults_of(statement, signed, CLIENT_KEYS["ann"].public) != []
    name = path.name.partition("-")[0]
    with closing(open_store(restore(name, tmp_path))) as store:
        assert contradictions(store, statement, path.name) == ()
        derived = make_statement(store, statement.client, at=statement.at, last=statement.head_number)
    assert derived.balance == statement.balance
    if "early" not in path.name:
        assert statement.balance == BALANCES[name][f"clients/{statement.client}"]


def test_an_old_statement_that_contradicts_the_ledger_is_found(tmp_path):
    """That words have changed since must not hide that a member was told something else."""
    told = json.loads((OLD / "transfers-cyd.json").read_text(encoding="utf-8"))
    (line,) = (line for line in told["document"]["lines"] if line["text"] == "round 2: let go")
    line["text"] = "round 2: stays"
    (tmp_path / "told.json").write_text(json.dumps(told), encoding="utf-8")
    statement, signed = read_statement(tmp_path / "told.json")
    assert faults_of(statement, signed, FIRST_KEY.public) != []
    with closing(open_store(restore("transfers", tmp_path))) as store:
        (finding,) = contradictions(store, statement, "told.json")
    assert finding.entry == line["entry"]


def test_exports_have_the_same_postings(old):
    name, store = old
    assert postings_of_csv(csv_content(store)) == postings_of_csv((OLD / f"{name}.csv").read_bytes())


def postings_of_csv(content: bytes) -> list[dict[str, str]]:
    """All columns but the text, which is only for people."""
    rows = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
    return [{column: value for column, value in row.items() if column != "text"} for row in rows]


def test_the_hledger_export_moves_the_same_money(tmp_path):
    with closing(open_store(restore("transfers", tmp_path))) as store:
        now = hledger_content(store).decode()
    then = (OLD / "transfers.journal").read_text(encoding="utf-8")

    def moved(journal: str) -> list[str]:
        return [line for line in journal.splitlines() if line.startswith("    ")]

    assert moved(now) == moved(then)


@pytest.mark.parametrize(("name", "key"), [("transfers", SECOND_KEY), ("raw", FIRST_KEY)])
def test_an_old_ledger_can_be_continued(name, key, tmp_path):
    keys = KeyDirectory(tmp_path / "keys")
    keys.add(key)
    clients = {"transfers": ("ann", "bob"), "raw": ("x", "y")}[name]
    with closing(open_store(restore(name, tmp_path))) as store:
        ledger = Ledger(store, keys)
        before = dict(ledger.state.balances)
        figures = dict(zip(clients, [(0.3, 0.5, None), (-0.1, 0.5, None)], strict=True))
        assert ledger.settle(signed_round(ledger.identity, 5, figures, Rules(mu=float("inf")))).fresh
        ledger.rotate_key()
        assert verified(store, operator=FIRST_KEY.public).findings == ()
        after = ledger.state.balances
    # Half of 0.2 each: the first pays 0.2 to the second.
    assert [after[f"clients/{client}"] - before[f"clients/{client}"] for client in clients] == [-20_000, 20_000]


def test_a_round_of_an_old_ledger_is_not_settled_twice(tmp_path):
    keys = KeyDirectory(tmp_path / "keys")
    keys.add(SECOND_KEY)
    with closing(open_store(restore("transfers", tmp_path))) as store:
        ledger = Ledger(store, keys)
        figures = {"ann": (0.29, 0.5, None), "bob": (0.13, 0.3, None), "cyd": (-0.04, -0.1, None)}
        receipt = ledger.settle(signed_round(ledger.identity, 1, figures, replace(LENIENT, version=1)))
        assert (receipt.fresh, receipt.entry) == (False, 5)
