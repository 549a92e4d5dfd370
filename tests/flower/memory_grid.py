"""A Grid in this process: a ServerApp and ClientApps talk through Flower's own messages and serialisation.

Every message is turned into the bytes that would go over the wire and back, and kept for whoever wants to read them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from flwr.app import Context, Error, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

RUN_ID = 7
NODE_UNAVAILABLE, CLIENT_APP_RAISED = 5, 2


@dataclass
class Sent:
    """One message on the wire."""

    direction: str  # "down" to the member, "up" from it
    client: str
    kind: str
    content: bytes  # all its objects
    message: Message  # as it arrived


@dataclass
class MemoryNode:
    """A SuperNode: its member's file, its public key in PEM, and what runs on it."""

    name: str
    public_key: bytes
    node_config: dict
    app: Callable
    is_connected: bool = True
    twist: Callable[[Message, Message], Message] | None = None  # (question, answer) → what it says instead


@dataclass
class MemoryGrid(Grid):
    nodes: dict[int, MemoryNode]
    wire: list[Sent] = field(default_factory=list)
    before_answer: Callable[[str, str], None] = lambda client, kind: None

    def __post_init__(self):
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = RUN_ID, 1, 1
        self._replies = {}

    def set_run(self, run):
        raise NotImplementedError

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None):
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self):
        return [node_id for node_id, node in self.nodes.items() if node.is_connected]

    def get_nodes(self):
        return [
            NodeInfo(node_id=node_id, status="online", public_key=self.nodes[node_id].public_key)
            for node_id in self.get_node_ids()
        ]

    def push_messages(self, messages):
        return [self._deliver(message) for message in messages]

    def pull_messages(self, message_ids):
        return [self._replies.pop(message_id) for message_id in list(message_ids) if message_id in self._replies]

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(messages))

    def _deliver(self, message):
        node = self.nodes[message.metadata.dst_node_id]
        kind = message.metadata.message_type
        received = self._carried(message, "down", node.name, kind)
        try:
            self.before_answer(node.name, kind)
            if not node.is_connected:
                raise ConnectionError
            context = Context(RUN_ID, message.metadata.dst_node_id, dict(node.node_config), RecordDict(), {})
            answer = node.app(received, context)
            if node.twist is not None:
                answer = node.twist(received, answer)
        except ConnectionError:
            answer = Message(Error(NODE_UNAVAILABLE, "Node Unavailable"), reply_to=received)
        except Exception as error:
            answer = Message(Error(CLIENT_APP_RAISED, f"{type(error)}:<'{error}'>"), reply_to=received)
        self._replies[message.object_id] = self._carried(answer, "up", node.name, kind)
        return message.object_id

    def _carried(self, message, direction, client, kind):
        identity = message.object_id
        objects = {key: item.deflate() for key, item in get_all_nested_objects(message).items()}
        arrived = inflate_object_from_contents(identity, dict(objects))
        arrived.metadata.__dict__["_message_id"] = identity
        self.wire.append(Sent(direction, client, kind, b"".join(objects.values()), arrived))
        return arrived
