"""A member restarts, dies, loses files, is asked what it must not answer: its own account stays right."""

from __future__ import annotations

import json
import os
import signal

import numpy as np
import pytest

from commonweal.errors import CommonwealError
from commonweal.flower import NewData, client_app
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.coordinator import coordinate as coordinator_module
from commonweal.remote.member.agent import MemberAgent, QuestionError, packed
from commonweal.remote.member.member_file import read_member
from commonweal.remote.member.store import MemberStore
from commonweal.remote.member.work import Work
from commonweal.remote.messages.message import Parcel, from_content
from tests.flower.test_faults import settled
from tests.flower.toy import APP, NAMES, evaluate, load, make_toy, train

UNLUCKY, ROUND = "east", 2
RULES = {"learning": "iteration_limit = 1", "mechanism": 'mu = "inf"'}
UNEVEN = NewData(training=(np.zeros(3), np.zeros(4)), validation=(np.zeros(1),))
KINDS = ("query.open", "train.iteration", "evaluate.coalitions", "query.report")


@pytest.fixture(autouse=True)
def _no_report(monkeypatch):
    monkeypatch.setattr(coordinator_module, "write_all", lambda *_: None)


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    """The book of the federation in which the member was there, and of the one in which it missed round 2."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coordinator_module, "write_all", lambda *_: None)
        for name, is_there in (("there", True), ("away", False)):
            toy = make_toy(tmp_path_factory.mktemp(name) / "f", **RULES)
            if not is_there:
                toy.node(UNLUCKY).app = failing_in_round(ROUND)
            toy.coordinate()
            found[name] = settled(toy)
    return found


def failing_in_round(number):
    def app(message, context):
        if from_content(message.content).fields["round"] == number:
            raise ConnectionError
        return APP(message, context)

    return app


def dying(kind, write):
    """Answer in a process of its own that is killed at its so manieth write to the disk."""

    def app(message, context):
        fields = from_content(message.content).fields
        if (message.metadata.message_type, fields["round"]) != (kind, ROUND):
            return APP(message, context)
        child = os.fork()
        if not child:
            try:
                writes = []

                def die_at_last(original):
                    def wrapped(*arguments, **named):
                        writes.append(1)
                        if len(writes) == write:
                            os.kill(os.getpid(), signal.SIGKILL)
                        return original(*arguments, **named)

                    return wrapped

                for name in ("save", "put", "log"):
                    setattr(MemberStore, name, die_at_last(getattr(MemberStore, name)))
                APP(message, context)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        app.died |= os.WIFSIGNALED(status)
        raise ConnectionError

    app.died = False
    return app


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("write", [1, 2, 3])
def test_a_member_killed_in_the_middle_misses_the_round_and_returns(tmp_path, books, kind, write):
    """Another write than there is kills nobody: the answer is lost all the same, which must be as good."""
    toy = make_toy(tmp_path / "f", **RULES)
    toy.node(UNLUCKY).app = app = dying(kind, write)
    chronicle, _ = toy.coordinate()
    assert app.died or write > 1
    assert [held.record.absent for held in chronicle.rounds] == [(), (UNLUCKY,), ()]
    assert settled(toy) == books["away"]


def test_models_that_a_member_lost_are_sent_again(tmp_path, books):
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

    toy.grid.before_answer = before_answer
    toy.coordinate()
    assert len(lost) > 6
    book = settled(toy)
    assert book == books["there"]


def test_a_new_process_for_every_message_is_enough(tmp_path, books):
    """Nothing that an answer needs is in memory."""
    toy = make_toy(tmp_path / "f", **RULES)

    def in_another_process(message, context):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            try:
                answer = from_content(APP(message, context).content)
                groups = {n: {k: (a.dtype.str, a.tolist()) for k, a in g.items()} for n, g in answer.groups.items()}
                content = {"fields": dict(answer.fields), "seal": answer.seal, "groups": groups}
                with os.fdopen(writing, "w") as pipe:
                    json.dump(content, pipe)
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            content = json.load(pipe)
        os.waitpid(child, 0)
        from flwr.app import Message

        from commonweal.remote.messages.message import to_content

        groups = {n: {k: np.array(v, d) for k, (d, v) in g.items()} for n, g in content["groups"].items()}
        parcel = Parcel(fields=content["fields"], groups=groups, seal=content["seal"])
        return Message(to_content(parcel), reply_to=message)

    for name in NAMES:
        toy.node(name).app = in_another_process
    toy.coordinate()
    assert settled(toy) == books["there"]


def test_a_first_round_missed_is_measured_from_the_first_model_seen(tmp_path):
    """ε(n,0) is the accuracy of the model that opens the member's first round."""
    toy = make_toy(tmp_path / "f", **RULES)
    toy.node(UNLUCKY).app = failing_in_round(1)
    chronicle, _ = toy.coordinate()
    second = chronicle.rounds[1]
    assert second.clients[UNLUCKY].previous_accuracy == second.iteration_accuracies[0][UNLUCKY]


