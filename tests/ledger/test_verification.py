"""A sound ledger gives no findings, in any database and with any of the operator's keys."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from commonweal.errors import LedgerError
from commonweal.ledger.export.exports import copy_ledger
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.sql.store import open_store
from tests.ledger.sample_ledger import (
    ENTRIES,
    FIRST_ROUND_AGAIN,
    STRANGER,
    THIRD_ROUND,
    make_sample,
    parsed,
    signed_round,
    verified,
)


@pytest.fixture(scope="module", params=["transfers", "accruals"])
def sample(request, new_location, tmp_path_factory):
    made = make_sample(new_location(), tmp_path_factory.mktemp("operator"), request.param)
    yield made
    made.store.close()


def test_a_sound_ledger_gives_no_findings(sample):
    told = verified(sample.store)
    assert told.findings == ()
    assert told.state == sample.ledger.state
    kinds = [parsed(entry)["kind"] for entry in sample.entries()]
    assert told.round_count == kinds.count("round") == 4
    assert (told.signed_reports, told.unsigned_reports) == (8, 3)


def test_every_key_that_the_operator_has_had_verifies_the_ledger(sample):
    first, later = (
        parsed(entry)["body"]["operator"]
        for entry in sample.entries()
        if parsed(entry)["kind"] in ("opening", "key-rotation")
    )
    assert first != later == sample.operator.public
    assert verified(sample.store, operator=first).findings == ()
    assert verified(sample.store, operator=later).findings == ()


@pytest.mark.parametrize("key", [STRANGER.public, "", "x"])
def test_another_key_does_not_verify_the_ledger(sample, key):
    (finding,) = verified(sample.store, operator=key).findings
    assert (finding.entry, finding.rule) == (1, "the operator signed the ledger")


def test_a_members_copy_gives_no_findings_either(sample, tmp_path):
    copy_ledger(sample.store, tmp_path / "copy.db")
    with closing(open_store(str(tmp_path / "copy.db"))) as copy:
        told = verified(copy, operator=sample.operator.public)
    assert told.findings == ()
    assert told.state == sample.ledger.state


def test_progress_is_reported_per_entry(sample):
    seen = []
    verified(sample.store, progress=seen.append)
    assert seen == list(range(1, len(sample.entries()) + 1))


def test_a_corrected_ledger_is_sound(tmp_path):
    """Rounds and income are reversed, settled again with different content, and reversed again."""
    sample = make_sample(str(tmp_path / "ledger.db"), tmp_path / "keys", "accruals")
    ledger = sample.ledger
    for figures in (THIRD_ROUND, FIRST_ROUND_AGAIN | {"dan": (0.01, 0.2, None)}):
        ledger.reverse_round(3, "figures were wrong")
        given = {client: figures[client] for client in figures if client != "cyd"}
        ledger.settle(signed_round(ledger.identity, 3, given))
        assert verified(sample.store).findings == ()
    ledger.reverse_round(2, "cyd is to stay")  # it was eliminated there
    ledger.settle(signed_round(ledger.identity, 2, FIRST_ROUND_AGAIN))
    ledger.rotate_key()
    ledger.settle(signed_round(ledger.identity, 4, FIRST_ROUND_AGAIN, absent=("dan",)))
    ledger.realise(5, "pocket money")  # fewer units than members
    ledger.reverse(len(sample.entries()), "a toy")
    ledger.realise(7, "more pocket money")
    told = verified(sample.store)
    assert told.findings == ()
    assert told.state.balances == ledger.state.balances
    sample.store.close()


def test_a_committed_change_is_found_and_the_ledger_cannot_be_continued(tmp_path):
    """A changed ledger cannot be continued either."""
    sample = make_sample(str(tmp_path / "ledger.db"), tmp_path / "keys", "accruals")
    sample.store.close()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection, connection:
        connection.execute(f"UPDATE {ENTRIES} SET content = replace(content, '0.31', '0.32') WHERE number = 3")
    with closing(open_store(str(tmp_path / "ledger.db"))) as store:
        assert {finding.entry for finding in verified(store).findings} == {3}
        with pytest.raises(LedgerError, match=r"not sound: entry 3 .*ledger verify$"):
            Ledger(store, sample.keys)


@pytest.mark.parametrize("value", ["CAST(x'80' AS TEXT)", "CAST(content AS BLOB)", "7"])
def test_content_that_is_not_text_is_found_and_the_ledger_cannot_be_continued(tmp_path, value):
    sample = make_sample(str(tmp_path / "ledger.db"), tmp_path / "keys", "transfers")
    sample.store.close()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection, connection:
        connection.execute(f"UPDATE {ENTRIES} SET content = {value} WHERE number = 3")
    with closing(open_store(str(tmp_path / "ledger.db"))) as store:
        assert 3 in {finding.entry for finding in verified(store).findings}
        with pytest.raises(LedgerError, match="not sound: entry 3 "):
            Ledger(store, sample.keys)


def test_an_empty_store_is_a_finding(tmp_path):
    with closing(open_store(str(tmp_path / "empty.db"), create=True)) as store:
        (finding,) = verified(store).findings
    assert (finding.rule, finding.found) == ("the first entry states the terms", "no entry")
