"""An operator that shows one ledger to some members and another to the rest is found in the next round."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from commonweal.errors import FederationError
from commonweal.federation.settlement import FederationLedger
from commonweal.ledger.entries import Draft
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.seen_heads import SeenHead
from commonweal.remote.coordinator.federation_file import read_federation
from tests.ledger.sample_ledger import enter_by_force
from tests.remote.hostile import resigned
from tests.remote.memory_transport import MemoryTransport
from tests.remote.toy import NAMES, make_toy

RULES = {"learning": "iteration_limit = 1", "mechanism": 'mu = "inf"'}
DECEIVED = "west"


@dataclass
class TwoFacedOperator(MemoryTransport):
    """From round 2 on, one member is told of a second ledger, which began as a copy of the first."""

    folder: Path = Path()
    extra: int = 1  # entries that only the second ledger has
    withheld: tuple[str, ...] = ()  # members whose heads are passed on to nobody
    forged_key: str | None = None  # told in place of the deceived member's
    forged_from: int = 1  # the first round in which it is
    forged_head: bool = False  # one that the deceived member did not sign
    has_two_ledgers: bool = True
    second: FederationLedger | None = None

    def ask(self, kind, questions, *, seconds):
        if kind == "query.close" and self.has_two_ledgers:
            number = next(iter(questions.values())).fields["round"]
            if number == 1:
                shutil.copy(self.folder / "out" / "ledger.db", self.folder / "second.db")
            elif DECEIVED in questions:
                questions = {**questions, DECEIVED: self._deceiving(questions[DECEIVED])}
        if kind == "query.open":
            questions = {client: self._censored(question) for client, question in questions.items()}
        return super().ask(kind, questions, seconds=seconds)

    def _deceiving(self, question):
        if self.second is None:
            federation = read_federation(self.folder / "federation.toml")
            keys = KeyDirectory(self.folder / "operator-keys")
            self.second = FederationLedger(
                str(self.folder / "second.db"), keys, name=federation.name, members=federation.keys
            )
            self.second.open()
            for number in range(self.extra):
                guests = Draft(kind="admission", body={"members": [{"client": f"guest {number}", "key": None}]})
                enter_by_force(self.second._store, keys.key_of(self.second.operator_key), guests)
        trail = json.loads(question.fields["trail"])["document"]
        other = {
            "statement": self.second.statement_part(DECEIVED, 0).decode(),
            "trail": self.second.trail(trail["first"] - 1).decode(),
        }
        return replace(question, fields={**question.fields, **other})

    def _censored(self, question):
        heads, peers = json.loads(question.fields["heads"]), json.loads(question.fields["peers"])
        heads = {client: head for client, head in heads.items() if client not in self.withheld}
        if self.forged_key is not None and DECEIVED in peers and question.fields["round"] >= self.forged_from:
            peers[DECEIVED] = self.forged_key
        if self.forged_head and DECEIVED in heads:
            number, ledger = heads[DECEIVED]["number"], question.fields["book"]
            head = SeenHead(ledger=ledger, client=DECEIVED, number=number, hash="0" * 64)
            heads[DECEIVED] = dict(head.signed(SigningKey.new()).to_document())
        told = {"heads": json.dumps(heads), "peers": json.dumps(peers)}
        if self.second is not None and question.fields["client"] == DECEIVED:
            told["ledger_head"] = self.second.head().decode()
        return replace(question, fields={**question.fields, **told})


def two_faced(toy, **options):
    toy.transport = TwoFacedOperator(toy.transport.members, folder=toy.folder, **options)
    return toy.coordinate()


def log(toy, name):
    return (toy.home(name) / "log.txt").read_text()


@pytest.fixture
def toy(tmp_path):
    return make_toy(tmp_path / "f", rounds=3, **RULES)


def test_members_of_one_ledger_agree(toy):
    run_report, _ = toy.coordinate()
    for name in NAMES:
        assert "CONTRADICTION" not in log(toy, name)
        assert "round 3: 3 of 3 other members saw the same ledger up to its last entry" in log(toy, name)
        assert "NO HEAD" not in log(toy, name)
        assert not (toy.home(name) / "contradictions").exists()
    assert not [event for result in run_report.rounds for event in result.events]


def test_two_faces_are_found_in_the_next_round(toy):
    run_report, said = two_faced(toy)
    for name in NAMES:
        lines = [line for line in log(toy, name).splitlines() if " CONTRADICTION: " in line]
        assert len(lines) == (3 if name == DECEIVED else 1), name
        assert all("the operator shows two ledgers" in line for line in lines)
        kept = sorted((toy.home(name) / "contradictions").iterdir())
        assert len(kept) == len(lines)
        evidence = json.loads(kept[0].read_text())["evidence"]
        assert evidence["own"][0] != evidence["signed"]["hash"]
        assert (toy.home(name) / evidence["own"][1]).exists()
    found = [event for event in run_report.rounds[2].events if event.kind == "contradiction"]
    assert sorted(event.client for event in found) == sorted(NAMES)
    assert not [event for result in run_report.rounds[:2] for event in result.events]
    assert {line.partition(" says: ")[0] for line in said if " says: entry " in line} == set(NAMES)


def test_two_faces_are_found_if_no_statements_of_both_ledgers_ever_end_with_the_same_entry(toy):
    """Who was shown more entries can compare at once."""
    run_report, _ = two_faced(toy, extra=2)
    assert "the operator shows two ledgers" in log(toy, DECEIVED)
    found = [(event.kind, event.client) for event in run_report.rounds[2].events]
    assert found == [("contradiction", DECEIVED)]
    assert f"NO HEAD of {DECEIVED} since round 2 was closed" in log(toy, "north"), "its ledger has no round 2"


def test_a_head_of_an_entry_that_was_not_shown_is_named_until_it_can_be_compared(tmp_path):
    """The deceived member is shown a longer ledger in which round 2 is closed, and is not asked again."""
    toy = make_toy(tmp_path / "f", rounds=4, **RULES)

    class Longer(MemoryTransport):
        def ask(self, kind, questions, *, seconds):
            number = next(iter(questions.values())).fields["round"]
            if (kind, number) == ("query.close", 2):
                questions = {**questions, DECEIVED: longer(questions[DECEIVED])}
            asked = {client: question for client, question in questions.items() if number < 3 or client != DECEIVED}
            return super().ask(kind, asked, seconds=seconds)

    def longer(question):
        fakes = [f"{number:064x}" for number in range(5000, 5020)]

        def statement(document):
            document["head"] = {"number": document["head"]["number"] + len(fakes), "hash": fakes[-1]}

        changes = {"statement": statement, "trail": lambda document: document["hashes"].extend(fakes)}
        fields = {name: resigned(toy, question.fields[name], change) for name, change in changes.items()}
        return replace(question, fields={**question.fields, **fields})

    toy.transport = Longer(toy.transport.members)
    toy.coordinate()
    for name in NAMES[:3]:
        for number, last in ((3, 4), (4, 5)):
            (line,) = [line for line in log(toy, name).splitlines() if f"round {number}: 2 of 3 other members" in line]
            assert f"NO HEAD of {DECEIVED} that can be compared: it was shown entry 24, and this member only" in line
            assert f"entries up to {last}" in line


def test_a_head_of_the_other_ledger_is_a_contradiction_by_itself(toy):
    """The operator signs the head of the ledger that it opens a round on; it must not mix them up."""
    honest = TwoFacedOperator._censored

    class Careless(TwoFacedOperator):
        def _censored(self, question):
            return replace(honest(self, question), fields={**question.fields, "heads": "{}"})

    toy.transport = Careless(toy.transport.members, folder=toy.folder)
    with pytest.raises(FederationError, match=rf"{DECEIVED} .* can prove it: .* another entry 4 than the ledger has"):
        toy.coordinate()
    assert "CONTRADICTION: the operator signed two different entries 4" in log(toy, DECEIVED)


def test_heads_that_are_not_passed_on_are_missed(toy):
    two_faced(toy, withheld=(DECEIVED,))
    assert "CONTRADICTION" in log(toy, DECEIVED)
    for name in NAMES[:3]:
        assert "CONTRADICTION" not in log(toy, name)
        assert f"round 2: 2 of 3 other members saw the same ledger up to its last entry; NO HEAD of {DECEIVED}" in (
            log(toy, name)
        )


def test_a_key_that_changes_is_a_contradiction_and_the_first_one_counts(toy):
    other = NodeKey.new().public
    honest = NodeKey.read(toy.folder / "members" / DECEIVED / "node-key").public
    two_faced(toy, forged_key=other, forged_from=3, has_two_ledgers=False)
    line = next(line for line in log(toy, "north").splitlines() if "CONTRADICTION" in line)
    assert f"the operator now names the key {other[:24]}… for west, not {honest[:24]}…" in line
    assert "round 3: 3 of 3 other members saw the same ledger" in log(toy, "north"), "by the key that it knew"


def test_a_key_in_the_members_own_file_counts_from_the_first_round(toy):
    for name in NAMES[:3]:
        file = toy.folder / "members" / name / "member.toml"
        file.write_text(file.read_text() + '[peers]\nwest = "../west/node-key.pub"\n')
    two_faced(toy, forged_key=NodeKey.new().public)
    for name in NAMES[:3]:
        assert "the operator now names the key" in log(toy, name)
        assert "the operator shows two ledgers" in log(toy, name)


def test_a_head_that_its_member_did_not_sign_does_not_count(toy):
    two_faced(toy, forged_head=True, has_two_ledgers=False)
    assert "DOUBTFUL HEAD: it is not signed with the key of west" in log(toy, "north")
    assert "CONTRADICTION" not in log(toy, "north")


@dataclass
class StaleHeads(TwoFacedOperator):
    """Passes on heads that were signed before the second ledger began, between the deceived member and the others."""

    old: dict = field(default_factory=dict)

    def _censored(self, question):
        heads, reader = json.loads(question.fields["heads"]), question.fields["client"]
        if question.fields["round"] == 2:
            self.old |= heads
        heads = {client: self.old[client] if DECEIVED in (reader, client) else head for client, head in heads.items()}
        question = super()._censored(question)
        return replace(question, fields={**question.fields, "heads": json.dumps(heads)})


def test_heads_from_before_the_last_round_are_as_good_as_none(toy):
    toy.transport = StaleHeads(toy.transport.members, folder=toy.folder)
    toy.coordinate()
    line = "round 3: 2 of 3 other members saw the same ledger up to its last entry; NO HEAD of west since round 2"
    for name in NAMES[:3]:
        assert "NO HEAD" not in log(toy, name).partition("round 3: 2 of 3")[0]
        assert line in log(toy, name)
    assert "round 3: 0 of 3 other members saw the same ledger" in log(toy, DECEIVED)
    assert "NO HEAD of north, south, east since round 2 was closed" in log(toy, DECEIVED)


def test_a_head_names_the_last_round_that_statements_tell_of(toy):
    """The operator cannot have a head signed for a later round than it has shown."""
    answers = []

    def before_answer(client, kind):
        question = toy.transport.sent[-1].message
        if (client, kind, question.fields["round"]) == (DECEIVED, "query.open", 2):
            closing = [s.message for s in toy.transport.sent if s.to_member and s.client == client][-2]
            fields = {**closing.fields, "round": 3}
            answers.append(toy.member(client).answer("query.close", replace(closing, fields=fields)).fields["head"])

    toy.transport.before_answer = before_answer
    toy.coordinate()
    assert json.loads(answers[0])["round"] == 1
