"""Statements that the operator signed, and that say something else than the ledger: `verify --against` finds it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from commonweal.cli.main import app
from commonweal.ledger.canonical import canonical
from commonweal.ledger.signed_files import signed_content
from commonweal.ledger.statement_parts import MemberLines, part_document
from commonweal.ledger.statements import make_statement, statement_document
from tests.ledger.sample_ledger import make_sample
from tests.ledger.test_old_ledgers import OLD, restore

AT = "2026-03-01T00:00:00.000000Z"


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledger")
    made = make_sample(str(folder / "ledger.db"), folder / "keys", "transfers")
    yield made
    made.store.close()


def whole(sample):
    return json.loads(canonical(statement_document(make_statement(sample.store, "ann", at=AT), sample.store)))


def part(sample):
    lines = MemberLines(sample.store)
    lines.catch_up()
    rotations = whole(sample)["key_rotations"]
    return json.loads(canonical(part_document(lines.part("ann", since=2, at=AT), rotations)))


def exit_code(sample, document, tmp_path):
    file = tmp_path / "kept.json"
    file.write_bytes(signed_content(document, sample.operator))
    return CliRunner().invoke(app, ["ledger", "verify", sample.location, "--against", str(file)]).exit_code


def a_line_before_a_true_one(document):
    before, last = document["lines"][-2:]
    text = "your charge of 50.00 will be collected separately"
    balances = {name: before[name] for name in ("balance", "accrued_balance")}
    document["lines"].insert(-1, {**last, "amount": "0", "accrued": "0", "text": text, **balances})


COMMON = {
    "a line before a true one": a_line_before_a_true_one,
    "lines in another order": lambda document: document["lines"].reverse(),
    "another name": lambda document: document.update(name="another consortium"),
    "an unknown field": lambda document: document.update(extra="your debts were sold"),
    "an odd number": lambda document: document.update(worth="100_000"),
}
OF_WHOLE = COMMON | {"another balance": lambda document: document.update(balance="999999")}
OF_PARTS = COMMON | {
    "another balance": lambda document: document["after"].update(balance="999999"),
    "another hash": lambda document: document["after"].update(hash="1" * 64),
    "an unknown field of the lines before": lambda document: document["before"].update(extra="x"),
}


@pytest.mark.parametrize(
    ("make", "change"),
    [(make, change) for make, changes in ((whole, OF_WHOLE), (part, OF_PARTS)) for change in changes.values()],
    ids=[f"{make.__name__}: {what}" for make, changes in ((whole, OF_WHOLE), (part, OF_PARTS)) for what in changes],
)
def test_a_false_statement_is_found(sample, tmp_path, make, change):
    document = make(sample)
    assert exit_code(sample, document, tmp_path) == 0
    change(document)
    assert exit_code(sample, document, tmp_path) == 1


@pytest.mark.parametrize("path", [*sorted(OLD.glob("*-???.json")), OLD / "raw-y.json"], ids=lambda path: path.name)
def test_statements_of_version_0_1_are_as_true_as_they_were(path, tmp_path):
    ledger = restore(path.name.partition("-")[0], tmp_path)
    done = CliRunner().invoke(app, ["ledger", "verify", str(ledger), "--against", str(path)])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("make", [whole, part])
def test_a_statement_of_somebody_who_is_no_member(sample, make, tmp_path):
    assert exit_code(sample, make(sample) | {"client": "zoe"}, tmp_path) == 1
