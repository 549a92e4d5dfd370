"""A Grid in this process: an app's ServerApp and ClientApps without SuperLink and SuperNodes.

Every message is turned into the bytes that Flower would send, and back, so that what travels can be counted and read.
TLS, authentication and lost connections are not covered. For tests, measurements and trying out an app.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

RUN_ID = 1
NODE_UNAVAILABLE, CLIENT_APP_RAISED = 5, 2  # Flower's error codes

App = Callable[[Message, Context], Message]


@dataclass(slots=True, kw_only=True)
class Node:
    """A SuperNode: its public key, its configuration, and the ClientApp that runs on it."""

    name: str
    public_key: bytes
    node_config: Mapping[str, str]
    app: App
    is_connected: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedNode:
    """What a grid reports about a connected SuperNode."""

    node_id: int
    public_key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One message as it travelled."""

    to_node: bool  # otherwise the node sent it
    client: str
    kind: str
    content: bytes  # all its objects, as they would be sent
    message: Message  # as it arrived


@dataclass
class InProcessGrid(Grid):
    """Nodes by their id. A question is answered when it is pushed."""

    nodes: Mapping[int, Node]
    wire: list[Sent] = field(default_factory=list)
    _replies: dict[str, Message] = field(default_factory=dict)

    def __post_init__(self) -> None:
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = RUN_ID, 1, 1  # every new Message reads these

    def set_run(self, run: Any) -> None:
        """Do nothing: there is only one run."""

    @property
    def run(self) -> Any:
        return None

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        return [node_id for node_id, node in self.nodes.items() if node.is_connected]

    def get_nodes(self) -> Iterable[Any]:
        return [
            ConnectedNode(node_id=node_id, public_key=self.nodes[node_id].public_key) for node_id in self.get_node_ids()
        ]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return [self._deliver(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._replies.pop(message_id) for message_id in list(message_ids) if message_id in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))

    def answer_of(self, node: Node, question: Message, context: Context) -> Message:
        """What a node answers; tests override it to let members lie or fail."""
        return node.app(question, context)

    def _deliver(self, message: Message) -> str:
        node_id, kind = message.metadata.dst_node_id, message.metadata.message_type
        node = self.nodes[node_id]
        question = self._carried(message, node.name, kind, to_node=True)
        try:
            if not node.is_connected:
                raise ConnectionError
            context = Context(RUN_ID, node_id, dict(node.node_config), RecordDict(), {})
            answer = self.answer_of(node, question, context)
        except ConnectionError:
            answer = Message(Error(NODE_UNAVAILABLE, "Node Unavailable"), reply_to=question)
        except Exception as error:  # as Flower does
            answer = Message(Error(CLIENT_APP_RAISED, f"{type(error)}:<'{error}'>"), reply_to=question)
        self._replies[message.object_id] = self._carried(answer, node.name, kind, to_node=False)
        return message.object_id

    def _carried(self, message: Message, client: str, kind: str, *, to_node: bool) -> Message:
        contents: dict[str, bytes] = {}
        arrived: Message = _rebuilt(message, contents)
        arrived.metadata.__dict__["_message_id"] = message.object_id  # as the SuperLink does
        content = b"".join(contents.values())
        self.wire.append(Sent(to_node=to_node, client=client, kind=kind, content=content, message=arrived))
        return arrived


def _rebuilt(part: Any, contents: dict[str, bytes]) -> Any:
    """A message or a part of one, from bytes; adds the bytes of each part to `contents`, by the part's id."""
    children = {identity: _rebuilt(child, contents) for identity, child in (part.children or {}).items()}
    contents[part.object_id] = part.deflate()
    return type(part).inflate(contents[part.object_id], children)
