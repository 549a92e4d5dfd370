"""A member restarts, dies, loses files, or gets questions that it must not answer: its own account stays correct."""

from __future__ import annotations

import json
import os
import signal

import numpy as np
import pytest

from commonweal.errors import CommonwealError
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.member.agent import MemberAgent, QuestionError
from commonweal.remote.member.local_work import packed
from commonweal.remote.member.member_file import read_member
from commonweal.remote.member.store import MemberStore
from commonweal.remote.messages.message import Message
from commonweal.task.records import NewData, Task, Trained
from tests.remote.toy import INITIAL, NAMES, TASK, evaluate, load, make_toy, settled, train

UNLUCKY, ROUND = "east", 2
RULES = {"learning": "iteration_limit = 1", "mechanism": 'mu = "inf"'}
UNEVEN = NewData(training=(np.zeros(3), np.zeros(4)), validation=(np.zeros(1),))
DEATHS = {("train.iteration", 2), ("query.report", 1)}  # the others are left to soak tests
KINDS = ("query.open", "train.iteration", "evaluate.coalitions", "query.report")


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory):
    """The ledger if the member took part in every round, and if it missed round 2."""
    found = {}
    for name, is_there in (("there", True), ("away", False)):
        toy = make_toy(tmp_path_factory.mktemp(name) / "f", **RULES)
        if not is_there:
            fail_in_round(toy, ROUND)
        toy.coordinate()
        found[name] = settled(toy.out)
    return found


def fail_in_round(toy, number):
    member = toy.member(UNLUCKY)

    def answer(kind, question, original=member.answer):
        if question.fields["round"] == number:
            raise ConnectionError
        return original(kind, question)

    member.answer = answer


def die_at_write(toy, kind, write):
    """Answer in a process of its own that is killed at its write to the disk with this number."""
    member, deaths = toy.member(UNLUCKY), []

    def answer(asked, question, original=member.answer):
        if (asked, question.fields["round"]) != (kind, ROUND):
            return original(asked, question)
        child = os.fork()
        if not child:
            try:
                writes = []

                def counted(function):
                    def wrapped(*arguments, **named):
                        writes.append(1)
                        if len(writes) == write:
                            os.kill(os.getpid(), signal.SIGKILL)
                        return function(*arguments, **named)

                    return wrapped

                for name in ("save", "put", "log"):
                    setattr(MemberStore, name, counted(getattr(MemberStore, name)))
                original(asked, question)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            deaths.append(kind)
        raise ConnectionError

    member.answer = answer
    return deaths


@pytest.mark.parametrize(
    ("kind", "write"),
    [
        pytest.param(kind, write, marks=() if (kind, write) in DEATHS else pytest.mark.soak)
        for kind in KINDS
        for write in (1, 2, 3)
    ],
)
def test_a_member_killed_in_the_middle_misses_the_round_and_returns(tmp_path, ledgers, kind, write):
    """If there are fewer writes, nobody is killed: the answer is lost all the same, with the same effect."""
    toy = make_toy(tmp_path / "f", **RULES)
    deaths = die_at_write(toy, kind, write)
    run_report, _ = toy.coordinate()
    assert deaths or write > 1
    assert [completed.record.absent for completed in run_report.rounds] == [(), (UNLUCKY,), ()]
    assert settled(toy.out) == ledgers["away"]


def test_models_that_a_member_lost_are_sent_again(tmp_path, ledgers):
    toy = make_toy(tmp_path / "f", **RULES)
    lost = []

    def before_answer(client, kind):
        if client == UNLUCKY and kind in ("train.iteration", "query.report"):
            state = json.loads((toy.home(UNLUCKY) / "state.json").read_text())
            own = {state["memory"], (state["under_way"] or state)["memory"]}  # nobody else has these
            for file in (toy.home(UNLUCKY) / "arrays").iterdir():
                if file.stem not in own:
                    file.unlink()
            lost.append(kind)

    toy.transport.before_answer = before_answer
    toy.coordinate()
    assert len(lost) > 6
    assert settled(toy.out) == ledgers["there"]


def test_a_new_process_for_every_message_gives_the_same_result(tmp_path, ledgers):
    """Nothing that an answer needs is in memory."""
    toy = make_toy(tmp_path / "f", **RULES)

    def in_another_process(original):
        def answer(kind, question):
            reading, writing = os.pipe()
            child = os.fork()
            if not child:
                os.close(reading)
                try:
                    given = original(kind, question)
                    groups = {n: {k: (a.dtype.str, a.tolist()) for k, a in g.items()} for n, g in given.groups.items()}
                    content = {"fields": dict(given.fields), "signature": given.signature, "groups": groups}
                    with os.fdopen(writing, "w") as pipe:
                        json.dump(content, pipe)
                finally:
                    os._exit(0)
            os.close(writing)
            with os.fdopen(reading) as pipe:
                content = json.load(pipe)
            os.waitpid(child, 0)
            groups = {n: {k: np.array(v, d) for k, (d, v) in g.items()} for n, g in content["groups"].items()}
            return Message(fields=content["fields"], groups=groups, signature=content["signature"])

        return answer

    for name in NAMES:
        toy.member(name).answer = in_another_process(toy.member(name).answer)
    toy.coordinate()
    assert settled(toy.out) == ledgers["there"]


