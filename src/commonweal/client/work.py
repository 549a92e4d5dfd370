"""What a client does with its data: train, alone or with the federation's algorithm, and evaluate models.

The functions of the task are checked here: what they return, and what they raise. An error names the function, the
client and the round, and shows the line of the task that it comes from.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from commonweal.client.reporting import Alone
from commonweal.errors import CommonwealError, FederationError, InputError
from commonweal.learning.algorithms import Algorithm, LocalResult
from commonweal.learning.learner import Correction
from commonweal.learning.local_training import poisoned_model, pretended_model
from commonweal.learning.vectors import ArrayLayout, Packing
from commonweal.scenario.spec import Defect, FreeRide, Poisoning
from commonweal.seeds import stream
from commonweal.task.evaluation import checked_predictions, checked_scores
from commonweal.task.measured import Measured, measure, undefined_reason
from commonweal.task.metrics import Metric
from commonweal.task.models import largest
from commonweal.task.records import (
    LoadedData,
    Model,
    NewData,
    Predictions,
    Rows,
    Task,
    TaskContext,
    TaskMember,
    Trained,
)
from commonweal.task.smooth import smooth_scores
from commonweal.valuation.bootstrap import mean_draws, resampling_weights

Evaluation = NDArray[np.float64] | Predictions
Memory = Mapping[str, NDArray[Any]]  # what the task itself keeps between iterations

_INSTALLED = (Path(__file__).parents[1], Path(sysconfig.get_path("stdlib")))


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTrained:
    """What a client has after its part of an iteration."""

    result: LocalResult
    step_count: int
    loss: float
    task_memory: Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class LoneModel:
    """What a client would have without the federation, after a round."""

    model: Tensor
    task_memory: Memory
    alone: Alone


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientWork:
    """How every client of a federation works: the task, the algorithm and the metric."""

    task: Task
    layout: Packing
    algorithm: Algorithm
    metric: Metric
    seed: int
    learning_rate: float
    is_smooth: bool = False  # models are measured on the smooth score, too

    def load(self, member: TaskMember, round_number: int) -> NewData:
        """What is new in a round."""
        with told("load", self.task.name, member.name, round_number):
            return _checked_data(self.task.load(round_number, member))

    def load_all(self, member: TaskMember, round_number: int) -> LoadedData:
        """The data of all rounds up to this one."""
        arrived = [self.load(member, number) for number in range(1, round_number + 1)]
        return LoadedData(
            training=joined([new.training for new in arrived]),
            validation=joined([new.validation for new in arrived]),
            newest=arrived[-1],
        )

    def train(
        self,
        member: TaskMember,
        round_number: int,
        iteration: int,
        rows: Rows,
        *,
        shared: Tensor,
        served: Tensor,
        memory: Tensor,
        task_memory: Memory,
        defect: Defect | None = None,
    ) -> LocalTrained:
        """A client's part of an iteration of the federation. A defect of its data has no effect here."""
        key = (member.name, round_number, iteration)
        trained: list[Trained] = []
        context = self._context(member, round_number, iteration, task_memory)

        def descend(start: Tensor, correction: Correction | None = None) -> tuple[Tensor, int]:
            if isinstance(defect, FreeRide):
                noise = stream(self.seed, "free rider", *key)
                return pretended_model(start, self.layout.weights, defect, noise), 0
            model = self._descend(start, rows, context, correction)
            trained.append(model)
            return self.layout.pack(model.model), model.step_count

        result = self.algorithm.local(shared, served, memory, descend)
        if isinstance(defect, Poisoning):  # what it remembers for itself stays as trained
            noise = stream(self.seed, "poisoner", *key)
            sent = poisoned_model(shared, result.model, self.layout.trainable, defect, noise)
            result = replace(result, model=sent)
        loss = trained[-1].loss if trained else 0.0
        # A model is finite if its extremes are.
        if not (np.isfinite(loss) and bool(torch.stack(torch.aminmax(result.model)).isfinite().all())):
            what = f"a loss of {loss}" if not np.isfinite(loss) else "a model that is not finite"
            raise FederationError(
                f"Training diverged: client {member.name!r} has {what} in round {round_number}, iteration "
                f"{iteration}. Nothing in this round was settled. Lower learning_rate (now {self.learning_rate:g})."
            )
        step_count = trained[-1].step_count if trained else 0
        return LocalTrained(result=result, step_count=step_count, loss=loss, task_memory=context.memory)

    def train_alone(
        self,
        member: TaskMember,
        round_number: int,
        data: LoadedData,
        *,
        model: Tensor,
        task_memory: Memory,
        iteration_count: int,
    ) -> LoneModel:
        """A round of the model that the client would have without the federation: no algorithm, no averaging."""
        step_count = 0
        for iteration in range(1, iteration_count + 1):
            context = self._context(member, round_number, iteration, task_memory, is_alone=True)
            trained = self._descend(model, data.training, context, None)
            model, task_memory = self.layout.pack(trained.model), context.memory
            step_count += trained.step_count
        evaluation = self.evaluate(member, round_number, model, data.validation, task_memory=task_memory)
        return LoneModel(
            model=model,
            task_memory=task_memory,
            alone=Alone(measured=self.measured(member, evaluation), step_count=step_count),
        )

    def evaluate(
        self,
        member: TaskMember,
        round_number: int,
        model: Tensor,
        rows: Rows,
        *,
        memory: Tensor | None = None,
        task_memory: Memory | None = None,
    ) -> Evaluation:
        """Scores or predictions of the validation samples, by a shared model as this client uses it.

        Without a `memory` the model is used as it is.
        """
        if not len(rows[0]):
            return np.empty(0)
        personal = model if memory is None else self.algorithm.personal(model, memory)
        context = self._context(member, round_number, 0, task_memory or {})
        with told("evaluate", self.task.name, member.name, round_number):
            given = self.task.evaluate(self.layout.unpack(personal), rows, context)
            evaluation = _checked_evaluation(given, self.metric, len(rows[0]))
            if self.is_smooth:
                smooth_scores(evaluation, self.metric.kind)  # says what is wrong, if anything
            return evaluation

    def gradient(
        self,
        member: TaskMember,
        round_number: int,
        model: Tensor,
        rows: Rows,
        *,
        memory: Tensor | None = None,
        task_memory: Memory | None = None,
    ) -> Tensor:
        """The gradient of the mean smooth score of the validation samples, at a shared model as this client uses it.

        Only of the entries that clients share: not of their own batch normalisation under FedBN.
        """
        if self.task.gradient is None:
            raise FederationError(no_gradient(self.task))
        personal = model if memory is None else self.algorithm.personal(model, memory)
        context = self._context(member, round_number, 0, task_memory or {})
        with told("gradient", self.task.name, member.name, round_number):
            sent = self.layout.unpack(personal)
            shapes = {name: array.shape for name, array in sent.items()}
            given = self.layout.pack(_checked_gradient(self.task.gradient(sent, rows, context), shapes))
        return given[self.algorithm.averaged].clone()

    def measured(self, member: TaskMember, evaluation: Evaluation) -> Measured:
        """The metric of an evaluation, as measured and in each bootstrap draw."""
        count = len(evaluation.targets) if isinstance(evaluation, Predictions) else len(evaluation)
        weights = resampling_weights(self.seed, member.name, count)
        measured = measure(evaluation, self.metric, weights)
        if not self.is_smooth:
            return measured
        scores = smooth_scores(evaluation, self.metric.kind)
        return replace(measured, smooth=Measured(value=float(scores.mean()), draws=mean_draws(scores, weights)))

    def why_unmeasurable(self, member: TaskMember, evaluation: Evaluation) -> str:
        """A sentence if the metric cannot be measured on these samples; empty if it can."""
        reason = undefined_reason(evaluation, self.metric) if isinstance(evaluation, Predictions) else ""
        if not reason:
            return ""
        return f"{_capital(self.metric.label)} cannot be measured at {member.name}: {reason}. Its utility counts as 0."

    def vector(self, array: NDArray[Any] | None) -> Tensor:
        """An array as a vector; an empty one if there is none."""
        return torch.empty(0) if array is None else torch.from_numpy(np.array(array))

    def _descend(self, start: Tensor, rows: Rows, context: TaskContext, correction: Correction | None) -> Trained:
        member, number = context.member.name, context.round_number
        corrections = None if correction is None else _Corrections(correction, self.layout)
        if corrections is not None:
            context.correction, context.vector_correction = corrections.of_parameters, corrections.of_vector
        with told("train", self.task.name, member, number):
            sent = self.layout.unpack(start)
            shapes = {name: array.shape for name, array in sent.items()}
            trained = _checked_trained(self.task.train(sent, rows, context), shapes)
        if corrections is not None and trained.step_count and not corrections.are_applied:
            raise FederationError(
                f"train in {self.task.name} must call context.correct_gradients(module.named_parameters()) between "
                "loss.backward() and optimiser.step(): the scenario's algorithm corrects gradients, and this did not "
                f"happen for client {member!r} in round {number}."
            )
        return trained

    def _context(
        self, member: TaskMember, round_number: int, iteration: int, task_memory: Memory, *, is_alone: bool = False
    ) -> TaskContext:
        return TaskContext(
            member=member,
            round_number=round_number,
            iteration=iteration,
            seed=self.seed,
            is_alone=is_alone,
            rng=stream(self.seed, "alone" if is_alone else "work", member.name, round_number, iteration),
            memory=dict(task_memory),
            learning_rate=self.learning_rate,
        )


