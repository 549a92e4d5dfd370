"""What a power failure can take away: nothing that was committed; and a lost entry is made again, byte for byte."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from commonweal.ledger.signed_files import read_known_head
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.statement_parts import read_part
from commonweal.ledger.verification.kept_statements import statement_contradictions
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import verify_ledger
from tests.ledger.sample_ledger import ENTRIES, FIRST_ROUND, POSTINGS, open_ledger, parsed, signed_round
from tests.remote.toy import NAMES, make_toy
from tests.system_calls import disk_calls, in_order

SETTLE = """
import sys
sys.path[:0] = sys.argv[1:2]
from pathlib import Path
from commonweal.federation.settlement import FederationLedger
from commonweal.ledger.key_directory import KeyDirectory
from tests.federation.test_settlement import decided
ledger = FederationLedger("book.db", KeyDirectory(Path("keys")), name="three", members=dict.fromkeys(("ann", "bob")))
ledger.open()
Path("begin").write_text("x")
ledger.settle(decided(1, "ann", "bob"))
Path("end").write_text("x")
ledger.close()
"""


def test_a_commit_is_on_the_disk(tmp_path):
    """SQLite's rollback journal: https://sqlite.org/atomiccommit.html, sections 3.7 to 3.11, and PRAGMA synchronous.

    The journal must be complete on the disk before the database changes; when it disappears, the transaction is
    committed, so its disappearance must be on the disk before the program goes on.
    """
    folder = tmp_path / "here"
    folder.mkdir()
    root = Path(__file__).parents[2]
    calls = disk_calls(SETTLE, root, folder=folder, log=tmp_path / "calls")
    settled = calls[calls.index("create begin") : calls.index("create end")]
    steps = [
        r"create( exclusively)? book\.db-journal",
        r"write book\.db-journal",
        r"sync book\.db-journal",
        r"sync \.",  # the name of the journal
        r"write book\.db",
        r"sync book\.db",
        r"unlink book\.db-journal",
        r"sync \.",
    ]
    assert in_order(settled, *steps), settled
    changed = settled.index("write book.db")
    assert "sync book.db-journal" in settled[:changed], settled
    assert not any(call == "write book.db" for call in settled[settled.index("unlink book.db-journal") :]), settled


# Settling again what a disk lost.


def entries_in(database):
    with closing(open_store(str(database))) as store, store.reading() as reading:
        return list(reading.entries())


def lose(database, *, after):
    """As if the commits after this entry had never reached the disk."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"DELETE FROM {POSTINGS} WHERE entry > ?", (after,))
        connection.execute(f"DELETE FROM {ENTRIES} WHERE number > ?", (after,))


@pytest.mark.parametrize("lost_count", [1, 2])
def test_a_lost_entry_is_settled_again_as_it_was(tmp_path, lost_count):
    """The members' statements name the entries that were lost, and must not accuse an honest operator."""
    toy = make_toy(tmp_path / "f", rounds=2)
    leaver = NAMES[0]

    def before_answer(client, kind):
        if client == leaver and toy.home(leaver).joinpath("statements", "round-0001.json").exists():
            toy.home(leaver).joinpath("withdraw").touch()

    toy.transport.before_answer = before_answer
    toy.coordinate()
    database = toy.out / "ledger.db"
    before = entries_in(database)
    assert [parsed(entry)["kind"] for entry in before[-2:]] == ["round", "withdrawal"]
    lose(database, after=len(before) - lost_count)
    toy.coordinate()
    assert entries_in(database) == before
    statements = sorted(path for name in NAMES for path in toy.home(name).glob("statements/round-*.json"))
    assert max(read_known_head(path).number for path in statements) == len(before)
    with closing(open_store(str(database))) as store:
        found = verify_ledger(store, recompute, known_heads=[read_known_head(path) for path in statements]).findings
        assert found == ()
        for name in NAMES:
            kept = [(path.name, read_part(path)[0]) for path in sorted(toy.home(name).glob("statements/round-*.json"))]
            assert not statement_contradictions(store, kept)


def test_the_time_of_a_ledger_does_not_go_back(tmp_path):
    """Between the checkpoint and the settlement, somebody else may have added an entry."""
    sample = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys")
    sample.ledger.admit(dict.fromkeys(FIRST_ROUND))
    last = parsed(sample.entries()[-1])["at"]
    earlier, later = "2025-12-31T00:00:00.000000Z", "2026-06-30T00:00:00.000000Z"
    sample.ledger.settle(replace(signed_round(sample.ledger.identity, 1, FIRST_ROUND), signatures={}), at=earlier)
    sample.ledger.settle(replace(signed_round(sample.ledger.identity, 2, FIRST_ROUND), signatures={}), at=later)
    assert [parsed(entry)["at"] for entry in sample.entries()[-2:]] == [last, later]
    sample.store.close()
