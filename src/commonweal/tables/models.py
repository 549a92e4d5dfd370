"""The models for tables, in torch: logistic or linear regression, and multi-layer perceptrons.

A model is a dictionary of named arrays. Binary classification has one output, the log-odds of class 1; with more
classes there is one output per class; regression has one, the target in standard deviations from its mean.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from commonweal.seeds import stream
from commonweal.task.records import Model

Parameters = dict[str, Tensor]


def initial_model(widths: Sequence[int], seed: int) -> Model:
    """A model with layers of these widths, from input to output.

    Without hidden layers all weights are zero: the loss is convex. With hidden layers they are uniform within
    ±1/√(inputs), as in PyTorch's layers.
    """
    if len(widths) == 2:
        inputs, outputs = widths
        return {
            "linear.weight": np.zeros((outputs, inputs), dtype=np.float32),
            "linear.bias": np.zeros(outputs, dtype=np.float32),
        }
    random = stream(seed, "initial model")
    model: Model = {}
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(widths), start=1):
        bound = 1 / math.sqrt(inputs)
        model[f"layer{layer}.weight"] = random.uniform(-bound, bound, (outputs, inputs)).astype(np.float32)
        model[f"layer{layer}.bias"] = random.uniform(-bound, bound, outputs).astype(np.float32)
    return model


def parameters_of(model: Model) -> Parameters:
    """The model as tensors that gradients can be computed for; the arrays are copied."""
    return {name: torch.from_numpy(np.array(array, dtype=np.float32)).requires_grad_() for name, array in model.items()}


def model_of(parameters: Parameters) -> Model:
    return {name: tensor.detach().numpy().copy() for name, tensor in parameters.items()}


def forward(parameters: Parameters, features: Tensor) -> Tensor:
    """The outputs, one row per row of features; a ReLU between layers."""
    tensors = list(parameters.values())
    layers = list(zip(tensors[0::2], tensors[1::2], strict=True))
    for weight, bias in layers[:-1]:
        features = functional.relu(functional.linear(features, weight, bias))
    weight, bias = layers[-1]
    return functional.linear(features, weight, bias)


def classification_loss(outputs: Tensor, classes: Tensor) -> Tensor:
    """The mean negative log-likelihood; `classes` are whole numbers."""
    if outputs.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(outputs[:, 0], classes.to(outputs.dtype))
    return functional.cross_entropy(outputs, classes)


def regression_loss(outputs: Tensor, standardised: Tensor) -> Tensor:
    """Half the mean squared error, in standard deviations of the target."""
    return functional.mse_loss(outputs[:, 0], standardised) / 2


def descend(
    parameters: Parameters,
    features: Tensor,
    targets: Tensor,
    *,
    loss_of: Callable[[Tensor, Tensor], Tensor],
    batches: Sequence[Tensor],
    learning_rate: float,
    l2: float,
    correct: Callable[[Any], object] | None = None,
) -> float:
    """One step of gradient descent per batch; changes the parameters, returns the mean loss over samples.

    The gradient of a batch is that of its mean loss + l2/2 · Σ(weights²), without biases. `correct` is called with the
    named parameters after each gradient and before the step, and may change the gradients.
    """
    total, count = 0.0, 0
    for batch in batches:
        loss = loss_of(forward(parameters, features[batch]), targets[batch])
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            if l2:
                for tensor in parameters.values():
                    if tensor.ndim > 1 and tensor.grad is not None:
                        tensor.grad.add_(tensor, alpha=l2)
            if correct is not None:
                correct(parameters.items())
            for tensor in parameters.values():
                assert tensor.grad is not None
                tensor.sub_(tensor.grad, alpha=learning_rate)
                tensor.grad = None
        total += loss.item() * len(batch)
        count += len(batch)
    return total / count if count else 0.0


def make_batches(row_count: int, batch_size: int, epoch_count: int, random: np.random.Generator) -> list[Tensor]:
    """For each epoch a random order of all rows, cut into ⌈rows / batch size⌉ batches of nearly equal size."""
    batch_count = math.ceil(row_count / batch_size)
    return [
        batch
        for _ in range(epoch_count if row_count else 0)
        for batch in torch.from_numpy(random.permutation(row_count)).tensor_split(batch_count)
    ]


def probabilities(outputs: Tensor) -> NDArray[np.float64]:
    """Of class 1 if there are two, otherwise one column per class; in double precision, which keeps ties apart."""
    precise = outputs.detach().double()
    if precise.shape[1] == 1:
        return np.asarray(torch.sigmoid(precise[:, 0]).numpy())
    return np.asarray(torch.softmax(precise, dim=1).numpy())


def true_class_probabilities(outputs: Tensor, classes: Tensor) -> Tensor:
    """The smooth score of classification: the probability that each row's true class is given."""
    if outputs.shape[1] == 1:
        signs = 2 * classes.to(outputs.dtype) - 1
        return torch.sigmoid(signs * outputs[:, 0])
    return torch.softmax(outputs, dim=1).gather(1, classes[:, None])[:, 0]


def closeness(outputs: Tensor, standardised: Tensor) -> Tensor:
    """The smooth score of regression, from 0 to 1: exp(−e²/2), e the error in standard deviations of the target."""
    return torch.exp(-((outputs[:, 0] - standardised) ** 2) / 2)
