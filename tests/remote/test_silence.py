"""Who takes a round's model and falls silent at the report: counted apart, and kept out where the terms say so."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from commonweal.cli.main import app
from commonweal.errors import FederationError, LedgerError
from commonweal.federation.settlement import FederationLedger
from commonweal.ledger.entries import Draft
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.replay import LedgerReplay
from commonweal.ledger.verification.silence import check_late_report
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.remote.coordinator.federation_file import read_federation
from commonweal.remote.member.store import MemberState, MemberStore
from commonweal.remote.messages.message import QuestionError
from tests.first_few import first_few
from tests.remote.test_faults import LIES
from tests.remote.toy import make_toy

SILENT = "east"
RULES = {"learning": "iteration_limit = 2\nstop_below = 0.0", "mechanism": 'mu = "inf"'}
QUESTIONS = ("query.open", "train.iteration", "evaluate.coalitions", "query.report")


def make(tmp_path, terms="", rounds=4, **rules):
    toy = make_toy(tmp_path / "f", rounds=rounds, **{**RULES, **rules})
    if terms:
        file = toy.folder / "federation.toml"
        file.write_text(f"{file.read_text()}\n[terms]\n{terms}\n")
    return toy


def fall_silent(toy, kind="query.report", rounds=(2,), times=1, until="ever"):
    """The member takes what it is sent, and its answer is lost, from the `times`-th question of a kind on.

    Until it is "late": when the round has been settled, it answers again.
    """
    member, asked = toy.member(SILENT), {}

    def answer(asked_kind, question, original=member.answer):
        number = question.fields["round"]
        given = original(asked_kind, question)
        asked[number, asked_kind] = asked.get((number, asked_kind), 0) + 1
        is_late = until == "late" and (toy.out / "ledger.db").exists() and len(bodies(toy)) >= number
        if number in rounds and asked_kind == kind and asked[number, asked_kind] >= times and not is_late:
            raise ConnectionError
        return given

    member.answer = answer


@contextmanager
def opened(toy):
    """The ledger, for its operator."""
    federation = read_federation(toy.folder / "federation.toml")
    keys = KeyDirectory(toy.folder / "operator-keys")
    ledger = FederationLedger(str(toy.out / "ledger.db"), keys, name=federation.name, members=federation.keys)
    ledger.open()
    yield ledger
    ledger.close()


def bodies(toy, kind="round"):
    store = open_store(str(toy.out / "ledger.db"))
    try:
        assert not verify_ledger(store, recompute).findings
        with store.reading() as reading:
            documents = [json.loads(entry.content) for entry in reading.entries()]
    finally:
        store.close()
    return [document["body"] for document in documents if document["kind"] == kind]


def kinds_of(toy, number):
    """What the silent member was asked in a round."""
    return {
        sent.kind
        for sent in toy.transport.sent
        if sent.to_member and sent.client == SILENT and sent.message.fields["round"] == number
    }


@pytest.mark.parametrize(
    ("kind", "times", "is_silent"),
    first_few(
        2,
        [
            ("train.iteration", 1, False),  # it had no model that was trained in this round
            ("train.iteration", 2, True),  # it had that of the first iteration
            ("query.open", 1, False),
            ("evaluate.coalitions", 1, True),
            ("evaluate.coalitions", 2, True),
            ("query.report", 1, True),
        ],
    ),
)
def test_who_had_a_model_of_a_round_and_did_not_report_was_silent(tmp_path, kind, times, is_silent):
    toy = make(tmp_path, rounds=3)
    fall_silent(toy, kind, times=times)
    run_report, said = toy.coordinate()
    record = run_report.rounds[1].record
    assert record.absent == (SILENT,)
    assert record.silent == ((SILENT,) if is_silent else ())
    assert [body.get("silent", []) for body in bodies(toy)] == [[], [SILENT] if is_silent else [], []]
    assert ("east was silent: it had the model of round 2 and did not report" in said) == is_silent
    assert SILENT in run_report.rounds[2].clients, "the terms say nothing of silence, so it may return"


def test_a_report_that_breaks_a_rule_is_no_report(tmp_path):
    toy = make(tmp_path, rounds=2)
    (kind, lie), _ = LIES["a profit of 1e300"]
    toy.member(SILENT).twist = lambda asked, question, answer: (
        lie(toy, asked, question, answer) if asked == kind else answer
    )
    run_report, _ = toy.coordinate()
    assert run_report.rounds[0].record.silent == (SILENT,)


def test_who_was_silent_gets_no_further_model_until_it_is_charged(tmp_path):
    toy = make(tmp_path, "silence_charge = 500")
    fall_silent(toy)
    charged = []

    def before_answer(client, kind):
        """While round 3 runs, the operator enters the charge."""
        if not charged and kind == "query.close" and len(bodies(toy)) == 3:
            with opened(toy) as ledger:
                charged.append(ledger._ledger.charge(SILENT, 2).entry)

    toy.transport.before_answer = before_answer
    run_report, _ = toy.coordinate()
    assert [completed.record.absent for completed in run_report.rounds] == [(), (SILENT,), (SILENT,), ()]
    assert [completed.record.silent for completed in run_report.rounds] == [(), (SILENT,), (), ()]
    assert not kinds_of(toy, 3) & {"query.open", "train.iteration"}
    (event,) = run_report.rounds[2].events
    assert event.text == "east missed round 3: it had the model of round 2, and has neither reported nor been charged."
    assert bodies(toy, "charge") == [{"client": SILENT, "round": 2, "amount": "500"}]


@pytest.mark.parametrize(
    ("kind", "figures"),
    [
        ("query.report", "pooled"),
        pytest.param("train.iteration", "measured", marks=pytest.mark.soak),
        pytest.param("evaluate.coalitions", "measured", marks=pytest.mark.soak),
        pytest.param("query.report", "measured", marks=pytest.mark.soak),
        pytest.param("train.iteration", "pooled", marks=pytest.mark.soak),
        pytest.param("evaluate.coalitions", "pooled", marks=pytest.mark.soak),
    ],
)
def test_who_reports_late_takes_part_again(tmp_path, kind, figures):
    toy = make(tmp_path, "silence_charge = 500", mechanism=f'mu = "inf"\nfigures = "{figures}"')
    fall_silent(toy, kind, times=1 if kind == "query.report" else 2, until="late")
    before = {}

    def before_answer(client, asked):
        """What round 2 says before the late report comes; and the models that the member was sent are lost."""
        if client == SILENT and len(bodies(toy)) == 2 and not before:
            before["round"] = bodies(toy)[1]
            if kind == "evaluate.coalitions":
                state = json.loads((toy.home(SILENT) / "state.json").read_text())
                open_round = state["under_way"]
                own = {state["memory"], open_round["memory"], *open_round["measures"].values()}
                for file in (toy.home(SILENT) / "arrays").iterdir():
                    if file.stem not in own:
                        file.unlink()

    toy.transport.before_answer = lambda client, asked: (
        (toy.out / "ledger.db").exists() and before_answer(client, asked)
    )
    run_report, said = toy.coordinate()
    assert [completed.record.absent for completed in run_report.rounds] == [(), (SILENT,), (), ()]
    assert "east reported round 2 late; the round stays as it was settled" in said
    (late,) = bodies(toy, "late-report")
    assert (late["client"], late["round"], late["report"]["round"]) == (SILENT, 2, 2)
    assert bodies(toy)[1] == before["round"]
    log = (toy.home(SILENT) / "log.txt").read_text()
    assert "NO RECEIPT" not in log.partition("round 4: opened")[0].replace("round 2: NO RECEIPT", "", 1)
    assert "DOUBTFUL" not in log
    kept = sorted((toy.home(SILENT) / "receipts").glob("round-0002-*.json"))
    assert len(kept) == 1, "for the late report"
    shown = CliRunner().invoke(app, ["ledger", "verify", str(toy.out / "ledger.db"), "--receipt", str(kept[0])])
    assert shown.exit_code == 0, shown.output
    shown = CliRunner().invoke(app, ["ledger", "show", str(toy.out / "ledger.db")])
    assert "late report of round 2: east" in " ".join(shown.output.split())


def test_who_was_silent_and_then_away_can_still_report_late(tmp_path):
    """Its statements tell of a later round that it missed as well, before it is asked."""
    toy = make(tmp_path, "silence_charge = 500", rounds=4, names=(SILENT, "north", "south"))
    fall_silent(toy, until="late")
    locate = toy.transport.locate

    def away_in_round_3(clients, **options):
        asked = [sent for sent in toy.transport.sent if sent.to_member and sent.kind == "query.close"]
        closed = {sent.message.fields["round"] for sent in asked}
        return locate(clients, **options) - ({SILENT} if 2 in closed and 3 not in closed else set())

    toy.transport.locate = away_in_round_3
    run_report, said = toy.coordinate()
    assert [completed.record.absent for completed in run_report.rounds] == [(), (SILENT,), (SILENT,), ()]
    assert "east reported round 2 late; the round stays as it was settled" in said
    assert MemberStore(toy.home(SILENT)).load().missed_rounds == [2, 3]


def test_why_a_late_report_did_not_come_is_said_and_logged(tmp_path):
    """The member has lost what a statement told it of the round."""
    toy = make(tmp_path, "silence_charge = 500", rounds=3, names=(SILENT, "north", "south"))
    fall_silent(toy, until="late")

    def before_answer(client, kind):
        file = toy.home(SILENT) / "state.json"
        if client == SILENT and kind == "evaluate.coalitions" and '"missed_rounds": [\n  2' in file.read_text():
            file.write_text(json.dumps(json.loads(file.read_text()) | {"missed_rounds": []}))

    toy.transport.before_answer = before_answer
    run_report, said = toy.coordinate()
    assert run_report.rounds[2].record.absent == (SILENT,)
    why = next(line for line in said if "which did not come" in line)
    assert why.startswith("east was asked for its report of round 2, which did not come: ")
    assert "Round 2 is settled by a statement that is kept here." in why
    assert "refused evaluate.coalitions: Round 2 is settled" in (toy.home(SILENT) / "log.txt").read_text()


def test_a_folder_that_kept_the_last_missed_round_learns_the_others_from_its_statements(tmp_path):
    store = MemberStore(tmp_path)
    store.save(MemberState(told_round=3, adopted_statements=3))
    file = tmp_path / "state.json"
    older = {k: v for k, v in json.loads(file.read_text()).items() if k != "missed_rounds"} | {"missed_round": 3}
    file.write_text(json.dumps(older))
    state = store.load()
    assert (state.missed_rounds, state.adopted_statements) == ([3], None), "all statements are adopted again"


def test_a_late_report_of_before_a_reversal_does_not_stand_in_the_way_of_the_next(tmp_path):
    """It was signed and did not arrive; the entry that it names is reversed, and the round is settled again."""
    toy = make(tmp_path, "silence_charge = 500", rounds=3, names=(SILENT, "north", "south"))
    fall_silent(toy, until="late")
    answer = toy.member(SILENT).answer

    def killed(kind, question):
        answer(kind, question)
        raise KeyboardInterrupt

    toy.transport.before_answer = lambda client, kind: (
        kind == "query.report"
        and "entry" in toy.transport.sent[-1].message.fields
        and setattr(toy.member(SILENT), "answer", killed)
    )
    with pytest.raises(KeyboardInterrupt):
        toy.coordinate()
    toy.transport.before_answer, toy.member(SILENT).answer = lambda client, kind: None, answer
    with opened(toy) as ledger:
        ledger._ledger.reverse_round(2, "a slip")
    run_report, _ = toy.coordinate()
    assert run_report.rounds[2].record.absent == ()
    (late,) = bodies(toy, "late-report")
    assert late["report"]["number"] == 3, "after the lost one, and the late one that did not arrive"


def test_a_late_report_that_somebody_else_signed_is_a_finding(tmp_path):
    toy = make(tmp_path, "silence_charge = 500", rounds=3)
    fall_silent(toy, until="late")
    toy.coordinate()
    (late,) = bodies(toy, "late-report")
    with opened(toy) as ledger:
        for wrong in (
            {"client": "west"},
            {"round": 1},
            {"report": {**late["report"], "profit": 0.5}},
            {"signature": "00"},
        ):
            draft = Draft(kind="late-report", body={**late, **wrong})
            state = ledger._ledger.state
            replay = LedgerReplay(recompute=recompute, state=state)
            check_late_report(9, draft.body, replay)
            assert replay.findings.all()
        with pytest.raises(LedgerError, match="was not silent in round 1"):
            ledger.report_late(SILENT, 1, late["report"], late["signature"])


def test_membership_ends_after_the_agreed_number_of_silences(tmp_path):
    toy = make(tmp_path, "silence_limit = 1")
    fall_silent(toy)
    run_report, said = toy.coordinate()
    assert [completed.record.absent for completed in run_report.rounds] == [(), (SILENT,), (), ()]
    assert bodies(toy, "exclusion") == [{"client": SILENT, "rounds": [2]}]
    assert not kinds_of(toy, 3)
    assert not kinds_of(toy, 4)
    assert f"the membership of {SILENT} has ended: it was silent in round 2" in said
    assert "3 of 4 clients stayed to the end (excluded for silence: east after round 2)" in run_report.sentence


def test_a_federation_that_is_started_again_keeps_to_it(tmp_path):
    """The silent member is kept out by what the ledger says, not by what the coordinator remembers."""
    toy = make(tmp_path, "silence_charge = 500")
    fall_silent(toy)

    def stop(client, kind):
        if kind == "query.open" and len(bodies(toy)) == 2:
            raise KeyboardInterrupt

    toy.transport.before_answer = lambda client, kind: (toy.out / "ledger.db").exists() and stop(client, kind)
    with pytest.raises(KeyboardInterrupt):
        toy.coordinate()
    toy.transport.before_answer = lambda client, kind: None
    run_report, _ = toy.coordinate()
    assert [completed.record.silent for completed in run_report.rounds] == [(), (SILENT,), (), ()]
    assert [completed.record.absent for completed in run_report.rounds[2:]] == [(SILENT,), (SILENT,)]


def test_a_restored_federation_does_not_ask_again_for_a_late_report_that_was_entered(tmp_path):
    """Who gave it cannot give it again, and would be kept out and charged; it can prove that the ledger had it."""
    toy = make(tmp_path, "silence_charge = 500", rounds=3, names=(SILENT, "north", "south"))
    fall_silent(toy, until="late")
    backup = toy.folder / "backup"

    class Killed(BaseException):
        """The coordinator, when round 3 was opened at the silent member, and at nobody else."""

    def before_answer(client, kind):
        asked = toy.transport.sent[-1].message.fields
        if client == SILENT and asked.get("entry") and not backup.exists():
            shutil.copytree(toy.out, backup)
        if (client, kind) == ("north", "query.open") and asked["round"] == 3:
            raise Killed

    toy.transport.before_answer = before_answer
    with pytest.raises(Killed):
        toy.coordinate()
    toy.transport.before_answer = lambda client, kind: None
    shutil.rmtree(toy.out)
    shutil.copytree(backup, toy.out)
    with pytest.raises(FederationError, match="can prove it: the operator signed a statement up to entry 5"):
        toy.coordinate()
    assert not bodies(toy, "late-report")
    assert "ERROR refused to go back to round 2" in (toy.home(SILENT) / "log.txt").read_text()


def test_who_reported_and_is_asked_again_in_vain_is_absent(tmp_path):
    """One member is lost at the report, so the others are asked again; another one has a receipt, and is lost then."""
    toy = make(tmp_path, terms="silence_charge = 1001\nsilence_limit = 1", rounds=2)
    first, second = (name for name in reversed(toy.names) if name != SILENT), SILENT
    for name, answered in ((next(first), 0), (second, 1)):
        member, asked = toy.member(name), []

        def answer(kind, question, original=member.answer, asked=asked, answered=answered):
            if kind == "query.report" and question.fields["round"] == 2:
                asked.append(kind)
                if len(asked) > answered:
                    raise ConnectionError
            return original(kind, question)

        member.answer = answer
    toy.coordinate()
    body = bodies(toy)[-1]
    assert SILENT in body["absent"]
    assert SILENT not in body["silent"]
    assert [row["client"] for row in body["unused_reports"]] == [SILENT]
    receipts = sorted((toy.home(SILENT) / "receipts").glob("round-0002*.json"))
    options = [option for receipt in receipts for option in ("--receipt", str(receipt))]
    result = CliRunner().invoke(app, ["ledger", "verify", str(toy.out / "ledger.db"), *options])
    assert receipts
    assert result.exit_code == 0
    assert f"note: entry {len(bodies(toy)) + 2}: the round has the report that {receipts[0].name}" in result.output


def restored_in_round_2(toy, asked="query.report"):
    """The member's folder is put back, when it is asked this in round 2, to what it was before the round was opened."""
    home, backup, done = toy.home(SILENT), toy.folder / "backup", []

    def before_answer(client, kind):
        number = toy.transport.sent[-1].message.fields["round"]
        if client == SILENT and (number, kind) == (2, "query.open") and not backup.exists():
            shutil.copytree(home, backup)
        if client == SILENT and (number, kind) == (2, asked) and not done:
            done.append(True)
            shutil.rmtree(home)
            shutil.copytree(backup, home)

    toy.transport.before_answer = before_answer


