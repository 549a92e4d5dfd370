"""What each client of a scenario receives in each round."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from commonweal.data.arrival import Arrivals, copied_share, copies, wrong_labels
from commonweal.data.pools import make_pools
from commonweal.data.samples import Images, Indices, Labels, Samples
from commonweal.data.sources import load_source
from commonweal.errors import ScenarioError
from commonweal.scenario.spec import ClientSpec, Duplicates, LabelFlip, LabelNoise, Scenario

_LEAST_TRAINING = 2  # batch normalisation needs two samples


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSamples:
    """The samples that a client receives in a round; it keeps those of earlier rounds."""

    client: str
    round_number: int
    training_images: Images
    training_labels: Labels
    validation_images: Images
    validation_labels: Labels
    declared_count: int  # samples that the client says are new: fresh ones and copies
    fresh_count: int  # samples that really are new, and that it pays for
    is_dry: bool  # its pool had fewer samples left than should have arrived


@dataclass(frozen=True, slots=True, kw_only=True)
class FederatedDataset:
    """The samples of a scenario. Immutable: `samples_for` can be called for any round, in any order."""

    sources: Mapping[str, Samples]
    pools: Mapping[str, Indices]
    image_shape: tuple[int, int, int]  # (rows, columns, channels) of all images
    class_count: int  # the largest of the sources; label k is the same class in all of them
    _arrivals: Mapping[str, Arrivals]
    _clients: Mapping[str, ClientSpec]

    @classmethod
    def for_scenario(cls, scenario: Scenario, directory: Path | None) -> FederatedDataset:
        """Load each source once and divide it; raises ScenarioError if a client could not start its first round."""
        names = dict.fromkeys(client.source for client in scenario.clients)
        return cls.from_sources(scenario, {name: load_source(name, directory) for name in names})

    @classmethod
    def from_sources(cls, scenario: Scenario, sources: Mapping[str, Samples]) -> FederatedDataset:
        """The same from loaded samples, which many replications of a scenario can share."""
        clients = {client.name: client for client in scenario.clients}
        image_shape = _common_shape(sources)
        pools = make_pools(scenario.clients, sources, scenario.seed, scenario.data.label_skew)
        arrivals = {
            name: Arrivals(
                client=name,
                pool=pools[name],
                samples_per_round=client.samples_per_round,
                validation_share=scenario.data.validation_share,
                seed=scenario.seed,
                copied_share=copied_share(client.defect),
            )
            for name, client in clients.items()
        }
        dataset = cls(
            sources=sources,
            pools=pools,
            image_shape=image_shape,
            class_count=max(samples.class_count for samples in sources.values()),
            _arrivals=arrivals,
            _clients=clients,
        )
        for name in clients:
            dataset._check_start(name)
        return dataset

    def fingerprint(self) -> str:
        """A hash of all samples, because the same scenario with other data is a different run."""
        content = hashlib.sha256()
        for name, samples in sorted(self.sources.items()):
            # Ten classes are left out: earlier versions knew no others, and their runs can be continued.
            classes = [] if samples.class_count == 10 else [samples.class_count]
            content.update(json.dumps([name, samples.images.shape, *classes]).encode())
            content.update(samples.images.tobytes())
            content.update(samples.labels.tobytes())
        return content.hexdigest()

    def samples_for(self, client: str, round_number: int) -> RoundSamples:
        """What the client receives in the round; rounds count from 1."""
        spec, arrivals = self._clients[client], self._arrivals[client]
        source = self.sources[spec.source]
        labels = source.labels
        arrival = arrivals.in_round(round_number)
        copied = copies(arrivals, round_number)
        training = np.concatenate([arrival.training, copied])
        training_labels, validation_labels = labels[training], labels[arrival.validation]
        if isinstance(spec.defect, LabelNoise | LabelFlip):
            training_labels, validation_labels = wrong_labels(
                training_labels,
                validation_labels,
                spec.defect,
                class_count=source.class_count,  # not the dataset's: the sources of others change nothing here
                seed=arrivals.seed,
                client=client,
                round_number=round_number,
            )
        return RoundSamples(
            client=client,
            round_number=round_number,
            training_images=self.images_of(spec.source, training),
            training_labels=training_labels,
            validation_images=self.images_of(spec.source, arrival.validation),
            validation_labels=validation_labels,
            declared_count=arrival.drawn_count + len(copied),
            fresh_count=arrival.drawn_count,
            is_dry=arrival.is_dry,
        )

    def unseen(self, client: str, round_count: int) -> Indices:
        """The part of a client's pool that does not reach it within so many rounds, as indices into its source."""
        arrivals = self._arrivals[client]
        return arrivals.pool[sum(arrivals.fresh_count(number) for number in range(1, round_count + 1)) :]

    def images_of(self, source: str, indices: Indices) -> Images:
        """Images of a source as clients get them."""
        images = self.sources[source].images[indices]
        # If any source has colour, grey images are repeated in three channels.
        return images if images.shape[3] == self.image_shape[2] else np.repeat(images, self.image_shape[2], axis=3)

    def _check_start(self, client: str) -> None:
        first = self._arrivals[client].in_round(1)
        training_count = len(first.training) + len(copies(self._arrivals[client], 1))
        if training_count < _LEAST_TRAINING or len(first.validation) == 0:
            way_out = "Raise samples_per_round or change the seed."
            if isinstance(self._clients[client].defect, Duplicates):
                way_out = "Lower the fraction of duplicates, raise samples_per_round or change the seed."
            raise ScenarioError(
                f"Client {client!r} gets {training_count} training and {len(first.validation)} validation samples in "
                f"the first round, but needs at least {_LEAST_TRAINING} for training and 1 for validation. {way_out}"
            )


def _common_shape(sources: Mapping[str, Samples]) -> tuple[int, int, int]:
    shapes = {name: samples.image_shape for name, samples in sources.items()}
    (first, (rows, columns, _)), *others = shapes.items()
    for name, shape in others:
        if shape[:2] != (rows, columns):
            raise ScenarioError(
                f"All sources of a scenario must have the same image size, but {first!r} has {rows}×{columns} and "
                f"{name!r} {shape[0]}×{shape[1]} pixels. Import your own images again with the size of the others."
            )
    return rows, columns, max(shape[2] for shape in shapes.values())
