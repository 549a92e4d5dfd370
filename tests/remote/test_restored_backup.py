"""A coordinator that was restored from an older backup is stopped by what its members saw settled."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from commonweal.errors import FederationError
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.signed_files import known_head_in, signed_content
from commonweal.ledger.sql.store import open_store
from commonweal.remote.member.going_back import newest_proof
from commonweal.remote.member.store import MemberStore
from commonweal.remote.messages.answer_limit import LARGEST_PROOF, LARGEST_TEXT
from commonweal.remote.messages.message import Message
from tests.first_few import first_few
from tests.remote.test_faults import signed_again
from tests.remote.toy import INITIAL, NAMES, TASK, load, make_toy, open_toy, settled

ROUNDS = 4
RULES = {"rounds": ROUNDS, "mechanism": "mu = 0.01\ngrace_rounds = 1", "learning": "iteration_limit = 2"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A federation after its four rounds, with the results folder as it was after round 1, and after round 2."""
    folder = tmp_path_factory.mktemp("finished") / "f"
    toy = make_toy(folder, **RULES)
    kept = set()

    def before_answer(client, kind):
        number = toy.transport.sent[-1].message.fields["round"]
        if kind == "query.open" and number in (2, 3) and number not in kept:
            kept.add(number)
            shutil.copytree(toy.out, folder / f"after-{number - 1}")

    toy.transport.before_answer = before_answer
    toy.coordinate()
    assert sorted(settled(toy.out)) == [1, 2, 3, 4]
    return folder


@pytest.fixture
def restored(finished, tmp_path):
    """Everything as after round 4, but the results folder, with its ledger, as after round 1."""
    shutil.copytree(finished, tmp_path / "f")
    put_back(tmp_path / "f", "after-1")
    return open_toy(tmp_path / "f")


def put_back(folder, backup):
    (folder / "out").rename(folder / "newer")
    shutil.copytree(folder / backup, folder / "out")


def test_the_federation_stops_and_says_what_happened(restored):
    before = {name: (restored.home(name) / "state.json").read_bytes() for name in NAMES}
    with pytest.raises(FederationError) as stopped:
        restored.coordinate()
    said = str(stopped.value)
    assert "older than what was settled" in said
    assert "saw round 4 settled" in said
    assert "up to entry 6, but the ledger ends with entry 3" in said, "opening, admission and rounds"
    assert "put back the newer ledger and results folder, as they were after round 4" in said
    assert "new ledger, another results folder and new member folders" in said
    assert sorted(settled(restored.out)) == [1], "nothing was settled, and nobody eliminated"
    for name in NAMES:
        assert (restored.home(name) / "state.json").read_bytes() == before[name]


def test_it_says_which_rounds_it_settled_before_a_witness_came_back(restored):
    """Only one member knows better, and it is away while round 2 is settled again."""
    for name in NAMES[1:]:
        shutil.rmtree(restored.home(name))
    locate = restored.transport.locate

    def away_at_first(clients, **options):
        closed = [sent.message.fields for sent in restored.transport.sent if sent.kind == "query.close"]
        is_closed = any(fields.get("round") == 2 for fields in closed)
        return locate(clients, **options) - (set() if is_closed else {NAMES[0]})

    restored.transport.locate = away_at_first
    with pytest.raises(
        FederationError, match="this run settled round 2 again: what it wrote does not count"
    ) as stopped:
        restored.coordinate()
    assert "Nothing was settled now" not in str(stopped.value)
    assert sorted(settled(restored.out)) == [1, 2]


def test_the_member_says_so_in_its_log(restored):
    with pytest.raises(FederationError):
        restored.coordinate()
    assert "ERROR refused to go back to round 1: round 4 was settled here before" in "".join(
        (restored.home(name) / "log.txt").read_text() for name in NAMES
    )


def test_with_the_newer_folder_it_goes_on(restored):
    with pytest.raises(FederationError):
        restored.coordinate()
    shutil.rmtree(restored.out)
    (restored.folder / "newer").rename(restored.out)
    run_report, _ = restored.coordinate()
    assert len(run_report.rounds) == ROUNDS