def test_after_missing_the_first_round_utility_is_measured_from_the_first_model_seen(tmp_path):
    """ε(n,0) is the accuracy of the model that opens the member's first round."""
    toy = make_toy(tmp_path / "f", **RULES)
    fail_in_round(toy, 1)
    run_report, _ = toy.coordinate()
    second = run_report.rounds[1]
    assert second.clients[UNLUCKY].previous_accuracy == second.iteration_accuracies[0][UNLUCKY]


def test_withdrawal_with_notice(tmp_path):
    toy = make_toy(tmp_path / "f", **RULES)

    def before_answer(client, kind):
        if client == UNLUCKY and (toy.home(UNLUCKY) / "statements" / "round-0001.json").exists():
            (toy.home(UNLUCKY) / "withdraw").touch()

    toy.transport.before_answer = before_answer
    run_report, said = toy.coordinate()
    assert [completed.record.withdrawn for completed in run_report.rounds] == [(), (UNLUCKY,), ()]
    assert UNLUCKY in run_report.rounds[1].clients, "it takes part in the round of its notice"
    assert UNLUCKY not in run_report.rounds[2].clients
    assert not run_report.rounds[2].record.absent, "who withdrew is not absent"
    assert run_report.durations[UNLUCKY] == 2
    assert run_report.withdrawn_after == {UNLUCKY: 2}
    assert f"{UNLUCKY} withdraws" in said
    assert "withdrawn: east after round 2" in run_report.sentence
    settled(toy.out)  # audited, the signed notice too
    last = [sent for sent in toy.transport.sent if sent.client == UNLUCKY][-1]
    assert last.kind == "query.close", "it gets its last statement, and no further model"
    statement = json.loads((toy.home(UNLUCKY) / "statements" / "round-0002.json").read_text())
    assert any("withdrew after round 2" in line["text"] for line in statement["document"]["lines"])


def test_eliminated_clients_get_no_further_model(tmp_path):
    toy = make_toy(tmp_path / "f", mechanism="mu = 0.01", learning="iteration_limit = 2")
    run_report, _ = toy.coordinate()
    eliminated = run_report.rounds[0].record.decision.eliminated
    assert eliminated == ("south",)
    last = [sent for sent in toy.transport.sent if sent.client == "south"][-1]
    assert {s.message.fields["round"] for s in toy.transport.sent if s.client == "south" and s.to_member} == {1}
    assert last.kind == "query.close"


@pytest.fixture
def agent(tmp_path):
    toy = make_toy(tmp_path / "f", names=NAMES[:2], rounds=1)
    toy.coordinate()
    member = read_member(toy.folder / "members" / "north" / "member.toml")
    return MemberAgent(member, TASK, NodeKey.read(member.key_file)), toy


def asked(toy, kind, **fields):
    """The last question of its kind that north was asked, with other fields."""
    question = [s for s in toy.transport.sent if (s.to_member, s.client, s.kind) == (True, "north", kind)][-1].message
    return Message(fields={**question.fields, **fields}, groups=question.groups)


def test_a_question_about_a_settled_round_changes_nothing(agent):
    agent, toy = agent
    before = (toy.home("north") / "state.json").read_bytes()
    for kind in KINDS[1:]:
        with pytest.raises(QuestionError, match="Round 1 is not open here"):
            agent.answer(kind, asked(toy, kind))
    assert (toy.home("north") / "state.json").read_bytes() == before


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"client": "south"}, "answers for 'north', but the question is for 'south'"),
        ({"book": "0" * 64}, "but the question is about ledger 0000000000000000…. Name another `home`"),
    ],
)
def test_a_question_for_another_member_is_not_answered(agent, fields, message):
    agent, toy = agent
    with pytest.raises(QuestionError, match=message):
        agent.answer("query.open", asked(toy, "query.open", **fields))


def test_a_notice_that_was_sent_cannot_be_taken_back(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:3])
    store = MemberStore(toy.home(UNLUCKY))
    assert store.give_notice(True)
    assert not store.give_notice(True)
    assert store.give_notice(False)
    assert not store.give_notice(False)
    store.give_notice(True)
    toy.coordinate()
    with pytest.raises(CommonwealError, match="it has been sent to the operator"):
        store.give_notice(False)


def test_only_the_owner_can_read_a_members_folder(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:2])
    toy.coordinate()
    assert toy.home("north").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": "commonweal.home/0"}', "no JSON"])
def test_an_unreadable_state_is_refused_in_one_sentence(tmp_path, content):
    (tmp_path / "state.json").write_text(content)
    with pytest.raises(CommonwealError, match="Restore the folder from a backup"):
        MemberStore(tmp_path).load()


