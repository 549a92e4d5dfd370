"""What the operator signed and showed a member counts: heads, changes of its key, and parts that cannot be kept yet."""

import json
import shutil
from contextlib import closing

import numpy as np
import pytest
from typer.testing import CliRunner

from commonweal.cli.main import app
from commonweal.errors import FederationError
from commonweal.ledger.canonical import canonical, hash_of
from commonweal.ledger.chain import key_rotations, rotation_message, signed_message
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.signed_files import signed_content
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.statement_parts import part_in
from commonweal.remote.member.kept_aside import MOST_DOUBTFUL
from commonweal.task.records import Task
from tests.first_few import first_few
from tests.remote import toy as toy_module
from tests.remote.hostile import VICTIM, findings, log, reports, resigned, run, state, with_fields
from tests.remote.test_restored_ledger import amend, back_up, rotate_key
from tests.remote.toy import make_toy, open_toy


class Killed(BaseException):
    pass


def in_round(number, kind, twist):
    """The twist of one question to the victim."""

    def twisted(toy, operator, asked, questions):
        question = questions.get(VICTIM)
        if question is not None and (question.fields.get("round"), asked) == (number, kind):
            return twist(toy, operator, question, questions)
        return None

    return twisted


def test_a_member_killed_before_it_adopts_a_statement_adopts_it_at_the_next_question(tmp_path, monkeypatch):
    signed = []

    def killed(toy, operator, question, questions):
        def kill(*asked):
            raise Killed

        model = state(toy).under_way.opening
        with monkeypatch.context() as patch:
            patch.setattr("commonweal.remote.member.evidence.adopt_stated", kill)
            with pytest.raises(Killed):
                operator.extra("query.close", question)
        assert (toy.home(VICTIM) / "statements" / "round-0002.json").exists()
        operator.extra("query.report", number=2, valuation=2, adopted=model, models=[model])
        signed.extend(reports(toy, 2))

    toy = run(tmp_path, in_round(2, "query.close", killed), rounds=2)
    assert [report["number"] for report in signed] == [1]
    assert state(toy).settled_round == 2


def test_the_first_measure_of_the_opening_model_counts(tmp_path, monkeypatch):
    def train(model, training, context):
        context.memory["shift"] = context.memory.get("shift", np.zeros(1)) + 0.1
        return toy_module.train(model, training, context)

    def evaluate(model, validation, context):
        x, y = validation
        shift = float(context.memory["shift"][0]) if "shift" in context.memory else 0.0
        return (np.abs(model["w"][0] * x + model["w"][1] + shift - y) < 0.25).astype(float)

    task = Task(load=toy_module.load, train=train, evaluate=evaluate, gradient=toy_module.gradient)
    monkeypatch.setattr(toy_module, "TASK", task)
    found = []

    def again(toy, operator, question, questions):
        before = state(toy).under_way
        opening = before.opening
        operator.extra("evaluate.coalitions", question, models=[opening], whole=[opening], parts=[])
        after = state(toy).under_way
        found.append((before.accuracies[opening], after.accuracies[opening]))
        found.append((before.measures[opening], after.measures[opening]))

    run(tmp_path, in_round(2, "evaluate.coalitions", again), rounds=2, mechanism='mu = "inf"\nfigures = "pooled"')
    assert found
    assert all(before == after for before, after in found)


def test_no_late_report_is_signed_before_a_statement_says_that_the_round_was_missed(tmp_path):
    answers = []

    def as_late(toy, operator, question, questions):
        answers.append(operator.extra("query.report", question, entry="ab" * 32))
        assert not reports(toy, 2)

    toy = run(tmp_path, in_round(2, "query.report", as_late), rounds=2)
    assert "no statement that is kept here" in answers[0].reason
    assert ["entry" in report for report in reports(toy, 2)] == [False]


