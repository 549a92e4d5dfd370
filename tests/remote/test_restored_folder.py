"""A member's folder is put back to a backup, or knows another attempt of a round: the federation goes on as if not.

What comes out is compared with the same federation undisturbed: training is deterministic, so profits and postings are
the same.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from tests.remote.test_silence import SILENT, bodies, make
from tests.remote.toy import INITIAL, TASK, load, settled

ADVANTAGE = 'mu = "inf"\nutility = "advantage"'


class KilledError(BaseException):
    """The coordinator."""


def restore(folder, backup):
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)


def last_closed(toy):
    """The last round that members were told the outcome of."""
    sent = (each for each in toy.transport.sent if each.to_member and each.kind == "query.close")
    return max((each.message.fields["round"] for each in sent), default=0)


def killed_at(toy, moment, task=INITIAL):
    """The coordinator runs until it is about to ask this, a round and a kind of question."""

    def before_answer(client, kind):
        if (toy.transport.sent[-1].message.fields.get("round"), kind) == moment:
            raise KilledError

    toy.transport.before_answer = before_answer
    with pytest.raises(KilledError):
        toy.coordinate(task)
    toy.transport.before_answer = lambda client, kind: None


def test_rounds_that_a_member_missed_are_not_trained_alone_in_a_restored_folder(tmp_path):
    """A better model of its own would turn the member's advantage into a loss, and it could be eliminated for that."""
    outcomes = []
    for is_restored in (False, True):
        toy = make(tmp_path / str(is_restored), rounds=4, names=("north", SILENT), mechanism=ADVANTAGE)
        home, backup, locate, done = toy.home(SILENT), tmp_path / f"{is_restored}-1", toy.transport.locate, []

        def located(clients, toy=toy, home=home, backup=backup, locate=locate, done=done, wanted=is_restored, **more):
            if last_closed(toy) == 1 and not backup.exists():
                shutil.copytree(home, backup)
            if last_closed(toy) == 3 and wanted and not done:
                done.append(restore(home, backup))
            return locate(clients, **more) - ({SILENT} if last_closed(toy) == 1 else set())

        toy.transport.locate = located
        toy.coordinate()
        assert len(done) == is_restored
        outcomes.append(settled(toy.out))
    assert [list(each[2]["inputs"]) for each in outcomes] == [["north"], ["north"]]
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("utility", ["gain", "advantage"])
def test_a_late_report_is_measured_from_the_last_settled_round(tmp_path, utility):
    """The folder is put back to after round 1; round 2 was settled with the member, and it was silent in round 3."""
    reports = []
    for is_restored in (False, True):
        mechanism = f'mu = "inf"\nutility = "{utility}"'
        toy = make(tmp_path / str(is_restored), "silence_limit = 3", names=("north", SILENT), mechanism=mechanism)
        home, backup, locate, done = toy.home(SILENT), tmp_path / f"{is_restored}-1", toy.transport.locate, []

        def before_answer(client, kind, toy=toy, home=home, backup=backup):
            fields = toy.transport.sent[-1].message.fields
            if (client, fields["round"], kind) == (SILENT, 2, "query.open") and not backup.exists():
                shutil.copytree(home, backup)
            if (client, fields["round"], kind) == (SILENT, 3, "query.report") and "entry" not in fields:
                raise ConnectionError

        def located(clients, toy=toy, home=home, backup=backup, locate=locate, done=done, wanted=is_restored, **more):
            if last_closed(toy) == 3 and wanted and not done and list(clients) == [SILENT]:
                done.append(restore(home, backup))
            return locate(clients, **more)

        toy.transport.before_answer, toy.transport.locate = before_answer, located
        toy.coordinate()
        assert len(done) == is_restored
        (late,) = bodies(toy, "late-report")
        reports.append({name: late["report"].get(name) for name in ("round", "baseline", "measured")})
    assert reports[0]["round"] == 3
    assert reports[0] == reports[1]