def test_arrays_may_have_any_name_and_no_axis_but_must_be_numbers(tmp_path):
    store = MemberStore(tmp_path)
    with store.locked():
        arrays = {"file": np.zeros(2), "allow_pickle": np.array(0.5), "a/b": np.zeros((0, 3))}
        kept = store.get(store.put(arrays))
        assert {name: (array.shape, array.tolist()) for name, array in kept.items()} == {
            name: (array.shape, array.tolist()) for name, array in arrays.items()
        }
        with pytest.raises(CommonwealError, match="plain NumPy arrays of numbers, got an array of object for 'x'"):
            store.put({"x": np.array([{}], dtype=object)})
        with pytest.raises(CommonwealError, match="named by its hash"):
            store.lacks(["../../secrets"])


def test_models_may_hold_a_single_number(tmp_path):
    """Such as a learned temperature."""

    def train_both(model, training, context):
        return Trained(model={**train({"w": model["w"]}, training, context).model, "t": model["t"] + 1}, step_count=3)

    toy = make_toy(tmp_path / "f", rounds=2, names=NAMES[:2], mechanism='mu = "inf"')
    for name in NAMES[:2]:
        toy.member(name).task = Task(load=load, train=train_both, evaluate=evaluate)
    run_report, _ = toy.coordinate({**INITIAL, "t": np.array(1.0)})
    assert [completed.record.absent for completed in run_report.rounds] == [(), ()]


def test_counts_may_be_numpy_integers():
    assert type(NewData(training=(), validation=(), sample_count=np.int64(4)).sample_count) is int
    assert type(Trained(model={}, step_count=np.int32(3)).step_count) is int
    for wrong in (1.5, -1, "3", None):
        with pytest.raises(CommonwealError, match="step_count must be a whole number"):
            Trained(model={}, step_count=wrong)


def test_averaging_leaves_the_users_threads_as_they_were():
    import torch

    from commonweal.learning.vectors import average_models

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        average_models([{"w": np.zeros(2)}], [1.0])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_statement_by_another_operator_is_doubted(agent):
    """The first operator is believed, and no other after it."""
    agent, toy = agent
    good = (toy.home("north") / "statements" / "round-0001.json").read_text()
    forged = json.loads(good)
    forged["document"]["balance"] = "999999"
    for content in (json.dumps(forged), "{}", "no JSON"):
        agent.answer("query.close", asked(toy, "query.close", statement=content))
        assert "DOUBTFUL STATEMENT" in (toy.home("north") / "log.txt").read_text().splitlines()[-1]
    agent.answer("query.close", asked(toy, "query.close", statement=good))
    assert "round-0001.json was here already" in (toy.home("north") / "log.txt").read_text().splitlines()[-1]
    for other in ("south",):
        theirs = (toy.home(other) / "statements" / "round-0001.json").read_text()
        agent.answer("query.close", asked(toy, "query.close", statement=theirs))
        assert "not for this member" in (toy.home("north") / "log.txt").read_text().splitlines()[-1]


@pytest.mark.parametrize(
    ("brought", "message"),
    [
        ({"evaluate": lambda model, validation, context: np.full(3, 1.0)}, "scores of shape (3,) for 12 validation"),
        ({"evaluate": lambda model, validation, context: np.full(12, 7.0)}, "A score must be from 0 to 1"),
        ({"load": lambda number, member: UNEVEN}, "load in the task failed for client 'north' in round 1: "),
    ],
)
def test_functions_that_break_the_rules_are_refused_by_the_member(tmp_path, brought, message):
    toy = make_toy(tmp_path / "f", names=NAMES[:2], rounds=1)
    toy.member("north").task = Task(**{"load": load, "train": train, "evaluate": evaluate, **brought})
    run_report, _ = toy.coordinate()
    assert run_report.rounds[0].record.absent == ("north",)
    assert message in (toy.home("north") / "log.txt").read_text()


@pytest.mark.parametrize("given", [[0.0, 1.0, 1.0], [0.0, 0.5, 1.0]])
def test_scores_of_0_and_1_are_sent_in_one_byte_each(given):
    scores = np.array(given)
    assert packed(scores).dtype == (np.uint8 if set(given) <= {0.0, 1.0} else np.float64)
    assert (packed(scores) == scores).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ('name = "north"', "key_file is missing"),
        ('name = "n"\nkey_file = "k"\nhome = "h"\nunit_value = -1', "unit_value must be"),
        ('name = "n"\nkey_file = "k"\nhome = "h"\nunit_valu = 1', "Did you mean 'unit_value'"),
        ('name = "n"\nkey_file = "k"\nhome = "h"\ntask = 3', "task must be a table"),
        ('name = "n"\nkey_file = "k"\nhome = "h"\nreported_profit = true', "reported_profit must be 0, or a number"),
        (
            'name = "n"\nkey_file = "k"\nhome = "h"\ndefect.kind = "flip"',
            "kind must be one of label-noise, .*sign-flip",
        ),
        ('name = "n"\nkey_file = "k"\nhome = "h"\ndefect.kind = "label-flip"', "Change the member's data instead"),
    ],
)
def test_a_bad_member_file_is_refused(tmp_path, text, message):
    path = tmp_path / "member.toml"
    path.write_text(text)
    with pytest.raises(CommonwealError, match=message):
        read_member(path)
