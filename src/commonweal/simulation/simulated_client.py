"""One client of the in-process federation: its data, its part of the model, and its figures of the round."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from commonweal.client.work import Memory, joined
from commonweal.scenario.spec import ClientSpec
from commonweal.task.measured import Measured
from commonweal.task.records import LoadedData, NewData, Rows, TaskMember


@dataclass(slots=True, kw_only=True)
class SimulatedClient:
    """The private state of one client; only its client set changes it."""

    spec: ClientSpec
    member: TaskMember
    memory: Tensor  # of the algorithm, e.g. the client's own BN layers
    task_memory: Memory = field(default_factory=dict)  # of the task's own
    training: Rows = ()
    validation: Rows = ()
    previous: Measured | None = None  # of the model that the last utility was measured with
    declared_count: int = 0  # this and the next two: of the current round
    cost_count: int = 0
    step_count: int = 0
    known_scores: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  # of the next round's first model
    alone: Tensor | None = None  # the model that it trains alone
    alone_memory: Memory = field(default_factory=dict)
    newest: NewData | None = None  # the samples of the current round
    received: dict[int, float] = field(default_factory=dict)  # by round: the share of its new samples that it used

    @property
    def training_count(self) -> int:
        return len(self.training[0]) if self.training else 0

    @property
    def validation_count(self) -> int:
        return len(self.validation[0]) if self.validation else 0

    @property
    def data(self) -> LoadedData:
        assert self.newest is not None, "a round is opened before anybody trains"
        return LoadedData(training=self.training, validation=self.validation, newest=self.newest)

    def receive(self, new: NewData, round_number: int, share: float = 1.0) -> None:
        """Add the samples that are new in a round, or only the first share of them."""
        if share < 1:
            new = _part_of(new, share)
        self.received = {**self.received, round_number: share}
        self.training = joined([self.training, new.training]) if self.training else new.training
        self.validation = joined([self.validation, new.validation]) if self.validation else new.validation
        self.declared_count = new.declared_count
        self.cost_count = new.cost_count
        self.step_count = 0
        self.newest = new


def _part_of(new: NewData, share: float) -> NewData:
    def part(count: int) -> int:
        return math.ceil(share * count)

    def rows(given: Rows) -> Rows:
        return tuple(array[: part(len(array))] for array in given)

    return replace(
        new,
        training=rows(new.training),
        validation=rows(new.validation),
        sample_count=None if new.sample_count is None else part(new.sample_count),
        paid_count=None if new.paid_count is None else part(new.paid_count),
    )
