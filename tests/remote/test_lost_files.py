"""A member that lost a file of its folder does not go on as if there had been none."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from commonweal.errors import StorageError
from commonweal.remote.member.store import MemberStore
from commonweal.remote.messages.message import Message
from commonweal.task.models import fingerprint
from tests.remote.hostile import VICTIM, log, reports, run, state, with_fields
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


def backed_up(number, until, *, without_report=False):
    """A twist: the folder is backed up in round 2 before it is asked this, and put back when round 3 is opened."""
    done = []

    def twist(toy, operator, kind, questions):
        question, home, backup = questions.get(VICTIM), toy.home(VICTIM), toy.folder / "backup"
        if question is None:
            return None
        asked = (question.fields["round"], kind)
        seen = [each for each in operator.sent if each.to_member and each.client == VICTIM]
        times = sum((each.message.fields["round"], each.kind) == (2, "query.report") for each in seen)
        if asked[0] == 2 and not backup.exists() and until(kind, times):
            shutil.copytree(home, backup)
        if asked == (number, "query.open") and not done:
            done.append(True)
            shutil.rmtree(home)
            shutil.copytree(backup, home)
        if without_report and asked == (number, "query.open"):
            return {**questions, VICTIM: with_fields(question, settled_report="null")}
        return None

    return twist


@pytest.mark.parametrize("kind", ["train.iteration", "evaluate.coalitions", "query.report"])
def test_a_folder_from_the_middle_of_a_round_goes_on_from_what_was_signed(tmp_path, kind):
    toy = run(tmp_path, backed_up(3, lambda asked, times: asked == kind), **FEW)
    assert toy.run_report.rounds[2].record.absent == ()
    assert "ERROR this folder is older than the ledger: round 2 was settled with a report that was signed" in log(toy)
    settled = json.loads(toy.transport.last("query.open", 3).fields["settled_report"])["report"]
    (later,) = reports(toy, 3)
    assert later["baseline"] == settled["measured"]


def test_a_folder_from_between_two_reports_of_a_round_goes_on_from_the_last(tmp_path):
    """A member falls silent, so the others report the round again, on a model without it."""
    lost = NAMES[2]
    back = backed_up(3, lambda asked, times: times == 1)

    def twist(toy, operator, kind, questions):
        if kind == "query.report" and lost in questions and questions[lost].fields["round"] == 2:
            operator.members[lost].is_connected = False
        return back(toy, operator, kind, questions)

    toy = run(tmp_path, twist, **FEW)
    assert [completed.record.absent for completed in toy.run_report.rounds] == [(), (lost,), (lost,)]
    assert len(json.loads((toy.folder / "backup" / "reports" / "round-0002.json").read_text())["reports"]) == 1
    assert reports(toy, 3)


def test_a_folder_from_the_middle_of_a_round_is_refused_without_the_signed_report(tmp_path):
    toy = run(tmp_path, backed_up(3, lambda asked, times: asked == "query.report", without_report=True), **FEW)
    assert toy.run_report.rounds[2].record.absent == (VICTIM,)
    assert "ERROR Round 2 is said to be settled by an attempt that was not reported here last" in log(toy)


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_restored_folder_does_not_go_on_from_a_report_that_its_statement_disproves(tmp_path, is_sent):
    """Of two reports that the member signed and its folder does not know, the operator names the one that it likes.

    Or it names none, as if the member had no baseline yet.
    """
    good = {"w": np.array([1.0, 0.3])}
    liked, reported = fingerprint(good), []

    def reported_twice(toy, operator, question, questions):
        if not reported:
            shutil.copytree(toy.home(VICTIM), toy.folder / "backup")
            measured = {**operator.last("query.open", 1).fields, "whole": [liked], "parts": [], "models": [liked]}
            groups = {f"model/{liked}": good}
            operator._ask_one(VICTIM, "evaluate.coalitions", Message(fields={**measured, "number": "1"}, groups=groups))
            asked = {**question.fields, "adopted": liked, "models": [liked], "valuation": 7, "number": "2"}
            operator._ask_one(VICTIM, "query.report", Message(fields=asked))
            reported.extend(json.loads((toy.home(VICTIM) / "reports" / "round-0001.json").read_text())["reports"])

    def restored(toy, operator, question, questions):
        shutil.rmtree(toy.home(VICTIM))
        shutil.copytree(toy.folder / "backup", toy.home(VICTIM))
        operator.extra("query.close", number=1)
        if is_sent:
            told = with_fields(question, settled_report=json.dumps(reported[0]), settled_model=liked)
        else:
            told = with_fields(question, settled_report="null", settled_attempt="never opened here")
        return {**questions, VICTIM: told}

    def twist(*asked):
        return in_round(1, "query.report", reported_twice)(*asked) or in_round(2, "query.open", restored)(*asked)

    toy = run(tmp_path, twist, rounds=2, **FEW)
    why = "report 1, but its profit is " if is_sent else "this member, but its folder knows nothing of it, and its"
    assert f"ERROR refused to open round 2: Round 1 is said to be settled with {why}" in log(toy)
    assert toy.run_report.rounds[1].record.absent == (VICTIM,)
    assert not reports(toy, 2)