def test_withdrawal_with_notice(tmp_path):
    toy = make_toy(tmp_path / "f", **RULES)

    def before_answer(client, kind):
        if client == UNLUCKY and (toy.home(UNLUCKY) / "statements" / "round-0001.json").exists():
            (toy.home(UNLUCKY) / "withdraw").touch()

    toy.grid.before_answer = before_answer
    chronicle, said = toy.coordinate()
    assert [held.record.withdrawn for held in chronicle.rounds] == [(), (UNLUCKY,), ()]
    assert UNLUCKY in chronicle.rounds[1].clients, "it takes part in the round of its notice"
    assert UNLUCKY not in chronicle.rounds[2].clients
    assert not chronicle.rounds[2].record.absent, "who withdrew is not absent"
    assert chronicle.durations[UNLUCKY] == 2
    assert chronicle.withdrawn_after == {UNLUCKY: 2}
    assert f"{UNLUCKY} withdraws" in said
    assert "withdrawn: east after round 2" in chronicle.sentence
    settled(toy)  # audited, the signed notice too
    last = [sent for sent in toy.grid.wire if sent.client == UNLUCKY][-1]
    assert last.kind == "query.close", "it gets its last statement, and no further model"
    statement = json.loads((toy.home(UNLUCKY) / "statements" / "round-0002.json").read_text())
    assert any("withdrew after round 2" in line["text"] for line in statement["document"]["lines"])


def test_the_eliminated_get_no_further_model(tmp_path):
    toy = make_toy(tmp_path / "f", mechanism="mu = 0.01", learning="iteration_limit = 2")
    chronicle, _ = toy.coordinate()
    gone = chronicle.rounds[0].record.decision.eliminated
    assert gone == ("south",)
    last = [sent for sent in toy.grid.wire if sent.client == "south"][-1]
    assert from_content([s for s in toy.grid.wire if s.client == "south"][-2].message.content).fields["round"] == 1
    assert last.kind == "query.close"


@pytest.fixture
def desk(tmp_path):
    toy = make_toy(tmp_path / "f", names=NAMES[:2], rounds=1)
    toy.coordinate()
    member = read_member(toy.folder / "members" / "north" / "member.toml")
    work = Work(load=load, train=train, evaluate=evaluate)
    return MemberAgent(member, work, NodeKey.read(member.key_file)), toy


def asked(toy, kind, **fields):
    """The last question of its kind that north was asked, with other fields."""
    parcel = [s for s in toy.grid.wire if (s.to_node, s.client, s.kind) == (True, "north", kind)][-1].message
    question = from_content(parcel.content)
    return Parcel(fields={**question.fields, **fields}, groups=question.groups)


def test_a_question_of_a_round_that_is_over_changes_nothing(desk):
    desk, toy = desk
    before = (toy.home("north") / "state.json").read_bytes()
    for kind in KINDS[1:]:
        with pytest.raises(QuestionError, match="broken off or never opened"):
            desk.answer(kind, Parcel(fields=asked(toy, kind).fields | {"models": []}))
    assert (toy.home("north") / "state.json").read_bytes() == before


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"client": "south"}, "answers for 'north', got a question for 'south'"),
        ({"book": "0" * 64}, "belongs to one federation"),
    ],
)
def test_a_question_for_somebody_else_is_not_answered(desk, fields, message):
    desk, toy = desk
    with pytest.raises(QuestionError, match=message):
        desk.answer("query.open", asked(toy, "query.open", **fields))


def test_a_notice_that_was_heard_cannot_be_taken_back(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:3])
    home = MemberStore(toy.home(UNLUCKY))
    assert home.give_notice(True)
    assert not home.give_notice(True)
    assert home.give_notice(False)
    assert not home.give_notice(False)
    home.give_notice(True)
    toy.coordinate()
    with pytest.raises(CommonwealError, match="until a round has heard it"):
        home.give_notice(False)


def test_a_home_is_its_owners_alone(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:2])
    toy.coordinate()
    assert toy.home("north").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": "commonweal.home/0"}', "no JSON"])
def test_a_state_that_cannot_be_read_is_said_in_one_sentence(tmp_path, content):
    (tmp_path / "state.json").write_text(content)
    with pytest.raises(CommonwealError, match="bring it back from a copy of the home"):
        MemberStore(tmp_path).load()


