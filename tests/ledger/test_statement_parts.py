"""Parts of a statement together are the statement; what is changed in one is found by its hash or by the ledger."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace

import pytest
import rfc8785
from typer.testing import CliRunner

from commonweal.cli.main import app
from commonweal.errors import CommonwealError
from commonweal.ledger.keys import public_pem
from commonweal.ledger.signed_files import read_known_head, signed_content
from commonweal.ledger.statement_parts import (
    LinesSoFar,
    MemberLines,
    StatementPart,
    faults_of_part,
    part_document,
    part_in,
    read_part,
)
from commonweal.ledger.statements import make_statement, signed_statement
from commonweal.ledger.verification.kept_statements import statement_contradictions
from tests.ledger.sample_ledger import make_sample, parsed

AT = "2026-03-01T00:00:00.000000Z"
CLIENTS = ("ann", "bob", "cyd", "dan")


@pytest.fixture(scope="module", params=["transfers", "accruals"])
def sample(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledger")
    made = make_sample(str(folder / "ledger.db"), folder / "keys", request.param)
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def lines(sample):
    found = MemberLines(sample.store)
    found.catch_up()
    return found


NOT_HASHED = ("text", "kind", "round_number")


def running_hash(lines):
    """Written down a second time, from the description in docs/reference/ledger.md."""
    digest = "0" * 64
    for line in lines:
        given = {name: value for name, value in asdict(line).items() if name not in NOT_HASHED}
        given = {name: value for name, value in given.items() if value is not None or not name.endswith("_gain")}
        given |= {name: str(given[name]) for name in ("amount", "accrued", "balance", "accrued_balance")}
        digest = hashlib.sha256(rfc8785.dumps({"previous": digest, "line": given})).hexdigest()
    return digest


def test_every_part_agrees_with_the_statement_at_every_entry(sample):
    """The statement that reads the whole ledger each time is the slow, obvious version."""
    followed = MemberLines(sample.store)
    for last in range(1, sample.ledger.state.number + 1):
        followed.catch_up(last=last)
        assert followed.state.number == last
        for client in CLIENTS:
            if client not in followed.state.members:
                with pytest.raises(CommonwealError, match="has no statement"):
                    followed.part(client, since=0, at=AT)
                continue
            whole = make_statement(sample.store, client, at=AT, last=last)
            for since in range(len(whole.lines) + 1):
                part = followed.part(client, since=since, at=AT)
                assert part.statement == replace(whole, lines=whole.lines[since:])
                assert (part.before.count, part.after.count) == (since, len(whole.lines))
                assert part.before.hash == running_hash(whole.lines[:since])
                assert part.after.hash == running_hash(whole.lines)
                assert (part.after.balance, part.after.accrued) == (whole.balance, whole.accrued)


def test_every_entry_is_read_once(sample):
    read = []

    class Watched:
        def reading(self):
            return self

        def __enter__(self):
            self.inner = sample.store.reading()
            self.snapshot = self.inner.__enter__()
            return self

        def __exit__(self, *error):
            return self.inner.__exit__(*error)

        def entries(self, *, after=0):
            for entry in self.snapshot.entries(after=after):
                read.append(entry.number)
                yield entry

    followed = MemberLines(Watched())
    for _ in range(3):
        followed.catch_up()
    for client in CLIENTS:
        followed.part(client, since=1, at=AT)
    assert read == list(range(1, sample.ledger.state.number + 1))


def test_a_part_for_more_lines_than_there_are_has_all_of_them(lines):
    for since in (-1, 1000):
        part = lines.part("ann", since=since, at=AT)
        assert part.before == LinesSoFar()
        assert len(part.statement.lines) == part.after.count > 1


@pytest.fixture
def file(sample, lines, tmp_path):
    path = tmp_path / "part.json"
    path.write_bytes(lines.signed_part("ann", sample.operator, since=2, at=AT))
    return path


def test_a_file_gives_back_the_part(sample, lines, file):
    part, signed = read_part(file)
    assert part == lines.part("ann", since=2, at=AT)
    for key in (sample.operator.public, parsed(sample.entries()[0])["body"]["operator"]):
        assert faults_of_part(part, signed, key) == []
    assert read_known_head(file).head == sample.ledger.state.head


def test_a_whole_statement_is_a_part_too(sample):
    part, signed = part_in(signed_statement(sample.store, "ann", sample.keys, at=AT), "ann.json")
    assert part.before == LinesSoFar()
    assert faults_of_part(part, signed, sample.operator.public) == []
    assert statement_contradictions(sample.store, [("ann.json", part)]) == []


def first_line(**changes):
    def edit(document):
        document["lines"][0] |= changes

    return edit


def so_far(name, **changes):
    def edit(document):
        document[name] |= changes

    return edit


def without_its_last_line(document):
    del document["lines"][-1]


UNSIGNED_CHANGES = {
    "a figure": first_line(profit=0.5),
    "a time": first_line(at="2026-01-01T00:00:00.000000Z"),
    "an entry": first_line(entry=2),
    "an amount": first_line(amount="1"),
    "the number of lines before": so_far("before", count=1),
    "the hash before": so_far("before", hash="ab" * 32),
    "the balance before": so_far("before", balance="7"),
    "the number of lines": so_far("after", count=99),
    "the hash": so_far("after", hash="ab" * 32),
    "the balance": so_far("after", balance="7"),
    "what accrued": so_far("after", accrued="7"),
    "a missing line": without_its_last_line,
}


@pytest.mark.parametrize("name", UNSIGNED_CHANGES)
def test_a_part_that_the_operator_signed_but_that_does_not_follow_is_found(sample, file, tmp_path, name):
    document = json.loads(file.read_text())["document"]
    UNSIGNED_CHANGES[name](document)
    part, signed = part_in(signed_content(document, sample.operator), "part.json")
    assert signed.is_sound
    assert faults_of_part(part, signed, sample.operator.public)


def test_a_text_is_for_people_and_not_hashed(sample, lines):
    """Versions word it differently."""
    part = lines.part("ann", since=0, at=AT)
    worded = tuple(replace(line, text="in other words") for line in part.statement.lines)
    assert LinesSoFar().then(worded) == part.after


def consistent(lines, change):
    """A part by an operator that lies consistently: lines are changed, and hashes and sums follow from them."""
    part = lines.part("ann", since=0, at=AT)
    told = [change(line) for line in part.statement.lines]
    before = LinesSoFar().then(told[:2])
    statement = replace(part.statement, lines=tuple(told[2:]))
    return StatementPart(statement=statement, before=before, after=before.then(told[2:]))


@pytest.mark.parametrize("entry", [2, 3, 4])
def test_a_consistent_lie_is_found_by_the_ledger(sample, lines, entry):
    """In a line of the part itself, or in one before it."""

    def change(line):
        return replace(line, at="2020-01-01T00:00:00.000000Z") if line.entry == entry else line

    part = consistent(lines, change)
    document = json.loads(json.dumps(part_document(part, [])))
    signed = signed_content(document, sample.operator)
    assert faults_of_part(*part_in(signed, "x"), sample.operator.public) == []
    found = statement_contradictions(sample.store, [("true", lines.part("bob", since=1, at=AT)), ("lie", part)])
    assert found
    assert all(finding.rule.startswith("lie agrees with the ledger") for finding in found)


def test_the_commands_take_parts(sample, lines, file, tmp_path):
    key = tmp_path / "operator.pub.pem"
    key.write_bytes(public_pem(sample.operator.public))
    shown = CliRunner().invoke(app, ["verify-statement", str(file), "--key", str(key)])
    assert shown.exit_code == 0, shown.output
    assert "Lines 1 to 2 are in earlier statements" in shown.output
    assert "sound: signed by the operator" in shown.output
    ledger = sample.store.engine.url.database
    agreed = CliRunner().invoke(app, ["ledger", "verify", ledger, "--against", str(file)])
    assert agreed.exit_code == 0, agreed.output
    lie = consistent(lines, lambda line: replace(line, at="2020-01-01T00:00:00.000000Z"))
    file.write_bytes(signed_content(part_document(lie, []), sample.operator))
    found = CliRunner().invoke(app, ["ledger", "verify", ledger, "--against", str(file)])
    assert found.exit_code == 1
    assert "part.json agrees with the ledger: the first 2 lines" in found.output


@pytest.mark.parametrize("name", ["before", "after", "lines", "head", "worth", "key_rotations", "book"])
@pytest.mark.parametrize("value", [None, "x\x1b", [3], {"count": -1, "hash": "x"}, {"count": True, "hash": ""}])
def test_a_damaged_part_is_refused_in_one_sentence(file, name, value):
    whole = json.loads(file.read_text())
    whole["document"][name] = value
    file.write_text(json.dumps(whole))
    with pytest.raises(CommonwealError, match=r"incomplete or damaged\. Use the file exactly as the operator sent it"):
        read_part(file)
