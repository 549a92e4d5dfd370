"""A member's folder is put back to a backup, or knows another attempt of a round: the federation goes on as if not.

What comes out is compared with the same federation undisturbed: training is deterministic, so profits and postings are
the same.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from tests.first_few import first_few
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


@pytest.mark.parametrize(
    ("put_back_after", "kind"), first_few(1, [(1, "train.iteration"), (1, "query.report"), (3, "query.report")])
)
def test_a_folder_of_within_the_first_round_has_the_model_that_training_alone_starts_from(
    tmp_path, put_back_after, kind
):
    outcomes = []
    for is_restored in (False, True):
        toy = make(tmp_path / str(is_restored), rounds=4, names=("north", SILENT), mechanism=ADVANTAGE)
        home, backup, locate, done = toy.home(SILENT), tmp_path / f"{is_restored}-1", toy.transport.locate, []

        def before_answer(client, asked, home=home, backup=backup):
            if (client, asked) == (SILENT, kind) and not backup.exists():
                shutil.copytree(home, backup)

        def located(clients, toy=toy, home=home, backup=backup, locate=locate, done=done, wanted=is_restored, **more):
            if last_closed(toy) == put_back_after and wanted and not done:
                done.append(restore(home, backup))
            return locate(clients, **more)

        toy.transport.before_answer, toy.transport.locate = before_answer, located
        toy.coordinate()
        assert len(done) == is_restored
        outcomes.append(settled(toy.out))
    assert list(outcomes[0][4]["inputs"]) == ["north", SILENT]
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("utility", first_few(1, ["advantage", "gain"]))
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


@pytest.mark.parametrize("mechanism", first_few(1, [ADVANTAGE, 'mu = "inf"']))
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


@pytest.mark.parametrize("is_with_others", first_few(1, [True, False]))
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


def test_a_folder_without_the_statement_that_decides_between_two_reports_gets_it(tmp_path):
    """The member was told of round 2, which it reported with two profits, and was away since; then its folder was put
    back to before it was told. The coordinator knows only that it had the statement."""
    toy = make(tmp_path, rounds=4, names=("north", "south", SILENT))
    home, older, newer, locate = toy.home(SILENT), tmp_path / "older", tmp_path / "newer", toy.transport.locate
    killed_at(toy, (2, "query.open"))
    shutil.copytree(toy.out, older)
    killed_at(toy, (2, "query.close"))
    toy.out.rename(newer)
    shutil.copytree(older, toy.out)
    toy.member("south").is_connected = False
    killed_at(toy, (2, "query.receipt"))
    toy.member("south").is_connected = True
    shutil.copytree(home, tmp_path / "home")
    restore(toy.out, newer)
    toy.transport.locate = lambda clients, **more: locate(clients, **more) - ({SILENT} if is_told(home, 2) else set())
    killed_at(toy, (4, "query.open"))
    toy.transport.locate = locate
    restore(home, tmp_path / "home")
    run_report, _ = toy.coordinate()
    assert [each.record.absent for each in run_report.rounds] == [(), (), (SILENT,), ()]


def is_told(home, number):
    return json.loads((home / "state.json").read_text())["told_round"] >= number


def summarise(member):
    return {"row_count": 28, "sum": float(load(1, member).training[1].sum())}


def agree(summaries):
    return {"mean": sum(each["sum"] for each in summaries.values()) / len(summaries)}


AGREEING = replace(
    TASK, summarise=summarise, agree=agree, initial_model=lambda plan: {"w": INITIAL["w"] + plan.agreed["mean"] / 9}
)


def make_agreeing(folder, terms="", **rules):
    toy = make(folder, terms, names=("north", "south", SILENT), **rules)
    for name in toy.names:
        toy.member(name).task = AGREEING
    return toy


def run_first_round_again(toy, tmp_path, until):
    """Round 1 was settled, and nobody was told; an older backup runs it again without one member, up to a question.

    Returns the newer results folder.
    """
    killed_at(toy, (1, "query.open"), AGREEING)
    shutil.copytree(toy.out, tmp_path / "older")
    killed_at(toy, (1, "query.close"), AGREEING)
    toy.out.rename(tmp_path / "newer")
    shutil.copytree(tmp_path / "older", toy.out)
    toy.member("south").is_connected = False
    for kind in until:
        killed_at(toy, (1, kind), AGREEING)
    toy.member("south").is_connected = True
    return tmp_path / "newer"


@pytest.mark.parametrize("mechanism", first_few(1, [ADVANTAGE, 'mu = "inf"']))
@pytest.mark.parametrize("until", first_few(1, [["query.receipt", "train.iteration"], ["query.receipt"]]))
def test_what_the_data_have_in_common_is_that_of_the_attempt_that_was_settled(tmp_path, mechanism, until):
    """The older backup agrees on something else without one member, and so starts from another model.

    Both attempts have the same profit, and what was trained alone in the settled one counts.
    """
    calm, toy = (make_agreeing(tmp_path / name, mechanism=mechanism, rounds=3) for name in ("calm", "disturbed"))
    calm.coordinate(AGREEING)
    restore(toy.out, run_first_round_again(toy, tmp_path, until))
    toy.coordinate(AGREEING)
    assert settled(toy.out) == settled(calm.out)


def test_a_late_report_is_measured_by_what_was_agreed_on_in_the_attempt_that_was_settled(tmp_path):
    """The member was silent in the first round; the older backup ran that again, and it reported."""
    calm, toy = (make_agreeing(tmp_path / name, "silence_limit = 3", rounds=3) for name in ("calm", "disturbed"))
    fall_silent(calm, 1)
    calm.coordinate(AGREEING)
    answer = fall_silent(toy, 1)
    newer = run_first_round_again(toy, tmp_path, ["query.receipt"])
    toy.member(SILENT).answer = answer
    restore(toy.out, newer)
    toy.coordinate(AGREEING)
    assert settled(toy.out) == settled(calm.out)
    assert [each["client"] for each in bodies(toy, "late-report")] == [SILENT]


def test_so_it_is_in_a_folder_that_was_put_back_before_a_later_silence(tmp_path):
    """The older backup opened the first round again. The folder is from then, and the member owes a later report."""
    toy = make_agreeing(tmp_path, "silence_limit = 3")
    newer = run_first_round_again(toy, tmp_path, ["train.iteration"])
    shutil.copytree(toy.home(SILENT), tmp_path / "home")
    restore(toy.out, newer)
    fall_silent(toy, 2)
    killed_at(toy, (2, "query.close"), AGREEING)
    restore(toy.home(SILENT), tmp_path / "home")
    run_report, _ = toy.coordinate(AGREEING)
    assert [each.record.absent for each in run_report.rounds] == [(), (SILENT,), (), ()]
    assert [each["round"] for each in bodies(toy, "late-report")] == [2]


def fall_silent(toy, number):
    """The member does not answer when it is asked to report a round in time; returns how it answers otherwise."""
    answer = toy.member(SILENT).answer

    def lost(kind, question):
        if kind == "query.report" and question.fields["round"] == number and "entry" not in question.fields:
            raise ConnectionError
        return answer(kind, question)

    toy.member(SILENT).answer = lost
    return answer