class _Corrections:
    """An algorithm's correction of gradients, for tasks with parameters and for tasks with vectors."""

    def __init__(self, correction: Correction, layout: Packing) -> None:
        self._correction = correction
        self._layout = layout
        self.are_applied = False

    def of_vector(self, trainable: Tensor) -> Tensor:
        self.are_applied = True
        return self._correction(trainable)

    def of_parameters(self, parameters: Iterable[tuple[str, Any]]) -> None:
        layout = self._layout
        assert isinstance(layout, ArrayLayout), "parameters have names where models have"
        named = dict(parameters)
        current = torch.empty(layout.trainable.stop, dtype=next(iter(named.values())).dtype)
        with torch.no_grad():
            for name, parameter in named.items():
                layout.of_trainable(name, current).copy_(parameter)
            added = self.of_vector(current)
            for name, parameter in named.items():
                if parameter.grad is not None:
                    parameter.grad.add_(layout.of_trainable(name, added))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def joined(parts: list[Rows]) -> Rows:
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


@contextmanager
def told(function: str, task: str, client: str = "", round_number: int = 0) -> Iterator[None]:
    """Errors of the task's own function, in a sentence with its name, the client, the round and the task's line."""
    try:
        yield
    except FederationError:
        raise
    except Exception as error:
        whose = f" for client {client!r} in round {round_number}" if client else ""
        line = "" if isinstance(error, CommonwealError) else _own_line(error)
        reason = str(error) if isinstance(error, CommonwealError) else f"{type(error).__name__}: {error}"
        raise FederationError(f"{function} in {task} failed{whose}{line}: {reason}") from error