@pytest.mark.parametrize(
    "told", [{"kind": "realisation", "text": "absent"}, {"kind": None, "round": None, "text": "absent"}]
)
def test_a_line_that_hides_which_round_it_is_about_is_doubted(tmp_path, told):
    def hidden(toy, operator, question, questions):
        def change(document):
            line, before = document["lines"][-1], document["before"]
            figures = ("profit", "contribution", "share", "payoff", "transfer")
            line.update(dict.fromkeys(figures), amount="0", accrued="0", **told)
            line.update(balance=before["balance"], accrued_balance=before["accrued"])
            part, _ = part_in(json.dumps({"document": document, "signer": "", "signature": ""}).encode(), "it")
            document["after"] = part.before.then(part.statement.lines).to_document()

        return {
            **questions,
            VICTIM: with_fields(question, statement=resigned(toy, question.fields["statement"], change)),
        }

    toy = run(tmp_path, in_round(2, "query.close", hidden), rounds=2)
    assert "DOUBTFUL STATEMENT in round-0002" in log(toy)
    assert any("doubts its statement" in line for line in toy.said)


@pytest.mark.parametrize("number", ["1e400", "NaN", "[]"])
def test_a_head_without_a_sound_number_is_doubted(tmp_path, number):
    def odd(toy, operator, question, questions):
        head = json.loads(question.fields["ledger_head"])
        head["document"]["head"]["number"] = "@"
        return {**questions, VICTIM: with_fields(question, ledger_head=json.dumps(head).replace('"@"', number))}

    toy = run(tmp_path, in_round(2, "query.open", odd), rounds=2)
    assert "DOUBTFUL HEAD of the ledger" in log(toy)
    assert state(toy).settled_round == 2


def another_head(number):
    def change(document):
        document["head"] = {"number": number, "hash": "dd" * 32}

    return change


def test_a_head_of_an_opening_is_compared_with_the_trail_that_closes_the_round(tmp_path):
    def forked(toy, operator, question, questions):
        head = resigned(toy, question.fields["ledger_head"], another_head(4))
        return {**questions, VICTIM: with_fields(question, ledger_head=head)}

    with pytest.raises(FederationError, match=f"{VICTIM} saw round 2 settled, and can prove it: .* another entry 4"):
        run(tmp_path, in_round(2, "query.open", forked))
    toy = open_toy(tmp_path / "f")
    assert "CONTRADICTION: the operator signed two different entries 4" in log(toy)
    assert any(b"dddddddd" in file.read_bytes() for file in toy.home(VICTIM).glob("operator-head*.json"))


def test_no_head_is_lost_when_a_later_one_comes_and_none_goes_back(tmp_path):
    answers = []

    def heads(toy, operator, question, questions):
        for number in (40, 50, 30):
            head = resigned(toy, question.fields["ledger_head"], another_head(number))
            answers.append(operator.extra("query.open", question, ledger_head=head, attempt=f"to {number}"))
        home = toy.home(VICTIM)
        kept = [home / "operator-head.json", *(home / "operator-heads").glob("*.json")]
        numbers = {json.loads(file.read_bytes())["document"]["head"]["number"] for file in kept}
        assert {30, 40, 50} <= numbers
        raise Killed

    with pytest.raises(Killed):
        run(tmp_path, in_round(2, "query.open", heads))
    assert ["saw_settled" in answer.fields for answer in answers] == [False, False, True]


def test_a_head_is_read_as_a_whole_or_not_at_all(tmp_path):
    """The first part of a text is not what is kept of it: the head could not be read again."""

    def padded(toy, operator, question, questions):
        for digest, tail in (("dd" * 32, " " * 1_000_000 + "x"), ("ee" * 32, "")):

            def change(document, digest=digest):
                document["head"] = {"number": 40, "hash": digest}

            head = resigned(toy, question.fields["ledger_head"], change)
            operator.extra("query.open", question, ledger_head=head + tail, attempt=digest[:8])
        raise Killed

    with pytest.raises(Killed):
        run(tmp_path, in_round(2, "query.open", padded))
    home = next(tmp_path.glob("**/north/home"))
    assert "DOUBTFUL HEAD of the ledger: it has 1000" in (home / "log.txt").read_text()
    assert json.loads((home / "operator-head.json").read_bytes())["document"]["head"]["hash"] == "ee" * 32


