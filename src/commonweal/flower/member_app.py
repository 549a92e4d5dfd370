"""The ClientApp: how Flower puts a question to a member's agent, in a new process for every message."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from flwr.app import Context
from flwr.app import Message as FlowerMessage
from flwr.clientapp import ClientApp

from commonweal.errors import InputError
from commonweal.flower.codec import UnreadableError, question_in, to_content
from commonweal.remote.member.agent import answer_question, errors_kept_private, keep_unread
from commonweal.task.file import task_in
from commonweal.task.records import Evaluate, Load, Task, Train


def client_app(
    task: Task | ModuleType | None = None,
    *,
    load: Load | None = None,
    train: Train | None = None,
    evaluate: Evaluate | None = None,
) -> ClientApp:
    """A ClientApp that takes part with a task: the module with its functions, or the functions themselves.

    The SuperNode's node configuration names `member`, the member's own file.
    """
    if isinstance(task, ModuleType):
        task = task_in(task)
    if task is None:
        if load is None or train is None or evaluate is None:
            raise InputError("client_app needs a task, or its functions load, train and evaluate.")
        task = Task(load=load, train=train, evaluate=evaluate)
    return _MemberApp(task)


class _MemberApp(ClientApp):
    """Puts every question to the agent, also one of a kind that there is none of: the agent says so in the log.

    Functions registered for each kind would leave that to Flower, and what came with the question would be lost.
    """

    def __init__(self, task: Task) -> None:
        super().__init__()
        self._task = task

    def __call__(self, message: FlowerMessage, context: Context) -> FlowerMessage:
        member_file = _member_file(context)
        with errors_kept_private(member_file):
            try:
                question = question_in(message.content)
            except UnreadableError as error:
                keep_unread(member_file, error.text)
                raise
            given = answer_question(member_file, self._task, message.metadata.message_type, question)
            return FlowerMessage(to_content(given), reply_to=message)


def _member_file(context: Context) -> Path:
    given = str(context.node_config.get("member", ""))
    if not given:
        raise InputError(
            "A SuperNode must name its member's file, got none. Start it with --node-config "
            "'member=\"/absolute/path/of/member.toml\"'."
        )
    return Path(given)
