"""What a user brings: three functions. Everything else is the incentive layer's.

load(round_number, member)            -> NewData: what is new in this round; the same round gives the same data again
train(model, training, context)       -> Trained: a local model from the one received
evaluate(model, validation, context)  -> one score from 0 to 1 for each validation sample, in order

`training` and `validation` are tuples of arrays whose rows are samples, all that arrived so far, in order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import FederationError
from commonweal.remote.member.member_file import Member
from commonweal.remote.messages.models import Model

Rows = tuple[NDArray[Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewData:
    """What arrived at a member in one round."""

    training: Rows
    validation: Rows
    sample_count: int | None = None  # declared as new; None: all rows
    paid_count: int | None = None  # samples the member had to pay for; None: as many as declared

    def __post_init__(self) -> None:
        for name in ("sample_count", "paid_count"):
            if getattr(self, name) is not None:
                _make_whole(self, name)

    @property
    def declared_count(self) -> int:
        return len(self.training[0]) + len(self.validation[0]) if self.sample_count is None else self.sample_count

    @property
    def cost_count(self) -> int:
        return self.declared_count if self.paid_count is None else self.paid_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What local training left behind."""

    model: Model
    step_count: int  # mini-batches: part of the member's cost, and not sent
    loss: float = 0.0  # mean over the samples, for the member's log

    def __post_init__(self) -> None:
        _make_whole(self, "step_count")
        object.__setattr__(self, "loss", float(self.loss))


@dataclass(slots=True, kw_only=True)
class WorkContext:
    """Where a member stands while it trains or evaluates.

    `memory` is the member's own between iterations, such as its batch normalisation; what training puts there is kept
    at home and never sent.
    """

    member: Member
    round_number: int
    iteration: int  # 0 while evaluating
    seed: int  # of the federation
    rng: np.random.Generator  # the member's own in this iteration: the same seed, the same numbers
    memory: dict[str, NDArray[Any]]


Load = Callable[[int, Member], NewData]
Train = Callable[[Model, Rows, WorkContext], Trained]
Evaluate = Callable[[Model, Rows, WorkContext], NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The three functions."""

    load: Load
    train: Train
    evaluate: Evaluate


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """All that a member holds in a round."""

    training: Rows
    validation: Rows
    newest: NewData


def _make_whole(record: object, name: str) -> None:
    """NumPy's whole numbers are welcome, and become Python's; anything else is refused."""
    value = getattr(record, name)
    try:
        count = operator.index(value)
    except TypeError:
        count = -1
    if count < 0:
        raise FederationError(f"{name} must be a whole number >= 0, got {value!r}; count samples or mini-batches")
    object.__setattr__(record, name, count)


def gather(work: Work, member: Member, round_number: int) -> Held:
    """What arrived in rounds 1 to this one."""
    arrived = [_checked(work.load(number, member), number) for number in range(1, round_number + 1)]
    return Held(
        training=_joined([new.training for new in arrived]),
        validation=_joined([new.validation for new in arrived]),
        newest=arrived[-1],
    )


def _checked(new: NewData, round_number: int) -> NewData:
    for name, rows in (("training", new.training), ("validation", new.validation)):
        lengths = {len(array) for array in rows}
        if len(lengths) != 1:
            raise FederationError(
                f"{name} data must be arrays with one row a sample, got lengths {sorted(lengths)} in round "
                f"{round_number}; let load return e.g. (images, labels)"
            )
    return new


def _joined(parts: list[Rows]) -> Rows:
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))
