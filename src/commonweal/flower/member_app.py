"""The ClientApp: how Flower puts a question to a member's agent, in a new process for every message."""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context
from flwr.app import Message as FlowerMessage
from flwr.clientapp import ClientApp

from commonweal.errors import InputError
from commonweal.flower.codec import from_content, to_content
from commonweal.remote.member.agent import answer_question, errors_kept_private
from commonweal.remote.member.task import Evaluate, Load, Task, Train
from commonweal.remote.messages.message import CLOSE, EVALUATE, OPEN, REPORT, TRAIN


def client_app(*, load: Load, train: Train, evaluate: Evaluate) -> ClientApp:
    """A ClientApp that takes part with these three functions; see `commonweal.remote.member.task`.

    The SuperNode's node configuration names `member`, the member's own file.
    """
    app, task = ClientApp(), Task(load=load, train=train, evaluate=evaluate)

    def answer(message: FlowerMessage, context: Context) -> FlowerMessage:
        member_file = _member_file(context)
        with errors_kept_private(member_file):
            given = answer_question(member_file, task, message.metadata.message_type, from_content(message.content))
            return FlowerMessage(to_content(given), reply_to=message)

    for kind in (OPEN, REPORT, CLOSE):
        app.query(kind.removeprefix("query."))(answer)
    app.train(TRAIN.removeprefix("train."))(answer)
    app.evaluate(EVALUATE.removeprefix("evaluate."))(answer)
    return app


def _member_file(context: Context) -> Path:
    given = str(context.node_config.get("member", ""))
    if not given:
        raise InputError(
            "A SuperNode must name its member's file, got none. Start it with --node-config "
            "'member=\"/absolute/path/of/member.toml\"'."
        )
    return Path(given)