@pytest.mark.parametrize(
    "mechanism",
    first_few(1, ['mu = "inf"\nutility = "advantage"', 'mu = "inf"', 'mu = "inf"\nfigures = "pooled"']),
)
def test_a_folder_that_was_restored_in_the_middle_of_a_round_reports_it_late(tmp_path, mechanism):
    """Without a charge in the terms nothing else would let the member take part again."""
    toy = make(tmp_path, "silence_limit = 2", mechanism=mechanism)
    restored_in_round_2(toy)
    run_report, _ = toy.coordinate()
    assert [each.record.silent for each in run_report.rounds] == [(), (SILENT,), (), ()]
    assert [each.record.absent for each in run_report.rounds] == [(), (SILENT,), (), ()]
    (late,) = bodies(toy, "late-report")
    assert (late["client"], late["round"]) == (SILENT, 2)
    said = (toy.home(SILENT) / "log.txt").read_text()
    assert "ERROR round 2 was settled without this member and is not open in its folder: it is opened for the" in said


def test_a_round_is_opened_late_once_and_nothing_is_trained_in_it(tmp_path):
    """The operator names any attempt it likes, and gets one report of a round, which is a late one."""
    toy = make(tmp_path, "silence_limit = 2", names=("north", "south", SILENT))
    restored_in_round_2(toy)
    toy.coordinate()
    sent = [each for each in toy.transport.sent if each.to_member and each.client == SILENT]
    late = [
        each.message for each in sent if each.kind == "evaluate.coalitions" and "opening_model" in each.message.fields
    ]
    backup, home = toy.folder / "backup", toy.home(SILENT)
    closed = [each.message for each in sent if each.kind == "query.close" and each.message.fields["round"] == 2]
    trained = [each.message for each in sent if each.kind == "train.iteration" and each.message.fields["round"] == 2]
    report = [each.message for each in sent if each.kind == "query.report" and "entry" in each.message.fields][-1]
    in_time = replace(report, fields={name: report.fields[name] for name in report.fields if name != "entry"})
    shutil.rmtree(home)
    shutil.copytree(backup, home)

    def ask(kind, question, **fields):
        return toy.member(SILENT).answer(kind, replace(question, fields={**question.fields, **fields}))

    with pytest.raises(QuestionError, match="Round 2 is not open here"):
        ask("evaluate.coalitions", late[-1])  # no statement says yet that it was settled
    ask("query.close", closed[0])
    ask("evaluate.coalitions", late[-1], attempt="any")
    with pytest.raises(QuestionError, match="is settled by a statement that is kept here"):
        ask("train.iteration", trained[0], attempt="any")
    with pytest.raises(QuestionError, match="a late report must name the entry"):
        ask("query.report", in_time, attempt="any")
    ask("query.report", report, attempt="any")
    with pytest.raises(QuestionError, match="Round 2 is not open here"):
        ask("evaluate.coalitions", late[-1], attempt="another")
    (signed,) = json.loads((home / "reports" / "round-0002.json").read_text())["reports"]
    assert signed["report"]["format"] == "commonweal.report/5"


