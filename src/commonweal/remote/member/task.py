"""The task of a federation: the three functions that the user provides and each member runs.

load(round_number, member)            -> NewData: what is new in this round; always the same for the same round
train(model, training, context)       -> Trained: a local model from the one received
evaluate(model, validation, context)  -> one score from 0 to 1 per validation sample, in order

`training` and `validation` are tuples of arrays with one row per sample: all that have arrived so far, in order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.remote.member.member_file import Member
from commonweal.remote.messages.models import Model

Rows = tuple[NDArray[Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewData:
    """What arrived at a member in one round."""

    training: Rows
    validation: Rows
    sample_count: int | None = None  # declared as new; None: the number of rows
    paid_count: int | None = None  # samples that cost the member something; None: as many as declared

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
    """The result of local training."""

    model: Model
    step_count: int  # mini-batches: part of the member's cost; not sent
    loss: float = 0.0  # mean over the samples, for the member's log

    def __post_init__(self) -> None:
        _make_whole(self, "step_count")
        object.__setattr__(self, "loss", float(self.loss))


@dataclass(slots=True, kw_only=True)
class TaskContext:
    """What `train` and `evaluate` may need to know.

    `memory` holds arrays that the member keeps between iterations, such as its batch normalisation. What training puts
    there stays in the member's folder and is never sent.
    """

    member: Member
    round_number: int
    iteration: int  # 0 while evaluating
    seed: int  # of the federation
    rng: np.random.Generator  # the member's own in this iteration: same seed, same numbers
    memory: dict[str, NDArray[Any]]


Load = Callable[[int, Member], NewData]
Train = Callable[[Model, Rows, TaskContext], Trained]
Evaluate = Callable[[Model, Rows, TaskContext], NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The three functions."""

    load: Load
    train: Train
    evaluate: Evaluate


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedData:
    """All data that a member has in a round."""

    training: Rows
    validation: Rows
    newest: NewData


def _make_whole(record: object, name: str) -> None:
    """Convert NumPy's integers to Python's, and refuse anything else."""
    value = getattr(record, name)
    try:
        count = operator.index(value)
    except TypeError:
        count = -1
    if count < 0:
        raise InputError(f"{name} must be a whole number of at least 0, got {value!r}.")
    object.__setattr__(record, name, count)


def load_all(task: Task, member: Member, round_number: int) -> LoadedData:
    """The data of all rounds up to this one."""
    arrived = [_checked(task.load(number, member), number) for number in range(1, round_number + 1)]
    return LoadedData(
        training=_joined([new.training for new in arrived]),
        validation=_joined([new.validation for new in arrived]),
        newest=arrived[-1],
    )


def _checked(new: NewData, round_number: int) -> NewData:
    for name, rows in (("training", new.training), ("validation", new.validation)):
        lengths = {len(array) for array in rows}
        if len(lengths) != 1:
            raise InputError(
                f"{name} data must be arrays with one row per sample, got lengths {sorted(lengths)} in round "
                f"{round_number}. load may return, for example, (images, labels)."
            )
    return new


def _joined(parts: list[Rows]) -> Rows:
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))
