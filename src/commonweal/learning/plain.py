"""The plain learner: PyTorch's modules, autograd and optimiser. Tests compare `fast` with it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from commonweal.learning.learner import Correction
from commonweal.learning.models import NORM_EPSILON, Layout
from commonweal.scenario.spec import ScoreName


class Network(nn.Module):
    """The architecture as a module."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        architecture = layout.architecture
        self.pools = architecture.pools
        self.convolutions = nn.ModuleList(
            nn.Conv2d(part.shape[3], part.shape[0], part.shape[1], padding=part.shape[1] // 2, bias=False)
            for part in layout.convolutions
        )
        self.linears = nn.ModuleList(nn.Linear(part.shape[1], part.shape[0], bias=False) for part in layout.linears)
        self.head = nn.Linear(layout.head.shape[1], layout.head.shape[0])
        # momentum=None: statistics are the plain average of the batches since they were reset.
        norms: list[nn.Module] = [nn.BatchNorm2d(c, NORM_EPSILON, momentum=None) for c in architecture.channels]
        norms += [nn.BatchNorm1d(h, NORM_EPSILON, momentum=None) for h in architecture.hidden]
        self.norms = nn.ModuleList(norms)

    def forward(self, x: Tensor) -> Tensor:
        for convolution, norm, is_pooled in zip(self.convolutions, self.norms[:3], self.pools, strict=True):
            x = functional.relu(norm(convolution(x)))
            if is_pooled:
                x = functional.max_pool2d(x, 2)
        x = x.permute(0, 2, 3, 1).flatten(1)
        for linear, norm in zip(self.linears, self.norms[3:], strict=True):
            x = functional.relu(norm(linear(x)))
        logits: Tensor = self.head(x)
        return logits


class PlainLearner:
    """Trains and scores model vectors of one layout."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._network = Network(layout)

    def train(
        self,
        vector: Tensor,
        images: Tensor,
        labels: Tensor,
        epochs: Sequence[Sequence[Tensor]],
        learning_rate: float,
        correction: Correction | None = None,
    ) -> tuple[Tensor, float]:
        network = self.to_network(vector)
        optimiser = torch.optim.SGD(network.parameters(), lr=learning_rate)
        images = _channels_first(images)
        losses: list[Tensor] = []
        network.train()
        for batches in epochs:
            for norm in network.norms:
                norm.reset_running_stats()  # type: ignore[operator]
            for batch in batches:
                added = None
                if correction is not None:
                    added = correction(self.to_vector(network)[self.layout.trainable])
                optimiser.zero_grad()
                loss = functional.cross_entropy(network(images[batch]), labels[batch])
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                if added is not None:
                    moved = self.to_vector(network)
                    moved[self.layout.trainable] -= learning_rate * added
                    self.load(network, moved)
                losses.append(loss.detach() * len(batch))
        sample_count = sum(len(batch) for batches in epochs for batch in batches)
        return self.to_vector(network), float(torch.stack(losses).sum()) / sample_count

    @torch.no_grad()
    def score(self, vector: Tensor, images: Tensor, labels: Tensor, kind: ScoreName) -> Tensor:
        network = self.to_network(vector)
        network.eval()
        logits: Tensor = network(_channels_first(images))
        if kind == "hit":
            return (logits.argmax(1) == labels).double()
        return logits.double().softmax(1).gather(1, labels[:, None])[:, 0]

    def gradient(self, vector: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        leaf = vector.clone().requires_grad_()
        model = self.layout.tensors(leaf)
        x = _channels_first(images)

        def normed(i: int, raw: Tensor) -> Tensor:
            deviation = (model.variances[i] + NORM_EPSILON).sqrt()
            by_channel = raw.movedim(1, -1)
            out = model.scales[i] * (by_channel - model.means[i]) / deviation + model.shifts[i]
            return functional.relu(out.movedim(-1, 1))

        for i, (kernel, is_pooled) in enumerate(zip(model.kernels, self._network.pools, strict=True)):
            x = normed(i, functional.conv2d(x, kernel, padding=kernel.shape[-1] // 2))
            x = functional.max_pool2d(x, 2) if is_pooled else x
        x = x.permute(0, 2, 3, 1).flatten(1)
        for i, weight in enumerate(model.linears, start=len(model.kernels)):
            x = normed(i, functional.linear(x, weight))
        logits = functional.linear(x, model.head, model.head_bias)
        logits.softmax(1).gather(1, labels[:, None]).mean().backward()  # type: ignore[no-untyped-call]
        assert leaf.grad is not None
        return leaf.grad

    def to_network(self, vector: Tensor) -> Network:
        """This learner's module, filled with the entries of the vector."""
        network = self._network.to(vector.dtype)
        self.load(network, vector)
        return network

    @torch.no_grad()
    def load(self, network: Network, vector: Tensor) -> None:
        for tensor, entries in self._pairs(network, vector):
            tensor.copy_(entries)

    @torch.no_grad()
    def to_vector(self, network: Network) -> Tensor:
        """The entries of the module as a vector."""
        vector = torch.zeros(self.layout.size, dtype=network.head.weight.dtype)
        for tensor, entries in self._pairs(network, vector):
            entries.copy_(tensor)
        return vector

    def _pairs(self, network: Network, vector: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Each tensor of the module with its place in the vector, in the module's order of dimensions."""
        model = self.layout.tensors(vector)
        modules = (network.convolutions, network.linears, network.head)
        tensors: list[Tensor] = [tensor for module in modules for tensor in module.parameters()]
        pairs = list(zip(tensors, [*model.kernels, *model.linears, model.head, model.head_bias], strict=True))
        for i, norm in enumerate(network.norms):
            assert isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d)
            assert norm.running_mean is not None
            assert norm.running_var is not None
            pairs += [
                (norm.weight, model.scales[i]),
                (norm.bias, model.shifts[i]),
                (norm.running_mean, model.means[i]),
                (norm.running_var, model.variances[i]),
            ]
        return pairs


def _channels_first(images: Tensor) -> Tensor:
    # clone, because .contiguous() leaves grey images in a layout that PyTorch treats as channels-last
    return images.permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format)
