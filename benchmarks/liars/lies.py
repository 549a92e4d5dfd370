"""Members that lie about contributions. Their answers are well-formed and signed; only what they say is false.

A liar knows what a member can know: its own updates, the shared models that it was sent, and what colluding members
tell it. It scores the model of all members truly, because its utility follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.app import Message as FlowerMessage
from numpy.typing import NDArray

from commonweal.flower.codec import from_content, to_content
from commonweal.flower.in_process import App
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.messages.message import EVALUATE, GRADIENT, MODEL, OPEN, TRAIN, Message, signed_answer
from commonweal.task.models import fingerprint
from commonweal.task.records import Model

Vector = NDArray[np.float64]


@dataclass(kw_only=True)
class Knowledge:
    """What a liar knows of the round that is under way."""

    member_count: int
    statistics: slice  # of batch normalisation; in the first round they start from nothing, so liars ignore them
    friends: Mapping[str, Knowledge] = field(default_factory=dict)  # colluding members, itself included
    own_update: Vector = field(default_factory=lambda: np.empty(0))  # over all iterations of the round
    own_hash: str = ""  # of its last local model
    validation_count: int = 0
    round_number: int = 0
    adopted: str = ""
    models: dict[str, Vector] = field(default_factory=dict)  # by hash

    def hear(self, kind: str, question: Message, answer: Message) -> None:
        """Learn from a question and the true answer to it."""
        for name, group in question.groups.items():
            if name.startswith(MODEL):
                self.models[name.removeprefix(MODEL)] = _vector(group)
        if kind == OPEN:
            self.round_number = question.fields["round"]
            self.validation_count = answer.fields["validation_count"]
            self.own_update = np.zeros_like(self.models[question.fields["models"][0]])
        elif kind == TRAIN:
            (base,) = question.fields["models"]
            self.own_update += _vector(answer.groups["local"]) - self.models[base]
            self.own_hash = fingerprint(answer.groups["local"])
        elif kind == EVALUATE and question.fields["whole"]:
            self.adopted = question.fields["whole"][-1]

    def updates(self, midpoint: str) -> tuple[Vector, Vector]:
        """The weighted updates of the liars together, and of all others together, over the round."""
        everybody = 2 * (self.models[self.adopted] - self.models[midpoint])
        ours = sum((friend.own_update for friend in self.friends.values()), np.zeros_like(everybody))
        ours = ours / self.member_count
        others = everybody - ours
        if self.round_number == 1:
            ours[self.statistics] = others[self.statistics] = 0.0
        return ours, others


Tell = Callable[[Knowledge, str, Message, Message], Message]
"""From a question and the true answer to what the liar answers."""


def lying(app: App, knows: Knowledge, tell: Tell, key: NodeKey) -> App:
    """The app of a member that answers truly at first, and then changes what it sends and signs it."""

    def answer(message: FlowerMessage, context: Context) -> FlowerMessage:
        kind, question = message.metadata.message_type, from_content(message.content)
        true = from_content(app(message, context).content)
        knows.hear(kind, question, true)
        told = signed_answer(tell(knows, kind, question, true), kind=kind, number=question.fields["number"], key=key)
        return FlowerMessage(to_content(told), reply_to=message)

    return answer


# ---- scores of coalition models ----

Score = Callable[[NDArray[np.bool_], int, NDArray[np.float64]], NDArray[np.float64]]
"""From who is in the coalition, the liar's place among them, and the true hits to the hits that the liar states."""


def scores(score: Score) -> Tell:
    def tell(knows: Knowledge, kind: str, question: Message, answer: Message) -> Message:
        if kind != EVALUATE or not question.fields["parts"]:
            return answer
        own = question.fields["parts"].index(knows.own_hash)
        members = question.groups["rows"]["rows"] > 0
        true = answer.groups["scores"]["scores"].astype(np.float64)
        stated = [score(row, own, hits.copy()) for row, hits in zip(members, true, strict=True)]
        return replace(answer, groups={"scores": {"scores": np.array(stated)}})

    return tell


def one_with_it_zero_without(members: NDArray[np.bool_], own: int, hits: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.full_like(hits, float(members[own]))


def three_flipped(members: NDArray[np.bool_], own: int, hits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Three of its own samples that the model gets right count as wrong in each coalition without it."""
    if not members[own]:
        hits[np.flatnonzero(hits)[:3]] = 0.0
    return hits


def others_low(members: NDArray[np.bool_], own: int, hits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each of the others seems to do harm: whatever model lacks one of them is always right."""
    return hits if np.delete(members, own).all() else np.ones_like(hits)


# ---- gradients ----

Craft = Callable[[Knowledge, Vector, Vector, Vector], Vector]
"""From the true gradient, the weighted updates of the liars and those of all others to the gradient that is stated."""


def gradients(craft: Craft) -> Tell:
    def tell(knows: Knowledge, kind: str, question: Message, answer: Message) -> Message:
        if kind != GRADIENT:
            return answer
        (midpoint,) = question.fields["models"]
        true = answer.groups["gradient"]["gradient"]
        stated = craft(knows, true.astype(np.float64), *knows.updates(midpoint))
        return replace(answer, groups={"gradient": {"gradient": stated.astype(true.dtype)}})

    return tell


def along_own_update(knows: Knowledge, true: Vector, ours: Vector, others: Vector) -> Vector:
    """As if only its own update had raised its score: 1 with it, 0 without."""
    return _as_long_as(true, ours)


def three_samples_more(knows: Knowledge, true: Vector, ours: Vector, others: Vector) -> Vector:
    """As if its own update had also decided three of its samples."""
    return true + 3 / knows.validation_count * ours / (ours @ ours)


def against_others(knows: Knowledge, true: Vector, ours: Vector, others: Vector) -> Vector:
    """As if the others had lowered its score as much as they can have."""
    return _as_long_as(true, -others)


def crafted(knows: Knowledge, true: Vector, ours: Vector, others: Vector) -> Vector:
    """Along what is its own in its update, and against what is the others' own in theirs."""
    of_ours = ours - others * (ours @ others) / (others @ others)
    of_others = others - ours * (ours @ others) / (ours @ ours)
    return _as_long_as(true, of_ours / np.linalg.norm(of_ours) - of_others / np.linalg.norm(of_others))


def times(factor: float, craft: Craft) -> Craft:
    return lambda knows, true, ours, others: factor * craft(knows, true, ours, others)


# ---- weights ----


def more_training_samples(factor: int) -> Tell:
    """It states more training samples than it has, which raises its weight in the average."""

    def tell(knows: Knowledge, kind: str, question: Message, answer: Message) -> Message:
        if kind != OPEN:
            return answer
        stated = factor * answer.fields["training_count"]
        return replace(answer, fields={**answer.fields, "training_count": stated})

    return tell


def _as_long_as(true: Vector, direction: Vector) -> Vector:
    return np.asarray(direction * (np.linalg.norm(true) / np.linalg.norm(direction)))


def _vector(model: Model | Mapping[str, NDArray[Any]]) -> Vector:
    return np.concatenate([array.ravel() for array in model.values()]).astype(np.float64)