def test_a_key_that_the_operator_changed_since_the_backup_proves_it_too(finished, tmp_path):
    """The statement names the change of the key, which the restored ledger does not have."""
    shutil.copytree(finished, tmp_path / "f")
    toy = open_toy(tmp_path / "f")
    store = open_store(str(toy.out / "ledger.db"))
    Ledger(store, KeyDirectory(toy.folder / "operator-keys")).rotate_key()
    store.close()
    toy.coordinate()  # sends the last statements again, under the new key
    put_back(toy.folder, "after-2")
    with pytest.raises(FederationError, match="saw round 4 settled, and can prove it: the operator signed a statement"):
        toy.coordinate()


def test_a_ledger_that_went_another_way_is_found_too(restored):
    """The backup went on with members who had lost their folders, so it has as many entries as the newer ledger."""
    away = {name: restored.home(name).rename(restored.folder / f"{name}-home") for name in NAMES}
    for name in NAMES:
        restored.home(name).mkdir()
    restored.coordinate()
    assert sorted(settled(restored.out)) == [1, 2, 3, 4]
    for name in NAMES:
        shutil.rmtree(restored.home(name))
        away[name].rename(restored.home(name))
    kept = {name: statements(restored, name) for name in NAMES}
    with pytest.raises(FederationError, match="with another entry 6 than the ledger has"):
        restored.coordinate()
    assert {name: statements(restored, name) for name in NAMES} == kept
    aside = [file for name in NAMES for file in restored.home(name).glob("statements/doubtful/*.json")]
    assert aside, "the other statement is evidence, too"


def statements(toy, name):
    return {file.name: file.read_bytes() for file in toy.home(name).glob("statements/round-*.json")}


def test_without_proof_members_are_absent_and_nobody_is_eliminated(restored):
    for name in NAMES:
        shutil.rmtree(restored.home(name) / "statements")
        (restored.home(name) / "operator-head.json").unlink(missing_ok=True)
    with pytest.raises(FederationError, match="4 of 4 members refuse to go back to round 2: east, north, south, west"):
        restored.coordinate()
    assert sorted(settled(restored.out)) == [1]


def test_a_forged_proof_stops_nobody_else(tmp_path):
    """A member that claims to have seen more is absent; only the operator can sign that there was more."""
    toy = make_toy(tmp_path / "f", rounds=2, mechanism='mu = "inf"', learning="iteration_limit = 1")
    liar = "east"

    def twist(kind, question, answer):
        if kind != "query.open" or question.fields["round"] != 2:
            return answer
        statement = json.loads((toy.home(liar) / "statements" / "round-0001.json").read_text())
        statement["document"]["head"]["number"] += 3
        fields = {"saw_settled": 4, "proof": json.dumps(statement)}
        return signed_again(toy, kind, question, Message(fields=fields), signer=liar)

    toy.member(liar).twist = twist
    run_report, said = toy.coordinate()
    assert [each.record.absent for each in run_report.rounds] == [(), (liar,)]
    assert any("east missed round 2: it says that round 4 was settled there" in line for line in said)


@pytest.mark.parametrize("fields", [{"saw_settled": "4", "proof": 5}, {"saw_settled": None}, {"saw_settled": 10**30}])
def test_a_refusal_in_any_form_makes_just_that_member_absent(tmp_path, fields):
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:3], learning="iteration_limit = 1")
    toy.member("east").twist = lambda kind, question, answer: (
        signed_again(toy, kind, question, Message(fields=fields), signer="east") if kind == "query.open" else answer
    )
    run_report, _ = toy.coordinate()
    assert run_report.rounds[0].record.absent == ("east",)


def test_an_older_checkpoint_with_the_current_ledger_is_refused_before_anybody_is_asked(restored):
    shutil.copy(restored.folder / "newer" / "ledger.db", restored.out / "ledger.db")
    with pytest.raises(FederationError, match="Round 2 is settled in the ledger, but the checkpoint has only 1 round"):
        restored.coordinate()
    assert not restored.transport.sent


AWAY = "west"