def test_a_head_that_cannot_be_read_any_more_is_kept_aside(tmp_path):
    def damaged(toy, operator, question, questions):
        (toy.home(VICTIM) / "operator-head.json").write_text("{ half of a he")
        head = resigned(toy, question.fields["ledger_head"], another_head(4))
        return {**questions, VICTIM: with_fields(question, ledger_head=head)}

    with pytest.raises(FederationError, match="can prove it"):  # when the round is closed
        run(tmp_path, in_round(2, "query.open", damaged))
    toy = open_toy(tmp_path / "f")
    (file,) = (toy.home(VICTIM) / "operator-heads").glob("unreadable-*")
    assert file.read_text() == "{ half of a he"
    assert f"operator-heads/{file.name}" in next(line for line in log(toy).splitlines() if "ERROR" in line)


@pytest.mark.parametrize("stage", ["query.open", "train.iteration"])
def test_a_restored_ledger_without_an_amendment_that_a_round_was_opened_on(tmp_path, stage):
    toy = make_toy(tmp_path / "f", rounds=3, mechanism="mu = 0.0\ngrace_rounds = 1", learning="iteration_limit = 2")
    amended = []

    def before(client, kind):
        number = toy.transport.sent[-1].message.fields.get("round")
        if (number, kind, client) == (1, "query.close", "west") and not amended:
            amended.append(True)
            back_up(toy)
            amend(toy, grace_rounds=5)
        if (number, kind, client) == (2, stage, "west"):
            raise Killed

    toy.transport.before_answer = before
    with pytest.raises(Killed):
        toy.coordinate()
    shutil.copy(toy.folder / "ledger.backup", toy.out / "ledger.db")
    toy.transport.before_answer = lambda client, kind: None
    with pytest.raises(FederationError, match=r"ledger .*is older than what was"):
        toy.coordinate()


@pytest.mark.parametrize("stage", ["query.open", "train.iteration"])
def test_a_restored_ledger_without_an_amendment_that_the_first_round_was_opened_on(tmp_path, stage):
    """No statement has come yet, and no receipt."""
    toy = make_toy(tmp_path / "f", rounds=3, mechanism="mu = 0.0\ngrace_rounds = 0", learning="iteration_limit = 2")

    def coordinate_until(kind):
        def before(client, asked):
            if (client, asked) == ("west", kind):
                raise Killed

        toy.transport.before_answer = before
        with pytest.raises(Killed):
            toy.coordinate()

    coordinate_until("query.open")  # the ledger is there
    back_up(toy)
    amend(toy, grace_rounds=5)
    coordinate_until(stage)
    shutil.copy(toy.folder / "ledger.backup", toy.out / "ledger.db")
    toy.transport.before_answer = lambda client, kind: None
    with pytest.raises(FederationError, match=r"The ledger .*is older than what was"):
        toy.coordinate()


def amend_otherwise(toy):
    amend(toy, quorum=0.5)