@pytest.mark.parametrize("mechanism", ['mu = "inf"', ADVANTAGE])
def test_a_folder_with_another_report_of_the_round_goes_on_from_the_one_that_settled_it(tmp_path, mechanism):
    """Put back to after round 1, it reported round 2 when an older backup ran it again; then the newer one was back."""
    calm, toy = (make(tmp_path / name, mechanism=mechanism, names=("north", SILENT)) for name in ("calm", "disturbed"))
    calm.coordinate()
    home, older, newer = toy.home(SILENT), tmp_path / "older", tmp_path / "newer"
    killed_at(toy, (2, "query.open"))
    shutil.copytree(toy.out, older)
    shutil.copytree(home, tmp_path / "home")
    killed_at(toy, (2, "query.close"))
    toy.out.rename(newer)
    shutil.copytree(older, toy.out)
    restore(home, tmp_path / "home")
    killed_at(toy, (2, "query.receipt"))
    restore(toy.out, newer)
    toy.coordinate()
    assert settled(toy.out) == settled(calm.out)


@pytest.mark.parametrize("is_with_others", [False, True])
def test_a_folder_from_between_two_attempts_goes_on_from_the_second(tmp_path, is_with_others):
    """In the first attempt somebody else took part, too, so that its profit is another."""
    calm, toy = (make(tmp_path / name) for name in ("calm", "disturbed"))
    home = toy.home(SILENT)
    others = {"south"} if is_with_others else set()
    for each in (calm, toy):
        each.transport.locate = lambda clients, given=each, locate=each.transport.locate, **more: (
            locate(clients, **more) - (others if last_closed(given) == 1 and given.is_second else set())
        )
    calm.is_second = True
    calm.coordinate()
    toy.is_second = False
    killed_at(toy, (2, "query.receipt"))
    shutil.copytree(home, tmp_path / "home")
    toy.is_second = True
    killed_at(toy, (2, "query.close"))
    restore(home, tmp_path / "home")
    toy.coordinate()
    assert settled(toy.out) == settled(calm.out)


@pytest.mark.parametrize("is_silent", [False, True])
def test_what_the_data_have_in_common_is_that_of_the_attempt_that_was_settled(tmp_path, is_silent):
    """An older backup ran the first round again while somebody was away, so that it was agreed on otherwise."""

    def summarise(member):
        return {"row_count": 28, "sum": float(load(1, member).training[1].sum())}

    def agree(summaries):
        return {"mean": sum(each["sum"] for each in summaries.values()) / len(summaries)}

    task = replace(
        TASK, summarise=summarise, agree=agree, initial_model=lambda plan: {"w": INITIAL["w"] + plan.agreed["mean"] / 9}
    )
    names, older, newer = ("north", "south", SILENT), tmp_path / "older", tmp_path / "newer"
    calm, toy = (make(tmp_path / name, "silence_limit = 3", names=names) for name in ("calm", "disturbed"))
    for each in (calm, toy):
        for name in names:
            each.member(name).task = task
        answer = each.member(SILENT).answer
        each.member(SILENT).answer = lambda kind, question, answer=answer: (
            _lost() if is_silent and _is_first_report(kind, question) else answer(kind, question)
        )
    calm.coordinate(task)
    killed_at(toy, (1, "query.open"), task)
    shutil.copytree(toy.out, older)
    killed_at(toy, (1, "query.close"), task)
    toy.out.rename(newer)
    shutil.copytree(older, toy.out)
    toy.member("south").is_connected = False
    toy.member(SILENT).answer = answer
    killed_at(toy, (1, "query.receipt"), task)
    toy.member("south").is_connected = True
    restore(toy.out, newer)
    toy.coordinate(task)
    assert settled(toy.out) == settled(calm.out)
    assert [each["client"] for each in bodies(toy, "late-report")] == [SILENT] * is_silent


def _lost():
    raise ConnectionError


def _is_first_report(kind, question):
    return kind == "query.report" and question.fields["round"] == 1 and "entry" not in question.fields