@pytest.fixture
def undelivered(tmp_path):
    """Round 3's statements never came, and at the opening of round 4 the members learned that it was settled.

    One member was away since round 3. Then the results folder was put back to what it was after round 2.
    """

    class Killed(BaseException):
        pass

    toy = make_toy(tmp_path / "f", rounds=5, mechanism='mu = "inf"', learning="iteration_limit = 1")
    ask = toy.transport.ask

    def until_round_4(kind, questions, *, seconds):
        number = next(iter(questions.values())).fields["round"]
        toy.member(AWAY).is_connected = number < 3
        if (kind, number) == ("query.open", 3) and not (toy.folder / "after-2").exists():
            shutil.copytree(toy.out, toy.folder / "after-2")
        if (kind, number) == ("query.close", 3):
            questions = {}
        if (kind, number) == ("query.report", 4):
            raise Killed
        return ask(kind, questions, seconds=seconds)

    toy.transport.ask = until_round_4
    with pytest.raises(Killed):
        toy.coordinate()
    toy.transport.ask = ask
    toy.member(AWAY).is_connected = True
    put_back(toy.folder, "after-2")
    return toy


def test_members_that_learned_of_a_round_when_the_next_was_opened_can_prove_it(undelivered):
    with pytest.raises(
        FederationError, match=r"saw round 3 settled, and can prove it: .* up to entry 5, but the ledger"
    ):
        undelivered.coordinate()
    assert sorted(settled(undelivered.out)) == [1, 2]


def test_the_coordinator_does_not_go_on_with_the_few_who_follow(undelivered):
    for name in NAMES:
        (undelivered.home(name) / "operator-head.json").unlink(missing_ok=True)
    with pytest.raises(FederationError, match="3 of 4 members refuse to go back to round 3: east, north, south"):
        undelivered.coordinate()
    assert sorted(settled(undelivered.out)) == [1, 2]


def test_what_a_replaced_key_signs_later_is_no_proof(tmp_path):
    """Whoever has a key that the operator has replaced does not stop the federation with it."""
    toy = make_toy(tmp_path / "f", rounds=2, mechanism='mu = "inf"', learning="iteration_limit = 1")
    keys, retired = KeyDirectory(toy.folder / "operator-keys"), []

    def twist(kind, question, answer):
        if kind == "query.close" and not retired:
            store = open_store(str(toy.out / "ledger.db"))
            retired.append(keys.current())
            Ledger(store, keys).rotate_key()
            store.close()
        if kind != "query.open" or question.fields["round"] != 2:
            return answer
        document = {
            "format": "commonweal.head/1",
            "book": question.fields["book"],
            "name": "toy",
            "at": "2026-01-01T00:00:00Z",
            "head": {"number": 999, "hash": "0" * 64},
            "key_rotations": [],
        }
        proof = signed_content(document, retired[0]).decode()
        return signed_again(toy, kind, question, Message(fields={"saw_settled": 9, "proof": proof}), signer="east")

    toy.member("east").twist = twist
    run_report, _ = toy.coordinate()
    assert [each.record.absent for each in run_report.rounds] == [(), ("east",)]


def test_a_proof_fits_into_an_answer(restored):
    """Of a statement that would be refused for its size, nothing would be left."""
    home = restored.home("north")
    (latest,) = home.glob("statements/round-0004*.json")
    latest.write_bytes(latest.read_bytes() + b" " * LARGEST_PROOF)
    assert known_head_in(newest_proof(MemberStore(home)).encode(), "it").number == 5
    assert LARGEST_PROOF < LARGEST_TEXT


def test_a_task_that_agrees_on_summaries_is_stopped_before_round_1_is_run_again(tmp_path):
    """The statement of round 1 reached one member, whose summary is missing now, so that `agreed` would be another."""

    class Killed(BaseException):
        pass

    def summarise(member):
        return {"row_count": 28, "sum": float(load(1, member).training[1].sum())}

    task = replace(
        TASK, summarise=summarise, agree=lambda summaries: {"of": sorted(summaries)}, initial_model=lambda plan: INITIAL
    )
    toy = make_toy(tmp_path / "f", rounds=2, names=NAMES[:3], mechanism='mu = "inf"', learning="iteration_limit = 1")
    for name in toy.names:
        toy.member(name).task = task

    def before_answer(client, kind):
        if kind == "query.open" and not (toy.folder / "before").exists():
            shutil.copytree(toy.out, toy.folder / "before")
        if (client, kind) == ("south", "query.close"):
            raise Killed

    toy.transport.before_answer = before_answer
    with pytest.raises(Killed):
        toy.coordinate(task)
    toy.transport.before_answer = lambda client, kind: None
    put_back(toy.folder, "before")
    with pytest.raises(FederationError, match="north saw round 1 settled, and can prove it"):
        toy.coordinate(task)
    question = next(s.message for s in toy.transport.sent if (s.client, s.kind) == ("north", "query.open"))
    odd = Message(fields={**question.fields, "agreed": '{"of": []}', "seed": 2}, groups=question.groups)
    assert json.loads(toy.member("north").answer("query.open", odd).fields["proof"]), "whatever else has changed"