def _own_line(error: Exception) -> str:
    """The innermost line outside of Python, commonweal and installed packages, where the user's mistake probably is."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_installed(frame.filename)]
    if not own:
        return ""
    shown = f": {own[-1].line}" if own[-1].line else ""
    return f" (line {own[-1].lineno}{shown})"


def _is_installed(file: str) -> bool:
    path = Path(file)
    return file.startswith("<") or "site-packages" in path.parts or any(map(path.is_relative_to, _INSTALLED))


def _checked_data(new: object) -> NewData:
    if not isinstance(new, NewData):
        raise InputError(f"load must return NewData(training=..., validation=...), got {type(new).__name__}.")
    for name, rows in (("training", new.training), ("validation", new.validation)):
        if not isinstance(rows, tuple) or not rows or not all(hasattr(array, "__len__") for array in rows):
            raise InputError(
                f"{name} data must be a tuple of arrays with one row per sample, such as (features, labels), got "
                f"{type(rows).__name__}."
            )
        lengths = {len(array) for array in rows}
        if len(lengths) != 1:
            raise InputError(
                f"{name} data must be arrays with one row per sample, got lengths {sorted(lengths)}. "
                "load may return, for example, (images, labels)."
            )
    if _is_leaking(new):
        raise InputError(
            "every validation row is a training row too, so the metric would say nothing about unseen samples. Let "
            "load split its rows."
        )
    return new


def _is_leaking(new: NewData) -> bool:
    """Whether all validation rows, of at least two, are training rows; a few equal rows are not unusual."""
    validation, training = (np.asarray(rows[0]) for rows in (new.validation, new.training))
    if not 2 <= len(validation) <= len(training) or validation.shape[1:] != training.shape[1:]:
        return False
    if not (training == validation[0]).reshape(len(training), -1).all(axis=1).any():
        return False  # the usual case, and quick

    def keys(rows: Rows) -> set[bytes]:
        return {b"|".join(np.asarray(array[i]).tobytes() for array in rows) for i in range(len(rows[0]))}

    return keys(new.validation) <= keys(new.training)


def _checked_trained(trained: object, shapes: Mapping[str, tuple[int, ...]]) -> Trained:
    if not isinstance(trained, Trained):
        raise InputError(f"train must return Trained(model=..., step_count=...), got {type(trained).__name__}.")
    model = {name: np.asarray(array) for name, array in trained.model.items()}  # NumPy makes scalars of sums
    if set(model) != set(shapes):
        raise InputError(f"train must return the arrays that it received, {_listed(shapes)}, got {_listed(model)}.")
    for name, array in model.items():
        if array.shape != shapes[name]:
            raise InputError(f"train must return {name!r} with the shape {shapes[name]}, got {array.shape}.")
        if array.dtype.kind != "f":
            raise InputError(f"train must return arrays of floats, got {array.dtype} for {name!r}.")
    return Trained(model=model, step_count=trained.step_count, loss=trained.loss)


def no_gradient(task: Task) -> str:
    """What to do about a task whose models cannot be valued by path."""
    return (
        f'{task.name} has no function gradient, which contribution = "path" needs. Add one, or write '
        'contribution = "marginal" and contribution_score = "smooth".'
    )


def _checked_gradient(given: object, shapes: Mapping[str, tuple[int, ...]]) -> Model:
    if not isinstance(given, Mapping) or set(given) != set(shapes):
        got = _listed(given) if isinstance(given, Mapping) else type(given).__name__
        raise InputError(f"gradient must return an array for each of the model's, {_listed(shapes)}, got {got}.")
    gradient = {name: np.asarray(array) for name, array in given.items()}
    for name, array in gradient.items():
        if array.shape != shapes[name] or array.dtype.kind != "f":
            raise InputError(
                f"gradient must return {name!r} as floats with the shape {shapes[name]}, got {array.dtype} "
                f"{array.shape}."
            )
        if not largest(array) < np.inf:
            raise InputError(f"gradient must return finite numbers, got infinity or nan in {name!r}.")
    return gradient


def _checked_evaluation(given: object, metric: Metric, sample_count: int) -> Evaluation:
    if isinstance(given, Predictions):
        return checked_predictions(given, metric.kind, sample_count)
    if metric.name != "accuracy":
        raise InputError(
            f"the metric {metric.label} needs predictions, but evaluate returned {type(given).__name__}. Return "
            "Predictions(targets=..., values=...)."
        )
    return checked_scores(given, sample_count)


def _listed(model: Iterable[str]) -> str:
    names = [repr(name)[:40] for name in sorted(model)]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") or "none"
