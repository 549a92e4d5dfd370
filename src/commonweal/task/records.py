"""What the functions of a task take and return. A task is written once and runs in every place.

initial_model(plan)                   -> the model that the first round starts from, as named arrays of floats
load(round_number, member)            -> NewData: what is new in this round; always the same for the same round
train(model, training, context)       -> Trained: a local model from the one received
evaluate(model, validation, context)  -> one score from 0 to 1 per validation sample, or Predictions

`training` and `validation` are tuples of arrays with one row per sample: all that have arrived so far, in order.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError

Model = dict[str, NDArray[Any]]
Rows = tuple[NDArray[Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMember:
    """The client for which a task's functions run."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the task; a client's own override the common ones
    folder: Path = field(default_factory=Path)  # relative paths in `settings` are relative to this
    seed: int = 1  # of the federation
    round_count: int = 1  # planned
    agreed: Mapping[str, Any] = field(default_factory=dict)  # what the task's `agree` returned


@dataclass(frozen=True, slots=True, kw_only=True)
class NewData:
    """What arrived at a client in one round."""

    training: Rows
    validation: Rows
    sample_count: int | None = None  # declared as new; None: the number of rows
    paid_count: int | None = None  # samples that cost the client something; None: as many as declared
    notes: Mapping[str, str] = field(default_factory=dict)  # what readers of the round should know: kind -> sentence

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
    step_count: int  # mini-batches: part of the client's cost
    loss: float = 0.0  # mean over the samples

    def __post_init__(self) -> None:
        _make_whole(self, "step_count")
        object.__setattr__(self, "loss", float(self.loss))


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """What a model says of the validation samples, and what is true. Only the metric computed from them is sent.

    Classification: `targets` are classes counted from 0; `values` are probabilities, one row per sample and one column
    per class, or for two classes a single column, the probability of class 1.
    Regression: `targets` and `values` are numbers, one per sample. `scale` is an error that counts as large, in the
    unit of the target and the same at all clients: the smooth score is exp(−(error / scale)² / 2).
    """

    targets: NDArray[Any]
    values: NDArray[Any]
    scale: float | None = None  # only for regression, where contributions are measured on the smooth score

    def __post_init__(self) -> None:
        if self.scale is not None and not 0 < self.scale < math.inf:
            raise InputError(f"scale must be a finite number above 0, got {self.scale!r}.")


@dataclass(slots=True, kw_only=True)
class TaskContext:
    """What `train` and `evaluate` may need to know.

    `memory` holds arrays that the client keeps between iterations. What training puts there is never sent.
    """

    member: TaskMember
    round_number: int
    iteration: int  # 0 while evaluating
    seed: int  # of the federation
    is_alone: bool = False  # training the model that the client would have without the federation
    rng: np.random.Generator  # the client's own in this iteration: same seed, same numbers
    memory: dict[str, NDArray[Any]] = field(default_factory=dict)
    learning_rate: float = 0.1  # of the scenario or the federation's terms
    correction: Correction | None = None  # what the algorithm adds to the gradient; `correct_gradients` applies it
    vector_correction: Callable[[Any], Any] | None = None  # the same for tasks that train the vector of the weights

    def correct_gradients(self, parameters: Iterable[tuple[str, Any]]) -> None:
        """Add what the algorithm adds to the gradients; call it between loss.backward() and optimiser.step().

        `parameters` are `module.named_parameters()`. FedProx and SCAFFOLD need it; for other algorithms it does
        nothing.
        """
        if self.correction is not None:
            self.correction(parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """What `initial_model` may need to know."""

    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    agreed: Mapping[str, Any] = field(default_factory=dict)


Correction = Callable[[Iterable[tuple[str, Any]]], None]
Load = Callable[[int, Any], NewData]
Train = Callable[[Model, Rows, Any], Trained]
Evaluate = Callable[[Model, Rows, Any], "NDArray[Any] | Predictions"]
Gradient = Callable[[Model, Rows, Any], Model]
InitialModel = Callable[[Any], Model]
Summarise = Callable[[TaskMember], Mapping[str, Any]]
Agree = Callable[[Mapping[str, Mapping[str, Any]]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The functions of a task. Only the first three are needed at a member; the rest are optional.

    - `gradient` is that of the mean smooth score of the validation samples at a model.
    - `summarise` tells what a client's data look like before the first round, and `agree` turns the summaries of all
      clients into what they have in common, such as the scale of a column; both in the types of JSON.
    - `metrics` are the task's own: functions of (targets, predictions, weights), by name.
    """

    load: Load
    train: Train
    evaluate: Evaluate
    initial_model: InitialModel | None = None
    gradient: Gradient | None = None
    summarise: Summarise | None = None
    agree: Agree | None = None
    metrics: Mapping[str, Callable[..., float]] = field(default_factory=dict)
    layout: Callable[[Model], Any] | None = None  # of a task that sends its model as one vector
    name: str = "the task"  # in messages: its file


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedData:
    """All data that a client has in a round."""

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
