"""The first question of a ledger fixes what is measured and how; a member refuses questions that depart from it."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace

import pytest

from commonweal.ledger.keys import SigningKey
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.receipts import receipt_document
from commonweal.ledger.signed_files import signed_content
from commonweal.remote.member.agent import answer_question
from commonweal.remote.member.report_book import ReportBook
from commonweal.remote.member.store import MemberStore
from commonweal.remote.messages.message import (
    CLOSE,
    EVALUATE,
    OPEN,
    RECEIPT,
    REPORT,
    SUMMARISE,
    TRAIN,
    Message,
    QuestionError,
)
from commonweal.remote.messages.settings_hash import SETTINGS as SETTINGS_SIGNED
from commonweal.remote.messages.settings_hash import settings_hash
from commonweal.tables.federated import table_task
from commonweal.task.models import fingerprint
from commonweal.task.records import TaskPlan
from tests.remote.hostile import log, run
from tests.remote.test_shown_heads import in_round
from tests.remote.toy import NAMES, make_toy

SETTINGS = {"target": "ill"}
LEDGER = "b" * 64
COMMON = {
    "number": "n",
    "client": "north",
    "book": LEDGER,
    "round": 1,
    "attempt": "a" * 16,
    "settings": json.dumps(SETTINGS),
    "seed": 1,
    "rounds": 2,
    "metric": "accuracy",
    "lower_is_better": False,
    "utility": "gain",
    "figures": "measured",
    "smooth": False,
    "learning": json.dumps({"algorithm": "fedavg", "learning_rate": 0.1, "parameters": {}, "iteration_limit": 2}),
}
OTHERS = {
    "seed": 2,
    "rounds": 40,
    "settings": json.dumps({"target": "ill", "validation_share": 0.5}),
    "metric": "roc-auc",
    "lower_is_better": True,
    "utility": "advantage",
    "figures": "pooled",
    "smooth": True,
    "learning": json.dumps({"algorithm": "fedavg", "learning_rate": 9, "parameters": {}, "iteration_limit": 2}),
}


def test_what_data_have_in_common_can_be_told_anew_before_a_round_is_settled_and_the_log_shows_it(tmp_path):
    """A coordinator that is started again asks for summaries again, and other members may be there then."""
    told = []

    def anew(toy, operator, question, questions):
        if question.fields["iteration"] == 1 and not told:
            for agreed in ('{"mean": 1}', '{"mean": 1}', "{}"):
                before = len(log(toy))
                operator.extra("query.open", number=1, agreed=agreed)
                told.append("in common is told otherwise than before" in log(toy)[before:])

    run(tmp_path, in_round(1, "train.iteration", anew), rounds=1, names=NAMES[:3])
    assert told == [True, False, True]


def test_members_sign_what_they_measure_by(tmp_path):
    """The operator gives one member other settings from the start, and lets it sign: all others can see it."""
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:3], learning="iteration_limit = 1")
    ask = toy.transport.ask

    def with_another_seed(kind, questions, *, seconds):
        if "east" in questions:
            question = questions["east"]
            questions = questions | {"east": replace(question, fields={**question.fields, "seed": 7})}
        return ask(kind, questions, seconds=seconds)

    toy.transport.ask = with_another_seed
    _, said = toy.coordinate()
    assert any("east missed round 1: it measured by other settings than those of this federation" in s for s in said)

    def signed(name):
        reports = json.loads((toy.home(name) / "reports" / "round-0001.json").read_text())["reports"]
        return reports[0]["report"]["settings"]

    assert signed("north") == signed("south") == settings_hash(COMMON | asked_of(toy, "north"), {})
    assert signed("east") != signed("north")


def test_a_member_that_does_not_name_its_settings_any_more_is_absent(tmp_path, monkeypatch):
    """Else its reports could not be compared with those of the others from then on."""
    toy = make_toy(tmp_path / "f", rounds=2, names=NAMES[:3], learning="iteration_limit = 1", mechanism='mu = "inf"')
    as_asked = ReportBook.sign

    def without_settings(book, report, key):
        if (report.client, report.round_number) == ("east", 2):
            report = replace(report, basis=replace(report.basis, settings=None))
        return as_asked(book, report, key)

    monkeypatch.setattr(ReportBook, "sign", without_settings)
    run_report, said = toy.coordinate()
    assert [each.record.absent for each in run_report.rounds] == [(), ("east",)]
    assert any("east missed round 2: it must name the settings that it measures by" in line for line in said)


def asked_of(toy, name):
    """The settings in the first question to a member."""
    fields = next(sent.message.fields for sent in toy.transport.sent if sent.to_member and sent.client == name)
    return {setting: fields[setting] for setting in SETTINGS_SIGNED}


@pytest.mark.parametrize("name", [*OTHERS, "agreed"])
def test_every_setting_is_part_of_what_is_signed(name):
    others, agreed = (COMMON, {"columns": 3}) if name == "agreed" else (COMMON | {name: OTHERS[name]}, {})
    assert settings_hash(others, agreed) != settings_hash(COMMON, {})
    assert set(OTHERS) == set(SETTINGS_SIGNED)


class TableMember:
    """A member with a table of its own, and a coordinator that asks whatever it likes."""

    def __init__(self, folder, row_count=200):
        self.home, self._file, self.task = folder / "home", folder / "member.toml", table_task(SETTINGS)
        chance = random.Random(3)
        rows = [(chance.uniform(20, 90), chance.uniform(50, 200), chance.gauss(0, 60)) for _ in range(row_count)]
        lines = [f"{a:.1f},{b:.1f},{'yes' if a + b + c > 180 else 'no'}" for a, b, c in rows]
        (folder / "rows.csv").write_text("\n".join(["age,sugar,ill", *lines]))
        NodeKey.new().write(folder / "node-key")
        self._file.write_text(
            'name = "north"\nkey_file = "node-key"\nhome = "home"\nunit_value = 1\n[task]\ntable = "rows.csv"\n'
        )

    def ask(self, kind, groups=None, **fields):
        return answer_question(self._file, self.task, kind, Message(fields={**COMMON, **fields}, groups=groups or {}))

    def open(self, **fields):
        """Summary and opening; returns the hash of a model that it trained."""
        summary = json.loads(self.ask(SUMMARISE).fields["summary"])
        self.agreed = self.task.agree({"north": summary, "south": summary})
        model = self.task.initial_model(TaskPlan(seed=1, settings=SETTINGS, agreed=self.agreed))
        self.first = fingerprint(model)
        self.ask(OPEN, {f"model/{self.first}": model}, **self.opening, **fields)
        return fingerprint(self.ask(TRAIN, iteration=1, models=[self.first]).groups["local"])

    @property
    def opening(self):
        settled = {"settled_round": 0, "settled_attempt": "", "settled_model": "", "has_baseline": False}
        return {"agreed": json.dumps(self.agreed), "terms": "cd" * 32, "models": [self.first], **settled}

    def evaluate(self, model, **fields):
        return self.ask(EVALUATE, whole=[model], parts=[], models=[model], **fields)

    def state(self):
        return MemberStore(self.home).load()

    @property
    def log(self):
        return (self.home / "log.txt").read_text()


@pytest.fixture
def member(tmp_path):
    return TableMember(tmp_path)


@pytest.mark.parametrize("name", OTHERS)
def test_nothing_that_figures_depend_on_changes_within_a_ledger(member, name):
    """Else the coordinator could draw the validation samples until it likes the figure, then ask for the report."""
    model = member.open()
    member.evaluate(model)
    before = member.state()
    other = {name: OTHERS[name]}
    for ask in (
        lambda: member.evaluate(model, **other),
        lambda: member.ask(TRAIN, iteration=2, models=[model], **other),
        lambda: member.ask(REPORT, adopted=model, valuation=1, models=[model], **other),
        lambda: member.ask(OPEN, **member.opening | {"attempt": "another"} | other),
        lambda: member.ask(SUMMARISE, **other),
    ):
        with pytest.raises(QuestionError, match=f"^{name} was .* in the first question of this federation and is "):
            ask()
    assert member.state() == before
    assert member.log.count(f"ERROR refused a question evaluate.coalitions: {name} was") == 1
    assert member.ask(REPORT, adopted=model, valuation=1, models=[model]).fields["report_number"] == 1


@pytest.mark.parametrize(("name", "default", "other"), [("figures", "measured", "pooled"), ("smooth", False, True)])
def test_what_the_first_question_leaves_out_is_fixed_too(member, monkeypatch, name, default, other):
    """Else profits could be reported as measured in one attempt, and by pooled gains in the next."""
    monkeypatch.delitem(COMMON, name, raising=False)
    member.open()
    assert member.state().pinned[name] == default
    with pytest.raises(QuestionError, match=f"^{name} was {default!r} in the first question"):
        member.ask(OPEN, **member.opening | {"attempt": "another", name: other})
    assert member.ask(OPEN, **member.opening | {"attempt": "another", name: default})


def test_a_figure_that_was_measured_in_a_round_is_not_replaced(member, tmp_path):
    """Not even by other rows: whoever asks again gets the new answer, but the report follows from the first."""
    model = member.open()
    member.evaluate(model)
    under_way = member.state().under_way
    first, baseline = under_way.accuracies[model], under_way.accuracies[under_way.opening]
    rows = (tmp_path / "rows.csv").read_text()
    (tmp_path / "rows.csv").write_text(rows.replace("yes", "maybe").replace("no", "yes").replace("maybe", "no"))
    member.evaluate(model)
    assert member.state().under_way.accuracies[model] == first
    report = member.ask(REPORT, adopted=model, valuation=1, models=[model])
    assert report.fields["profit"] == pytest.approx(first - baseline)


def test_the_model_that_opened_the_round_is_measured_once(tmp_path):
    """What a task remembers may be part of what it evaluates: a baseline measured after training would be another."""
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:2])
    toy.coordinate()
    sent = [s.message for s in toy.transport.sent if (s.to_member, s.client) == (True, "north")]
    opening = next(message for message in sent if message.fields.get("agreed"))
    training = next(message for message in sent if "iteration" in message.fields)
    shutil.rmtree(toy.home("north"))
    toy.member("north").answer(OPEN, opening)
    (digest,) = opening.fields["models"]
    asked = replace(training, fields={**training.fields, "whole": [digest], "parts": [], "models": [digest]}, groups={})

    def measured_with():
        toy.member("north").answer(EVALUATE, asked)
        return MemberStore(toy.home("north")).load().under_way.measured_with[digest]

    before = measured_with()
    toy.member("north").answer(TRAIN, training)
    assert measured_with() == before


def test_one_summary_before_the_first_round(member):
    first = member.ask(SUMMARISE).fields
    assert member.ask(SUMMARISE).fields == first, "the coordinator may have been started again"
    for other in ({"seed": 2}, {"rounds": 3}, {"book": "c" * 64}):
        with pytest.raises(QuestionError, match="in the first question of this federation"):
            member.ask(SUMMARISE, **other)
    member.open()
    assert member.ask(SUMMARISE).fields == first, "it was killed in the first round"
    state = member.state()
    state.settled_round = 1
    MemberStore(member.home).save(state)
    assert member.ask(SUMMARISE).fields == {"saw_settled": 1, "proof": ""}
    assert "ERROR refused to go back to round 1: round 1 was settled here before" in member.log


def test_no_summary_of_a_few_rows(tmp_path):
    member = TableMember(tmp_path, row_count=40)
    with pytest.raises(QuestionError, match="would be of fewer than 5 rows"):
        member.ask(SUMMARISE, rounds=40)
    assert "ERROR sent no summary" in member.log
    assert json.loads(member.ask(SUMMARISE, rounds=2).fields["summary"])["row_count"] >= 5


def test_a_far_round_does_not_bar_the_rounds_that_were_agreed_on(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=3, mechanism='mu = "inf"')
    refusals = []
    answer = toy.member("north").answer

    def also_far(kind, question):
        if kind == OPEN and question.fields["round"] == 2:
            for far, terms in ((4, {}), (500, {}), (500, {"terms": "ab" * 32})):
                with pytest.raises(QuestionError) as refusal:
                    answer(kind, replace(question, fields={**question.fields, "round": far, **terms}))
                refusals.append(str(refusal.value))
        return answer(kind, question)

    toy.member("north").answer = also_far
    run_report, _ = toy.coordinate()
    assert [completed.record.absent for completed in run_report.rounds] == [(), (), ()]
    assert "Round 4 was never agreed on" in refusals[0]
    assert "Round 500 was never agreed on" in refusals[1]
    assert "Round 500 is too far ahead" in refusals[2]


@pytest.mark.parametrize("kind", [RECEIPT, CLOSE])
def test_nothing_is_kept_of_a_ledger_before_its_first_round(tmp_path, kind):
    """The first key that signs something is trusted from then on: it must not be that of just anybody."""
    other = make_toy(tmp_path / "other", rounds=1)
    other.coordinate()
    sent = [s.message for s in other.transport.sent if (s.to_member, s.client, s.kind) == (True, "north", kind)]
    fields = dict(sent[-1].fields)
    if kind == RECEIPT:
        document = receipt_document(
            ledger=LEDGER, round_number=1, client="north", signature="", at="2026-01-01T00:00:00Z"
        )
        fields |= {"book": LEDGER, "receipt": signed_content(document, SigningKey.new()).decode()}
    toy = make_toy(tmp_path / "f", rounds=2, mechanism='mu = "inf"')
    with pytest.raises(QuestionError, match=r"No round of ledger .* was opened here"):
        toy.member("north").answer(kind, Message(fields={**fields, "settled_round": 0, "settled_attempt": ""}))
    toy.coordinate()
    log = (toy.home("north") / "log.txt").read_text()
    assert "DOUBTFUL" not in log
    assert "CONTRADICTION" not in log
    assert {file.name for file in (toy.home("north") / "statements").glob("*.json")} == {
        "round-0001.json",
        "round-0002.json",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("book", value) for value in (1, True, None, "", "b" * 63, "B" * 64, "b" * 64 + "\n", [], {})],
        *[("round", value) for value in (0, -1, True, 1.0, "1", None)],
        *[("attempt", value) for value in ("", 1, None, "a" * 65)],
        *[("seed", value) for value in (True, 1.0, "1", None, -1)],
        *[("rounds", value) for value in (0, True, 2.0, 10_001)],
        *[("learning", value) for value in ("[]", "", 1)],
        ("agreed", "[]"),
        ("utility", "x"),
        ("figures", []),
    ],
)
def test_an_odd_first_question_leaves_no_trace(tmp_path, name, value):
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:2])
    answer = toy.member("north").answer
    refused = []

    def odd_first(kind, question):
        if kind == OPEN:
            with pytest.raises(QuestionError) as refusal:
                answer(kind, replace(question, fields={**question.fields, name: value}))
            refused.append(refusal.value)
        return answer(kind, question)

    toy.member("north").answer = odd_first
    run_report, _ = toy.coordinate()
    assert refused
    assert [completed.record.absent for completed in run_report.rounds] == [()]


def test_a_folder_of_an_earlier_version_fixes_them_at_its_next_opening(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=2, mechanism='mu = "inf"')
    file = toy.home("north") / "state.json"

    def as_it_was(client, kind):
        if client == "north" and kind == OPEN and file.exists():
            document = json.loads(file.read_text())
            del document["pinned"]
            for name in ("measured_with",):
                (document["under_way"] or {}).pop(name, None)
            file.write_text(json.dumps(document))

    toy.transport.before_answer = as_it_was
    run_report, _ = toy.coordinate()
    assert [completed.record.absent for completed in run_report.rounds] == [(), ()]
    assert json.loads(file.read_text())["pinned"]["seed"] == 1