@pytest.mark.parametrize("others", first_few(1, [[rotate_key, amend_otherwise], [rotate_key], [amend_otherwise]]))
def test_a_restored_federation_that_went_on_with_other_entries(tmp_path, others):
    """Ledger and results folder are both from before an amendment that the members were shown."""
    toy = make_toy(tmp_path / "f", rounds=3, mechanism="mu = 0.0\ngrace_rounds = 1", learning="iteration_limit = 2")

    def coordinate_until(*stage):
        def before(client, kind):
            if (toy.transport.sent[-1].message.fields.get("round"), kind, client) == stage:
                raise Killed

        toy.transport.before_answer = before
        with pytest.raises(Killed):
            toy.coordinate()

    coordinate_until(2, "query.open", "north")
    shutil.copytree(toy.out, toy.folder / "backup")
    amend(toy, grace_rounds=5)
    coordinate_until(2, "train.iteration", "west")
    toy.out.rename(toy.folder / "newer")
    shutil.copytree(toy.folder / "backup", toy.out)
    for enter in others:
        enter(toy)
    toy.transport.before_answer = lambda client, kind: None
    with pytest.raises(FederationError, match=r"members refuse to go back to round 2|can prove it"):
        toy.coordinate()
    assert "which is not of the ledger that the operator showed here before" in log(toy)
    shutil.rmtree(toy.out)
    (toy.folder / "newer").rename(toy.out)
    toy.coordinate()
    assert state(toy).settled_round == 3, "with the newer folder it goes on"


@pytest.mark.parametrize("is_honest", [True, False])
def test_what_a_key_signs_that_a_head_replaced_is_doubted(tmp_path, is_honest):
    """It would prove nothing against the ledger, so it must not take the place of what does."""
    old = []

    def by_old(toy, text):
        document = {**json.loads(text)["document"], "key_rotations": []}
        return signed_content(document, KeyDirectory(toy.folder / "operator-keys").key_of(old[0])).decode()

    def twist(toy, operator, kind, questions):
        question = questions.get(VICTIM)
        if question is None or question.fields["round"] < 2:
            return None
        if not old:
            old.append(json.loads((toy.home(VICTIM) / "statements" / "round-0001.json").read_bytes())["signer"])
            rotate_key(toy)
        named = {"query.receipt": ["receipt"], "query.close": ["statement", "trail"]}.get(kind, [])
        if is_honest or not named:
            return None
        return {**questions, VICTIM: with_fields(question, **{n: by_old(toy, question.fields[n]) for n in named})}

    toy = run(tmp_path, twist, rounds=3)  # the head that opens round 3 is the first by the new key
    home, found = toy.home(VICTIM), log(toy)
    if is_honest:
        assert "DOUBTFUL" not in found
        return
    assert "round 3: DOUBTFUL RECEIPT" in found
    assert "DOUBTFUL STATEMENT in round-0003: it is signed with the key" in found
    heads = [home / "operator-head.json", *(home / "operator-heads").glob("*.json")]
    signers = {
        head["document"]["head"]["number"]: head["signer"] for head in [json.loads(file.read_bytes()) for file in heads]
    }
    assert signers[5] not in old, "a statement by the old key ends with the same entry"


def test_heads_are_compared_from_the_first_opening_on(tmp_path):
    def forked(toy, operator, question, questions):
        other = KeyDirectory(toy.folder / "other-keys").current()
        opened = operator.last("query.open")
        foreign = {**json.loads(opened.fields["ledger_head"])["document"], "book": "ab" * 32}
        shutil.move(toy.home(VICTIM) / "operator.pub.pem", toy.folder)
        operator.extra("query.open", ledger_head=signed_content(foreign, other).decode(), attempt="another ledger")
        assert not (toy.home(VICTIM) / "operator.pub.pem").exists(), "its signer is not the operator of this ledger"
        for digest in ("cd" * 32, "dd" * 32):

            def change(document, digest=digest):
                document["head"] = {"number": 4, "hash": digest}

            head = resigned(toy, opened.fields["ledger_head"], change)
            operator.extra("query.open", ledger_head=head, attempt=digest[:8])
        raise Killed

    with pytest.raises(Killed):
        run(tmp_path, in_round(1, "train.iteration", forked))
    told = next(tmp_path.glob("**/north/home/log.txt")).read_text()
    assert f"CONTRADICTION: the operator signed two different entries 4: {'cd' * 8}… in operator-head.json" in told


