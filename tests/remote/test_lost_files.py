"""A member that lost a file of its folder does not go on as if there had been none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from commonweal.errors import StorageError
from commonweal.remote.member.store import MemberStore
from tests.remote.hostile import VICTIM, log, reports, run, state
from tests.remote.test_shown_heads import in_round
from tests.remote.toy import NAMES, make_toy

FEW = {"names": NAMES[:3]}


def test_a_folder_with_statements_and_without_its_state_is_refused(tmp_path):
    """It would open settled rounds again, and measure from a new baseline."""
    toy = make_toy(tmp_path / "f", rounds=1, **FEW)
    toy.coordinate()
    home = toy.home(VICTIM)
    (home / "state.json").unlink()
    with pytest.raises(StorageError, match=r"state.json is missing, but the folder has statements or reports"):
        MemberStore(home).load()


def test_a_state_that_counts_no_statements_adopts_all_of_them(tmp_path):
    """As one of a version that did not count them, after a crash between a statement and the state."""
    found = []

    def opened(toy, operator, question, questions):
        store = MemberStore(toy.home(VICTIM))
        before = store.load()
        before.adopted_statements, before.told_round = None, 0
        store.save(before)
        operator.extra("query.open", question, attempt="again")
        found.append(state(toy))

    run(tmp_path, in_round(2, "query.open", opened), rounds=2, **FEW)
    assert [(after.told_round, after.adopted_statements) for after in found] == [(1, 1)]


def test_no_report_is_signed_of_a_round_with_a_report_that_was_lost(tmp_path):
    """It would have the number of the lost one, perhaps on another model; a receipt, or that one is awaited, tells."""
    answers = []

    def lost(toy, operator, question, questions):
        (toy.home(VICTIM) / "reports" / "round-0002.json").unlink()
        model = state(toy).under_way.opening
        answers.append(operator.extra("query.report", number=2, adopted=model, models=[model]))

    for kind in ("query.receipt", "query.close"):
        toy = run(tmp_path / kind, in_round(2, kind, lost), rounds=2, **FEW)
        assert "ERROR The folder receipts names a report of round 2 that is not in reports/round-0002.json" in log(toy)
        assert not reports(toy, 2)
    assert all("StorageError" in answer.reason for answer in answers)


def test_every_folder_is_on_the_disk_before_anything_in_it_is_answered(tmp_path, monkeypatch):
    """A power failure must not undo `reports/` with what was signed and sent."""
    made, sync, mkdir = set(), os.fsync, os.mkdir

    def noted_mkdir(path, *given, **options):
        mkdir(path, *given, **options)
        made.add(Path(path))

    def noted_sync(descriptor):
        sync(descriptor)
        synced = Path(f"/proc/self/fd/{descriptor}").readlink()
        made.difference_update([folder for folder in made if folder.parent == synced])

    def twist(toy, operator, kind, questions):
        home = toy.home(VICTIM)
        assert not [folder for folder in made if home in folder.parents], f"before {kind}"

    monkeypatch.setattr(os, "mkdir", noted_mkdir)
    monkeypatch.setattr(os, "fsync", noted_sync)
    toy = run(tmp_path.resolve(), twist, rounds=1, **FEW)
    twist(toy, None, "the end", None)
    assert {"reports", "receipts", "trails"} <= {file.name for file in toy.home(VICTIM).iterdir()}
