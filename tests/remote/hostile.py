"""An operator that changes questions on their way and asks members whatever it likes, in between."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from commonweal.ledger.canonical import canonical, hash_of
from commonweal.ledger.chain import rotation_message
from commonweal.ledger.entries import signed_message
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.signed_files import signed_content
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.remote.member.store import MemberStore
from commonweal.remote.messages.message import Message
from tests.remote.memory_transport import MemoryTransport
from tests.remote.toy import NAMES, make_toy

VICTIM = "north"
RULES = {"names": NAMES[:3], "rounds": 3, "mechanism": 'mu = "inf"', "learning": "iteration_limit = 2"}


@dataclass
class Hostile(MemoryTransport):
    """`twist(operator, kind, questions)` returns the questions to send; None: those that were to be sent."""

    twist: Any = None

    def ask(self, kind, questions, *, seconds):
        questions = self.twist(self, kind, questions) or questions
        return super().ask(kind, questions, seconds=seconds)

    def last(self, kind, number=None, name=VICTIM):
        asked = [s.message for s in self.sent if s.to_member and (s.client, s.kind) == (name, kind)]
        return [message for message in asked if number is None or message.fields["round"] == number][-1]

    def extra(self, kind, question=None, *, name=VICTIM, number=None, **fields):
        """Ask a member once more, with other fields; returns its answer, or a `NoAnswer`."""
        question = self.last(kind, number, name) if question is None else question
        asked = {**question.fields, **fields, "number": "00" * 16}
        models = {group: arrays for s in self.sent for group, arrays in s.message.groups.items()}
        needed = [f"model/{digest}" for digest in asked.get("models", ())]
        groups = {group: arrays for group, arrays in question.groups.items() if not group.startswith("model/")}
        groups |= {group: models[group] for group in needed if group in models}
        return self._ask_one(name, kind, Message(fields=json.loads(json.dumps(asked)), groups=groups))


def with_fields(question, **fields):
    return Message(fields={**question.fields, **fields}, groups=question.groups, limit=question.limit)


def settled_fields(question):
    return {name: value for name, value in question.fields.items() if name.startswith("settled")}


def run(folder, twist, **rules):
    """A federation whose operator is hostile; returns it after its rounds, with the run report."""
    toy = make_toy(folder / "f", **{**RULES, **rules})
    toy.transport = Hostile(toy.transport.members, twist=lambda *asked: twist(toy, *asked))
    toy.run_report, toy.said = toy.coordinate()
    return toy


def log(toy, name=VICTIM):
    return (toy.home(name) / "log.txt").read_text()


def state(toy, name=VICTIM):
    return MemberStore(toy.home(name)).load()


def reports(toy, number, name=VICTIM):
    """What a member has signed of a round."""
    file = toy.home(name) / "reports" / f"round-{number:04d}.json"
    return [signed["report"] for signed in json.loads(file.read_text())["reports"]] if file.exists() else []


def bodies(toy, kind="round"):
    store = open_store(str(toy.out / "ledger.db"))
    try:
        with store.reading() as reading:
            documents = [json.loads(entry.content) for entry in reading.entries()]
    finally:
        store.close()
    return [document["body"] for document in documents if document["kind"] == kind]


def findings(toy):
    store = open_store(str(toy.out / "ledger.db"))
    try:
        return [str(finding) for finding in verify_ledger(store, recompute).findings]
    finally:
        store.close()


def resigned(toy, text, change):
    """A signed file with its document changed, and signed by the operator again."""
    signed = json.loads(text)
    change(signed["document"])
    return signed_content(
        signed["document"], KeyDirectory(toy.folder / "operator-keys").key_of(signed["signer"])
    ).decode()


def operator_key(toy):
    return KeyDirectory(toy.folder / "operator-keys").current()


def key_change(book, old, new, number, previous="ab" * 32):
    """An entry that replaces the operator's key, as files name it; no ledger has it."""
    body = {"operator": new.public, "proof": new.sign(rotation_message(book, new.public))}
    content = canonical({"kind": "key-rotation", "number": number, "previous": previous, "body": body}).decode()
    return {"content": content, "signature": old.sign(signed_message(hash_of(content.encode())))}


def files_with(toy, text, name=VICTIM):
    """The files in a member's folder that contain a text."""
    home = toy.home(name)
    found = [file for file in home.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]
    return [str(file.relative_to(home)) for file in found]