def test_arrays_may_have_any_name_and_no_axis_but_must_be_numbers(tmp_path):
    home = MemberStore(tmp_path)
    with home.alone():
        arrays = {"file": np.zeros(2), "allow_pickle": np.array(0.5), "a/b": np.zeros((0, 3))}
        kept = home.get(home.put(arrays))
        assert {name: (array.shape, array.tolist()) for name, array in kept.items()} == {
            name: (array.shape, array.tolist()) for name, array in arrays.items()
        }
        with pytest.raises(CommonwealError, match="plain NumPy arrays"):
            home.put({"x": np.array([{}], dtype=object)})
        with pytest.raises(CommonwealError, match="named by a hash"):
            home.lacks(["../../secrets"])


def test_models_may_hold_a_single_number(tmp_path, monkeypatch):
    """Such as a learned temperature."""
    from commonweal.flower import Trained
    from tests.flower import toy as toys

    def train_both(model, training, context):
        return Trained(model={**train({"w": model["w"]}, training, context).model, "t": model["t"] + 1}, step_count=3)

    toy = make_toy(tmp_path / "f", rounds=2, names=NAMES[:2], mechanism='mu = "inf"')
    monkeypatch.setattr(toys, "INITIAL", {"w": np.zeros(2), "t": np.array(1.0)})
    for name in NAMES[:2]:
        toy.node(name).app = client_app(load=load, train=train_both, evaluate=evaluate)
    chronicle, _ = toy.coordinate()
    assert [held.record.absent for held in chronicle.rounds] == [(), ()]


def test_counts_may_be_numpys():
    from commonweal.flower import Trained

    assert type(NewData(training=(), validation=(), sample_count=np.int64(4)).sample_count) is int
    assert type(Trained(model={}, step_count=np.int32(3)).step_count) is int
    for wrong in (1.5, -1, "3", None):
        with pytest.raises(CommonwealError, match="step_count must be a whole number"):
            Trained(model={}, step_count=wrong)


def test_averaging_leaves_the_users_threads_as_they_were():
    import torch

    from commonweal.remote.messages.models import average

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        average([{"w": np.zeros(2)}], [1.0])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_statement_by_another_operator_is_doubted(desk):
    """The first operator is believed, and no other after it."""
    desk, toy = desk
    good = (toy.home("north") / "statements" / "round-0001.json").read_text()
    forged = json.loads(good)
    forged["document"]["balance"] = "999999"
    for content in (json.dumps(forged), "{}", "no JSON"):
        desk.answer("query.close", asked(toy, "query.close", statement=content))
        assert "DOUBTFUL STATEMENT" in (toy.home("north") / "log.txt").read_text().splitlines()[-1]
    desk.answer("query.close", asked(toy, "query.close", statement=good))
    assert "is signed by the operator" in (toy.home("north") / "log.txt").read_text().splitlines()[-1]
    for other in ("south",):
        theirs = (toy.home(other) / "statements" / "round-0001.json").read_text()
        desk.answer("query.close", asked(toy, "query.close", statement=theirs))
        assert "not of this member's" in (toy.home("north") / "log.txt").read_text().splitlines()[-1]


@pytest.mark.parametrize(
    ("brought", "message"),
    [
        ({"evaluate": lambda model, validation, context: np.full(3, 1.0)}, "one score from 0 to 1 for each of 12"),
        ({"evaluate": lambda model, validation, context: np.full(12, 7.0)}, "one score from 0 to 1"),
        ({"load": lambda number, member: UNEVEN}, "one row a sample"),
    ],
)
def test_functions_that_break_the_rules_are_refused_at_home(tmp_path, brought, message):
    toy = make_toy(tmp_path / "f", names=NAMES[:2], rounds=1)
    toy.node("north").app = client_app(**{"load": load, "train": train, "evaluate": evaluate, **brought})
    chronicle, _ = toy.coordinate()
    assert chronicle.rounds[0].record.absent == ("north",)
    assert message in (toy.home("north") / "log.txt").read_text()


@pytest.mark.parametrize("given", [[0.0, 1.0, 1.0], [0.0, 0.5, 1.0]])
def test_hits_travel_in_a_byte_each(given):
    scores = np.array(given)
    assert packed(scores).dtype == (np.uint8 if set(given) <= {0.0, 1.0} else np.float64)
    assert (packed(scores) == scores).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ('name = "north"', "must have key_file"),
        ('name = "n"\nkey_file = "k"\nhome = "h"\nunit_value = -1', "unit_value must be"),
        ('name = "n"\nkey_file = "k"\nhome = "h"\nunit_valu = 1', "did you mean 'unit_value'"),
        ('name = "n"\nkey_file = "k"\nhome = "h"\ntask = 3', "task must be a table"),
    ],
)
def test_a_bad_member_file_is_refused(tmp_path, text, message):
    path = tmp_path / "member.toml"
    path.write_text(text)
    with pytest.raises(CommonwealError, match=message):
        read_member(path)