def test_a_change_of_the_operators_key_in_another_ledger_contradicts_the_trail(tmp_path):
    def rotated(toy, operator, question, questions):
        keys, fork = KeyDirectory(toy.folder / "operator-keys"), toy.folder / "fork.db"
        if not fork.exists():
            shutil.copy(toy.folder / "before.db", fork)
            with closing(open_store(str(fork))) as store:
                Ledger(store, keys).rotate_key()
        with closing(open_store(str(fork))) as store:
            rotations, key = list(key_rotations(store, "it")), keys.key_of(Ledger(store, keys).state.operator)
        document = json.loads(question.fields["trail"])["document"]
        trail = signed_content({**document, "key_rotations": rotations}, key).decode()
        return {**questions, VICTIM: with_fields(question, trail=trail)}

    def twist(toy, operator, kind, questions):
        if kind == "query.open" and not (toy.folder / "before.db").exists():
            shutil.copy(toy.out / "ledger.db", toy.folder / "before.db")
        return in_round(2, "query.close", rotated)(toy, operator, kind, questions)

    toy = run(tmp_path, twist, rounds=2)
    assert "CONTRADICTION: the operator signed two different entries" in log(toy)
    assert "a change of the operator's key in trails/doubtful/contradicting-" in log(toy)


def test_a_part_that_starts_after_a_gap_and_its_trail_are_kept_aside(tmp_path):
    def ahead(toy, operator, question, questions):
        def part(document):
            document["head"] = {"number": 9, "hash": "ee" * 32}
            document["before"]["count"] = 5
            for line in document["lines"]:
                line["entry"] = 9
            whole, _ = part_in(json.dumps({"document": document, "signer": "", "signature": ""}).encode(), "it")
            document["after"] = whole.before.then(whole.statement.lines).to_document()

        def trail(document):
            document.update(first=4, hashes=["dd" * 32] * 5 + ["ee" * 32])

        changed = {"statement": part, "trail": trail}
        fields = {name: resigned(toy, question.fields[name], change) for name, change in changed.items()}
        operator.extra("query.close", question, **fields)

    toy = run(tmp_path, in_round(2, "query.close", ahead), rounds=2)
    home = toy.home(VICTIM)
    assert len(list(home.glob("statements/doubtful/early-*.json"))) == 1
    assert len(list(home.glob("trails/doubtful/early-*.json"))) == 1
    told = [line.split(" ", 1)[1] for line in log(toy).splitlines() if "doubtful/early-" in line]
    assert [line.startswith("CONTRADICTION") for line in told[:3]] == [False, False, True]
    assert f"entries 4: {'dd' * 8}… in trails/doubtful/early-" in told[2], "the ledger has another entry 4"


def test_verify_finds_a_change_of_key_that_the_ledger_does_not_have(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=1)
    toy.coordinate()
    keys, fork, home = KeyDirectory(toy.folder / "operator-keys"), toy.folder / "fork.db", toy.home(VICTIM)
    shutil.copy(toy.out / "ledger.db", fork)
    with closing(open_store(str(fork))) as store:
        Ledger(store, keys).rotate_key()
        rotations, key = list(key_rotations(store, "it")), keys.key_of(Ledger(store, keys).state.operator)
    for option, name in (("--against", "statements/round-0001.json"), ("--receipt", "receipts/round-0001-1.json")):
        document = json.loads((home / name).read_bytes())["document"]
        forged = toy.folder / "forged.json"
        forged.write_bytes(signed_content({**document, "key_rotations": rotations}, key))
        for file, code in ((home / name, 0), (forged, 1)):
            found = CliRunner().invoke(app, ["ledger", "verify", str(toy.out / "ledger.db"), option, str(file)])
            assert found.exit_code == code, found.output
        assert "change of key" in " ".join(found.output.split())