def test_what_contradicts_the_ledger_of_a_question_proves_it(restored):
    """The newest file that a member keeps may be of the same other ledger as the question."""
    home = restored.home("north")
    newest = known_head_in(newest_proof(MemberStore(home)).encode(), "it")
    came = {newest.number: newest.head, newest.number - 1: "ab" * 32}
    assert known_head_in(newest_proof(MemberStore(home), came).encode(), "it").number == newest.number - 1


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_witness_that_comes_back_proves_it_by_the_statement_of_the_round(tmp_path, is_lost):
    """By then the restored ledger has more entries than the witness saw, and its last entry came with the question.

    If the first refusal is lost, the witness also keeps the head that came with it.
    """
    toy = make_toy(tmp_path / "f", **{**RULES, "rounds": 5, "names": NAMES[:3]})
    witness, backup = NAMES[0], toy.folder / "after-1"

    class Killed(BaseException):
        """The coordinator, when the statement of round 2 has reached the witness, and nobody else."""

    def before_answer(client, kind):
        number = toy.transport.sent[-1].message.fields["round"]
        if (number, kind) == (2, "query.open") and not backup.exists():
            shutil.copytree(toy.out, backup)
        if (number, kind) == (2, "query.close") and client != witness:
            raise Killed

    toy.transport.before_answer = before_answer
    with pytest.raises(Killed):
        toy.coordinate()
    put_back(toy.folder, "after-1")
    toy.transport.sent.clear()
    toy.transport.before_answer = lambda client, kind: None
    locate, answer, lost = toy.transport.locate, toy.member(witness).answer, []

    def away_at_first(clients, **options):
        asked = [sent.message.fields["round"] for sent in toy.transport.sent if sent.to_member]
        return locate(clients, **options) - (set() if max(asked, default=0) >= 3 else {witness})

    def lost_at_first(kind, question):
        given = answer(kind, question)
        if is_lost and not lost:
            lost.append(given)
            raise ConnectionError
        return given

    toy.transport.locate, toy.member(witness).answer = away_at_first, lost_at_first
    with pytest.raises(FederationError, match=r"saw round 2 settled, and can prove it.* with another entry 4 than"):
        toy.coordinate()


@pytest.fixture
def run_twice(tmp_path):
    """Round 2 was run twice by all members. Training is deterministic, so both reports have the same profit."""
    toy = settled_and_run_again(tmp_path)
    for name in NAMES:
        first, second = (report["report"] for report in reports_of(toy, name))
        assert first["profit"] == second["profit"]
        assert first["attempt"] != second["attempt"]
    return toy


def settled_and_run_again(tmp_path, without=None):
    """Round 2 was settled, and nobody was told: the coordinator's machine broke down.

    An older backup ran round 2 again until its members had reported it, all or all but one, and then the newer folder
    was put back.
    """

    class Killed(BaseException):
        """The coordinator."""

    toy, died_at = make_toy(tmp_path / "f", **{**RULES, "mechanism": 'mu = "inf"'}), ["query.close"]

    def before_answer(client, kind):
        number = toy.transport.sent[-1].message.fields["round"]
        if (number, kind) == (2, "query.open") and not (toy.folder / "after-1").exists():
            shutil.copytree(toy.out, toy.folder / "after-1")
        if (number, kind) == (2, died_at[0]):
            raise Killed

    toy.transport.before_answer = before_answer
    with pytest.raises(Killed):
        toy.coordinate()
    put_back(toy.folder, "after-1")
    died_at[0] = "query.receipt"
    for name in NAMES:
        toy.member(name).is_connected = name != without
    with pytest.raises(Killed):
        toy.coordinate()
    for name in NAMES:
        toy.member(name).is_connected = True
    toy.transport.before_answer = lambda client, kind: None
    shutil.rmtree(toy.out)
    (toy.folder / "newer").rename(toy.out)
    return toy


