"""The ClientApp: a member's desk as Flower runs it, a new process for every message."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from commonweal.errors import FederationError
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.member.agent import MemberAgent, QuestionError
from commonweal.remote.member.member_file import read_member
from commonweal.remote.member.store import MemberStore
from commonweal.remote.member.work import Evaluate, Load, Train, Work
from commonweal.remote.messages.kinds import CLOSE, EVALUATE, OPEN, REPORT, TRAIN
from commonweal.remote.messages.message import from_content, to_content
from commonweal.remote.messages.signature import sealed


def client_app(*, load: Load, train: Train, evaluate: Evaluate) -> ClientApp:
    """A ClientApp that brings three functions into the incentive layer; see `commonweal.remote.member.work`.

    The SuperNode's node configuration names `member`, the member's own file.
    """
    app, work = ClientApp(), Work(load=load, train=train, evaluate=evaluate)

    def answer(message: Message, context: Context) -> Message:
        kind = message.metadata.message_type
        with _errors_kept_at_home(context):
            question = from_content(message.content)
            member = read_member(_member_file(context))
            key = NodeKey.read(member.key_file)
            given = MemberAgent(member, work, key).answer(kind, question)
            signed = sealed(given, kind=kind, question=question.fields["number"], key=key)
            return Message(to_content(signed), reply_to=message)

    for kind in (OPEN, REPORT, CLOSE):
        app.query(kind.removeprefix("query."))(answer)
    app.train(TRAIN.removeprefix("train."))(answer)
    app.evaluate(EVALUATE.removeprefix("evaluate."))(answer)
    return app


@contextmanager
def _errors_kept_at_home(context: Context) -> Iterator[None]:
    """Flower sends an error's text to the coordinator, and a text may tell what the member keeps to itself.

    So the text goes to the member's log, and the coordinator learns no more than that there was an error.
    """
    try:
        yield
    except QuestionError:
        raise  # says what is wrong with the question, and nothing of the member
    except Exception as error:
        with suppress(Exception):
            MemberStore(read_member(_member_file(context)).home).log(f"ERROR {type(error).__name__}: {error}")
        traceback.print_exc()
        raise RuntimeError(f"{type(error).__name__}, which the member's own log tells of") from None


def _member_file(context: Context) -> Path:
    given = str(context.node_config.get("member", ""))
    if not given:
        raise FederationError(
            "a SuperNode must name its member's file, got none; start it with "
            "--node-config 'member=\"/.../member.toml\"'"
        )
    return Path(given)