@pytest.mark.parametrize(
    ("number", "mechanism", "is_signed"),
    first_few(
        1,
        [
            (2, 'mu = "inf"\nutility = "advantage"', False),
            (2, 'mu = "inf"', False),
            (2, 'mu = "inf"', True),
            (2, 'mu = "inf"\nfigures = "pooled"', False),
            (1, 'mu = "inf"', False),
            (1, 'mu = "inf"\nutility = "advantage"', False),
        ],
    ),
)
def test_who_was_silent_and_reported_the_round_when_a_backup_ran_it_again_reports_it_late(
    tmp_path, number, mechanism, is_signed
):
    """The newer ledger, which calls the member silent, is put back after that. It may have lost the member's answer.

    In its first round the member measures from the model that opened it.
    """

    class Killed(BaseException):
        """The coordinator."""

    toy, backup, newer = (
        make(tmp_path, "silence_limit = 2", mechanism=mechanism),
        tmp_path / "older",
        tmp_path / "new",
    )

    def before_answer(client, kind):
        asked = toy.transport.sent[-1].message.fields["round"]
        if (asked, kind) == (number, "query.open") and not backup.exists():
            shutil.copytree(toy.out, backup)
        if not newer.exists() and (client, asked, kind) == (SILENT, number, "query.report"):
            if is_signed:
                toy.member(SILENT).answer(kind, toy.transport.sent[-1].message)
            raise ConnectionError
        if (asked, kind) == (number, "query.receipt" if newer.exists() else "query.close"):
            raise Killed

    toy.transport.before_answer = before_answer
    with pytest.raises(Killed):
        toy.coordinate()
    toy.out.rename(newer)
    shutil.copytree(backup, toy.out)
    with pytest.raises(Killed):
        toy.coordinate()
    toy.transport.before_answer = lambda client, kind: None
    shutil.rmtree(toy.out)
    newer.rename(toy.out)
    reports = toy.home(SILENT) / "reports" / f"round-{number:04d}.json"
    *lost, again = json.loads(reports.read_text())["reports"]
    assert len(lost) == is_signed

    run_report, _ = toy.coordinate()
    missed = [(SILENT,) if each == number else () for each in range(1, 5)]
    assert [each.record.silent for each in run_report.rounds] == missed
    assert [each.record.absent for each in run_report.rounds] == missed
    (late,) = bodies(toy, "late-report")
    (settled,) = (body for body in bodies(toy) if body["round"] == number)
    *earlier, last = json.loads(reports.read_text())["reports"]
    assert (earlier, last["report"]) == ([*lost, again], late["report"])
    assert late["report"]["number"] == 2 + is_signed
    opening = settled["inputs"][0]["report"]["attempt"].rpartition("/")[0]
    assert late["report"]["attempt"].startswith(opening)
    assert not again["report"]["attempt"].startswith(opening)
    answered = [each for each in toy.transport.sent if each.client == SILENT and each.kind == "query.report"]
    listed = [json.loads(each.message.fields["earlier"]) for each in answered if not each.to_member]
    assert [*lost, again] in listed
