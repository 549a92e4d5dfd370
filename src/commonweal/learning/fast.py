"""The fast learner: forward and backward pass written by hand, for one core.

Compared with autograd on modules it avoids: gradients of large layers (the product that would give the gradient adds
the step to the weights), slow memory layouts (images are height, width, channel throughout), three quarters of the
rectifiers (they follow pooling, which gives the same result), and batch normalisation as a separate pass when scoring
(it is folded into the kernels). `plain` is the same computation with PyTorch's modules, and the reference in tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from commonweal.learning.learner import Correction
from commonweal.learning.models import NORM_EPSILON, Layout, Tensors
from commonweal.scenario.spec import ScoreName

_aten = torch.ops.aten
_CHUNK = 128  # samples scored together, so that their activations stay in the cache
_WINDOW_ENTRIES = 1 << 20


class _Normed(NamedTuple):
    """What the backward pass of batch normalisation needs."""

    raw: Tensor
    out: Tensor
    mean: Tensor
    inverse_deviation: Tensor


class _Layer(NamedTuple):
    """What the backward pass needs of a layer."""

    x: Tensor
    weight: Tensor
    normed: _Normed
    winners: Tensor | None  # which input each pooling window took
    rectified: Tensor


class FastLearner:
    """Trains and scores model vectors of one layout."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._pools = layout.architecture.pools

    @torch.no_grad()
    def train(
        self,
        vector: Tensor,
        images: Tensor,
        labels: Tensor,
        epochs: Sequence[Sequence[Tensor]],
        learning_rate: float,
        correction: Correction | None = None,
    ) -> tuple[Tensor, float]:
        vector = vector.clone()
        model, trainable = self.layout.tensors(vector), vector[self.layout.trainable]
        loss_sum = 0.0
        for batches in epochs:
            for number, batch in enumerate(batches):
                added = None if correction is None else correction(trainable.clone())
                layers, features = self._forward(model, images[batch], averaging=1 / (number + 1))
                gradient, loss = _head_step(model, features, labels[batch], learning_rate)
                self._backward_steps(model, layers, gradient, learning_rate)
                if added is not None:
                    trainable.sub_(added, alpha=learning_rate)
                loss_sum += loss
        return vector, loss_sum / sum(len(batch) for batches in epochs for batch in batches)

    @torch.no_grad()
    def probabilities(self, vector: Tensor, images: Tensor) -> Tensor:
        """The probability of each class, one row per image, in double precision."""
        model = self.layout.tensors(vector)
        return torch.cat([self._logits(model, chunk) for chunk in torch.split(images, _CHUNK)]).double().softmax(1)

    @torch.no_grad()
    def score(self, vector: Tensor, images: Tensor, labels: Tensor, kind: ScoreName) -> Tensor:
        model = self.layout.tensors(vector)
        logits = torch.cat([self._logits(model, chunk) for chunk in torch.split(images, _CHUNK)])
        if kind == "hit":
            return (logits.argmax(1) == labels).double()
        return logits.double().softmax(1).gather(1, labels[:, None])[:, 0]

    def gradient(self, vector: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        """The gradient of the mean probability of the true class, with respect to every entry of the vector.

        Batch normalisation uses its statistics, as in scoring, and they have a gradient too. Each tensor of the model
        is a leaf of its own: the gradient of a slice would be a whole vector of zeros for each of them.
        """
        leaves = [part.of(vector).detach().requires_grad_() for part in self.layout.parts]
        model = self.layout.named(leaves)
        for some, classes in zip(torch.split(images, _CHUNK), torch.split(labels, _CHUNK), strict=True):
            of_true_class = self._logits(model, some).double().softmax(1).gather(1, classes[:, None])
            (of_true_class.sum() / len(labels)).backward()  # type: ignore[no-untyped-call]
        return torch.cat([_gradient_of(leaf).reshape(-1) for leaf in leaves])

    def _forward(self, model: Tensors, images: Tensor, *, averaging: float) -> tuple[list[_Layer], Tensor]:
        """The five normalised layers. BN statistics become the mean over the epoch's batches up to this one."""

        def normed(i: int, raw: Tensor) -> _Normed:
            out, mean, inverse_deviation = torch.native_batch_norm(
                raw, model.scales[i], model.shifts[i], model.means[i], model.variances[i], True, averaging, NORM_EPSILON
            )
            return _Normed(raw, out, mean, inverse_deviation)

        layers: list[_Layer] = []
        x = images.permute(0, 3, 1, 2)
        for i, (kernel, is_pooled) in enumerate(zip(model.kernels, self._pools, strict=True)):
            norm = normed(i, torch.conv2d(x, kernel, None, 1, kernel.shape[-1] // 2))
            if is_pooled:
                peaks, winners = _aten.max_pool2d_with_indices(norm.out, [2, 2])
                layers.append(_Layer(x, kernel, norm, winners, peaks.relu_()))
            else:
                layers.append(_Layer(x, kernel, norm, None, norm.out.relu_()))
            x = layers[-1].rectified
        x = x.permute(0, 2, 3, 1).reshape(len(images), -1)
        for i, weight in enumerate(model.linears, start=len(layers)):
            norm = normed(i, x @ weight.t())
            layers.append(_Layer(x, weight, norm, None, norm.out.relu_()))
            x = layers[-1].rectified
        return layers, x

    def _backward_steps(self, model: Tensors, layers: list[_Layer], gradient: Tensor, learning_rate: float) -> None:
        """Steps of all layers but the last, last to first; a weight changes after it has passed the gradient on."""
        convolution_count = len(model.kernels)
        for i, layer in reversed(list(enumerate(layers))):
            if i == convolution_count - 1:
                batch_size, channel_count, height, width = layer.rectified.shape
                gradient = gradient.view(batch_size, height, width, channel_count).permute(0, 3, 1, 2)
            gradient = _aten.threshold_backward(gradient, layer.rectified, 0)
            if layer.winners is not None:
                gradient = _aten.max_pool2d_with_indices_backward(
                    gradient, layer.normed.out, [2, 2], [2, 2], [0, 0], [1, 1], False, layer.winners
                )
            norm, scale = layer.normed, model.scales[i]
            gradient, to_scale, to_shift = _aten.native_batch_norm_backward(
                gradient, norm.raw, scale, None, None, norm.mean, norm.inverse_deviation, True, NORM_EPSILON, [True] * 3
            )
            scale.sub_(to_scale, alpha=learning_rate)
            model.shifts[i].sub_(to_shift, alpha=learning_rate)
            if i >= convolution_count:
                passed_on = gradient @ layer.weight
                layer.weight.addmm_(gradient.t(), layer.x, alpha=-learning_rate)
                gradient = passed_on
            else:
                passed_on = gradient
                if i > 0:
                    passed_on = _convolution_backward(gradient, layer.x, layer.weight, [True, False, False])[0]
                _kernel_step(gradient, layer.x, layer.weight, learning_rate)
                gradient = passed_on

    def _logits(self, model: Tensors, images: Tensor) -> Tensor:
        """As `_forward`, but with the stored statistics, where batch normalisation is factor · x + shift."""
        factors = [
            scale * (variance + NORM_EPSILON).rsqrt()
            for scale, variance in zip(model.scales, model.variances, strict=True)
        ]
        shifts = [shift - mean * factor for shift, mean, factor in zip(model.shifts, model.means, factors, strict=True)]
        x = images.permute(0, 3, 1, 2)
        for i, (kernel, is_pooled) in enumerate(zip(model.kernels, self._pools, strict=True)):
            x = torch.conv2d(x, kernel * factors[i][:, None, None, None], shifts[i], 1, kernel.shape[-1] // 2)
            x = (functional.max_pool2d(x, 2) if is_pooled else x).relu_()
        x = x.permute(0, 2, 3, 1).reshape(len(images), -1)
        for i, weight in enumerate(model.linears, start=len(model.kernels)):
            x = torch.addcmul(shifts[i], x @ weight.t(), factors[i]).relu_()
        return torch.addmm(model.head_bias, x, model.head.t())


def _gradient_of(leaf: Tensor) -> Tensor:
    assert leaf.grad is not None, "every tensor of a model has an effect on its scores"
    return leaf.grad


def _head_step(model: Tensors, features: Tensor, labels: Tensor, learning_rate: float) -> tuple[Tensor, float]:
    """Step of the last layer; returns the gradient at its input and the sum of the losses."""
    log_probabilities = torch.addmm(model.head_bias, features, model.head.t()).log_softmax(1)
    loss = -float(log_probabilities.gather(1, labels[:, None]).sum())
    gradient = (log_probabilities.exp() - functional.one_hot(labels, len(model.head_bias))) / len(labels)
    passed_on = gradient @ model.head
    model.head.addmm_(gradient.t(), features, alpha=-learning_rate)
    model.head_bias.sub_(gradient.sum(0), alpha=learning_rate)
    return passed_on, loss


def _kernel_step(gradient: Tensor, x: Tensor, kernel: Tensor, learning_rate: float) -> None:
    """Step of a kernel: one matrix product as long as the windows that it slides over fit into the cache."""
    out_count, in_count, size, _ = kernel.shape
    batch_size, _, height, width = x.shape
    pixels = gradient.permute(0, 2, 3, 1).reshape(-1, out_count)
    by_pixel = kernel.permute(0, 2, 3, 1).view(out_count, -1)  # (out, window)
    if size * size * in_count * len(pixels) > _WINDOW_ENTRIES:
        kernel.sub_(_convolution_backward(gradient, x, kernel, [False, True, False])[1], alpha=learning_rate)
        return
    padded = functional.pad(x.permute(0, 2, 3, 1), [0, 0, *[size // 2] * 4])
    by_image, by_row, by_column, _ = padded.stride()
    if in_count == 1:  # one window per column: with one channel, rows of the image are the longest runs to copy
        shape, strides = (size, size, batch_size, height, width), (by_row, by_column, by_image, by_row, by_column)
        windows = padded.as_strided(shape, strides).reshape(size * size, -1)
        by_pixel.sub_((windows @ pixels).t(), alpha=learning_rate)
    else:
        shape, strides = (batch_size, height, width, size, size * in_count), (by_image, by_row, by_column, by_row, 1)
        windows = padded.as_strided(shape, strides).reshape(len(pixels), -1)
        by_pixel.addmm_(pixels.t(), windows, alpha=-learning_rate)


def _convolution_backward(gradient: Tensor, x: Tensor, kernel: Tensor, wanted: list[bool]) -> tuple[Tensor, ...]:
    padding = kernel.shape[-1] // 2
    return _aten.convolution_backward(  # type: ignore[no-any-return]
        gradient, x, kernel, None, [1, 1], [padding] * 2, [1, 1], False, [0, 0], 1, wanted
    )