def test_an_earlier_report_under_terms_that_the_ledger_never_stated_does_not_count(tmp_path):
    def opened_on_other_terms(toy, operator, question, questions):
        (model,) = question.fields["models"]
        fields = {"round": 2, "attempt": "f" * 16, "models": [model]}
        operator.extra("query.open", question, terms="ab" * 32, **fields)
        operator.extra("query.report", number=1, valuation=1, adopted=model, **fields)

    toy = run(tmp_path, in_round(2, "query.open", opened_on_other_terms), rounds=2)
    assert [report["terms"][:4] == "abab" for report in reports(toy, 2)] == [True, False]
    assert any("earlier reports name terms that the ledger has stated" in line for line in toy.said)
    assert toy.run_report.rounds[1].record.absent == (VICTIM,)
    assert not findings(toy)


@pytest.mark.parametrize("is_early", [False, True])
def test_a_statement_in_the_place_of_a_head_is_doubted_and_kept(tmp_path, is_early):
    """It ends with the same entry as the statement of its round, and says something else."""
    told = []

    def change(document):
        document["lines"][-1]["text"] = "round 1: eliminated"

    def closed(toy, operator, question, questions):
        told.append(resigned(toy, question.fields["statement"], change))
        operator.extra("query.receipt", number=1, ledger_head=told[0])

    def opened(toy, operator, question, questions):
        told.append(resigned(toy, operator.last("query.close", 1).fields["statement"], change))
        return {**questions, VICTIM: with_fields(question, ledger_head=told[0])}

    twist = in_round(1, "query.close", closed) if is_early else in_round(2, "query.open", opened)
    toy = run(tmp_path, twist)
    assert "DOUBTFUL HEAD of the ledger: it is a statement, which is no head (trails/doubtful/doubtful-" in log(toy)
    assert told[0] in [file.read_text() for file in (toy.home(VICTIM) / "trails" / "doubtful").iterdir()]
    assert [completed.record.absent for completed in toy.run_report.rounds] == [(), (), ()]


def test_a_statement_that_was_kept_in_the_place_of_a_head_is_not_overwritten(tmp_path):
    """Earlier versions kept it there."""
    kept = []

    def closed(toy, operator, question, questions):
        kept.append(question.fields["statement"])
        (toy.home(VICTIM) / "operator-head.json").write_text(kept[0])

    def rotated(toy, operator, question, questions):
        rotate_key(toy)

    def twist(toy, *asked):
        in_round(1, "query.close", closed)(toy, *asked)
        in_round(2, "query.close", rotated)(toy, *asked)

    toy = run(tmp_path, twist)
    assert kept[0] in [file.read_text() for file in (toy.home(VICTIM) / "operator-heads").iterdir()]


def test_changes_of_the_operators_key_are_logged_and_two_successors_contradict(tmp_path):
    """The room for files that name them is limited: what finds none leaves a line in the log."""

    def change(old, book, number):
        new = SigningKey.new()
        body = {"operator": new.public, "proof": new.sign(rotation_message(book, new.public))}
        content = canonical({"kind": "key-rotation", "number": number, "body": body}).decode()
        return {"content": content, "signature": old.sign(signed_message(hash_of(content.encode())))}

    told = []

    def opened(toy, operator, question, questions):
        trail = json.loads(operator.last("query.close", 1).fields["trail"])
        key = KeyDirectory(toy.folder / "operator-keys").key_of(trail["signer"])
        for number in range(MOST_DOUBTFUL + 1):
            changes = [change(key, question.fields["book"], 1000 + number)]
            told.append(signed_content({**trail["document"], "key_rotations": changes}, key).decode())
            operator.extra("train.iteration", number=1, trail=told[-1])

    toy = run(tmp_path, in_round(2, "query.open", opened), rounds=2)
    kept = [file.read_text() for file in (toy.home(VICTIM) / "trails" / "doubtful").iterdir()]
    assert told[0] in kept
    assert "the operator's key is said to be changed by entry 1000, in trails/doubtful/key-change-" in log(toy)
    assert "CONTRADICTION: the operator signed two different changes of its key" in log(toy)
    digest = hash_of(told[-1].encode())
    assert told[-1] in kept or f"not kept, SHA-256 {digest}" in log(toy)