def reports_of(toy, name, number=2):
    return json.loads((toy.home(name) / "reports" / f"round-{number:04d}.json").read_text())["reports"]


def test_a_round_that_was_reported_twice_with_one_profit_was_settled_by_the_attempt_that_the_ledger_has(run_twice):
    run_report, _ = run_twice.coordinate()
    assert len(run_report.rounds) == ROUNDS
    assert all(each.record.absent == () for each in run_report.rounds)
    assert sorted(settled(run_twice.out)) == [1, 2, 3, 4]
    for name in NAMES:
        said = (run_twice.home(name) / "log.txt").read_text()
        assert "round 2 was settled by another of the attempts that were reported here with the same profit" in said
        assert "refused to go back" not in said


def test_a_member_that_misses_the_statement_of_such_a_round_goes_on_too(run_twice):
    west, locate = run_twice.member(AWAY), run_twice.transport.locate
    west.is_connected = False

    def late(clients, *, seconds=0.0):
        west.is_connected |= bool(seconds)  # it joins while the coordinator waits for members
        return locate(clients, seconds=seconds)

    run_twice.transport.locate = late
    run_report, _ = run_twice.coordinate()
    assert all(each.record.absent == () for each in run_report.rounds)
    (first, _), (third,) = reports_of(run_twice, AWAY), reports_of(run_twice, AWAY, 3)
    assert third["report"]["baseline"] == first["report"]["measured"]
    assert "round 2 was settled by another of the attempts" in (run_twice.home(AWAY) / "log.txt").read_text()


@pytest.mark.parametrize("back_in", first_few(1, [4, 3]))
def test_a_member_that_reported_such_a_round_with_two_profits_gets_its_statement_when_it_is_back(tmp_path, back_in):
    toy = settled_and_run_again(tmp_path, without=next(name for name in NAMES if name != AWAY))
    first, second = (each["report"] for each in reports_of(toy, AWAY))
    assert first["profit"] != second["profit"]
    assert first["measured"] != second["measured"]
    west, locate = toy.member(AWAY), toy.transport.locate
    west.is_connected = False

    def late(clients, *, seconds=0.0):
        west.is_connected |= bool(seconds) if back_in == 3 else 3 in settled(toy.out)
        return locate(clients, seconds=seconds)

    toy.transport.locate = late
    run_report, _ = toy.coordinate()
    absent = {each.record.round_number for each in run_report.rounds if each.record.absent}
    assert absent == set(range(3, back_in))
    (report,) = reports_of(toy, AWAY, back_in)
    assert report["report"]["baseline"] == first["measured"], "of the attempt that its statement is about"
    closed = [
        each.message.fields["round"]
        for each in toy.transport.sent
        if each.to_member and each.client == AWAY and each.kind == "query.close"
    ]
    assert closed.count(2) == 1, "and it is told that once"


def test_an_attempt_with_another_profit_than_the_statement_says_is_still_refused(run_twice):
    """Whichever attempt it names: one that was never reported here, or was with another profit."""
    run_twice.coordinate()
    sent = [each for each in run_twice.transport.sent if each.to_member and each.client == AWAY]
    fields = [each.message.fields for each in sent if each.kind == "query.close"][-1]
    (report,) = reports_of(run_twice, AWAY, ROUNDS)
    assert report["report"]["attempt"].startswith(fields["settled_attempt"])

    def answer(**settled):
        return run_twice.member(AWAY).answer("query.close", Message(fields={**fields, **settled})).fields

    assert answer(settled_attempt="never-reported")["saw_settled"] == ROUNDS
    store = MemberStore(run_twice.home(AWAY))
    after = store.load()
    after.settled_attempt, after.settled_profit = "another", report["report"]["profit"] + 1
    store.save(after)
    assert answer()["saw_settled"] == ROUNDS
    assert store.load().settled_attempt == "another"
