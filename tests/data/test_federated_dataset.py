"""What a client receives: the right images with the right labels, whoever else is there."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.data.importing import import_source
from commonweal.data.sources import load_source
from commonweal.errors import ScenarioError
from commonweal.scenario.spec import Duplicates, LabelFlip, LabelNoise
from tests.data.small import client, digits, pictures, scenario

HOSPITAL = client("hospital", rate=30)


def assert_same(first, second):
    for field in fields(first):
        assert np.array_equal(getattr(first, field.name), getattr(second, field.name)), field.name


def image_keys(images):
    return [image.tobytes() for image in images]


def test_received_samples_are_those_of_the_source_with_their_labels():
    dataset = FederatedDataset.for_scenario(scenario(HOSPITAL, client("clinic", rate=60)), None)
    source = load_source("mnist-5k", None)
    label_of = dict(zip(image_keys(source.images), source.labels.tolist(), strict=True))
    seen = []
    for name in ("hospital", "clinic"):
        for number in range(1, 6):
            samples = dataset.samples_for(name, number)
            assert (samples.client, samples.round_number) == (name, number)
            for images, labels in (
                (samples.training_images, samples.training_labels),
                (samples.validation_images, samples.validation_labels),
            ):
                assert (images.dtype, labels.dtype) == (np.uint8, np.int64)
                assert [label_of[key] for key in image_keys(images)] == labels.tolist()
                seen += image_keys(images)
            assert samples.fresh_count == samples.declared_count
            assert samples.fresh_count == len(samples.training_labels) + len(samples.validation_labels)
            assert not samples.is_dry
    assert len(seen) == len(set(seen)), "a sample was delivered twice"


def test_the_same_scenario_gives_the_same_samples_in_any_order():
    first, second = (FederatedDataset.for_scenario(scenario(HOSPITAL), None) for _ in range(2))
    late = first.samples_for("hospital", 4)
    for number in (1, 2, 3, 4):
        second.samples_for("hospital", number)
    assert_same(late, second.samples_for("hospital", 4))


def test_replications_can_share_their_sources():
    first = FederatedDataset.for_scenario(scenario(HOSPITAL), None)
    again = FederatedDataset.from_sources(scenario(HOSPITAL), first.sources)
    other = FederatedDataset.from_sources(scenario(HOSPITAL, seed=2), first.sources)
    assert_same(first.samples_for("hospital", 2), again.samples_for("hospital", 2))
    assert not np.array_equal(first.pools["hospital"], other.pools["hospital"])


def test_clients_of_other_sources_change_nothing():
    alone = FederatedDataset.for_scenario(scenario(HOSPITAL), None)
    beside = FederatedDataset.for_scenario(scenario(client("guest", source="uci-digits"), HOSPITAL), None)
    for number in (1, 2, 3):
        assert_same(alone.samples_for("hospital", number), beside.samples_for("hospital", number))


def test_a_flipping_client_gets_the_images_of_an_honest_one_with_flipped_labels():
    honest = FederatedDataset.for_scenario(scenario(HOSPITAL, client("b")), None)
    flipping = FederatedDataset.for_scenario(scenario(HOSPITAL, client("b", defect=LabelFlip())), None)
    for number in (1, 2):
        plain, flipped = honest.samples_for("b", number), flipping.samples_for("b", number)
        assert np.array_equal(plain.training_images, flipped.training_images)
        assert np.array_equal(plain.training_labels, 9 - flipped.training_labels)
        assert np.array_equal(plain.validation_labels, 9 - flipped.validation_labels)
        assert_same(honest.samples_for("hospital", number), flipping.samples_for("hospital", number))


def test_defects_of_others_on_the_same_source_change_nothing():
    plain = FederatedDataset.for_scenario(scenario(HOSPITAL, client("b")), None)
    noisy = FederatedDataset.for_scenario(scenario(HOSPITAL, client("b", defect=LabelNoise(probability=0.9))), None)
    assert_same(plain.samples_for("hospital", 2), noisy.samples_for("hospital", 2))
    before, after = plain.samples_for("b", 2), noisy.samples_for("b", 2)
    assert np.array_equal(before.training_images, after.training_images)
    assert (before.training_labels != after.training_labels).mean() > 0.6
    assert (before.validation_labels != after.validation_labels).mean() > 0.6


def test_grey_images_get_three_channels_if_others_are_in_colour():
    grey = FederatedDataset.for_scenario(scenario(HOSPITAL), None)
    mixed = FederatedDataset.for_scenario(scenario(HOSPITAL, client("street", source="mnist5k-photo")), None)
    assert (grey.image_shape, mixed.image_shape) == ((28, 28, 1), (28, 28, 3))
    narrow, wide = grey.samples_for("hospital", 1), mixed.samples_for("hospital", 1)
    for channel in range(3):
        assert np.array_equal(wide.training_images[..., channel], narrow.training_images[..., 0])
    assert wide.validation_images.shape[1:] == mixed.samples_for("street", 1).validation_images.shape[1:] == (28, 28, 3)


def test_writing_into_received_samples_changes_nothing():
    dataset = FederatedDataset.for_scenario(scenario(HOSPITAL), None)
    before = dataset.samples_for("hospital", 1).training_images.copy()
    dataset.samples_for("hospital", 1).training_images[:] = 0
    assert np.array_equal(dataset.samples_for("hospital", 1).training_images, before)


def test_copies_are_declared_trained_on_and_never_validated():
    dataset = FederatedDataset.for_scenario(scenario(client("copier", rate=60, defect=Duplicates(fraction=0.5))), None)
    held, validated = set(), set()
    for number in (1, 2, 3):
        samples = dataset.samples_for("copier", number)
        validation = image_keys(samples.validation_images)
        training = image_keys(samples.training_images)
        assert samples.declared_count == len(training) + len(validation)
        assert abs(samples.fresh_count - samples.declared_count / 2) <= 0.5
        assert len(set(training + validation) - held) == samples.fresh_count
        held |= set(training)
        validated |= set(validation)
        assert not held & validated


def test_an_exhausted_pool_is_reported():
    dataset = FederatedDataset.for_scenario(scenario(client("big", source="uci-digits", rate=700)), None)
    received = [dataset.samples_for("big", number) for number in (1, 2, 3, 4)]
    assert [samples.is_dry for samples in received] == [False, False, True, True]
    assert sum(samples.fresh_count for samples in received) == 1797


def test_label_skew_reaches_the_clients():
    dataset = FederatedDataset.for_scenario(scenario(HOSPITAL, client("b"), label_skew=0.01), None)
    assert len(set(dataset.samples_for("hospital", 1).training_labels)) <= 3


def test_sources_of_different_sizes_do_not_mix(tmp_path):
    np.savez(tmp_path / "given.npz", images=pictures(300, 32, 1), labels=digits(300))
    import_source("scans", [tmp_path / "given.npz"], tmp_path)
    with pytest.raises(ScenarioError, match="same image size, but 'mnist-5k' has 28×28 and 'scans' 32×32 pixels"):
        FederatedDataset.for_scenario(scenario(HOSPITAL, client("b", source="scans")), tmp_path)
    alone = FederatedDataset.for_scenario(scenario(client("b", source="scans")), tmp_path)
    assert alone.image_shape == (32, 32, 1)


@pytest.mark.parametrize(
    ("member", "share", "way_out"),
    [
        (client("tiny", rate=0.01), 0.3, "Raise samples_per_round or change the seed"),
        (client("tiny"), 0.0, "Raise samples_per_round"),
        (client("tiny"), 1.0, "Raise samples_per_round"),
        (client("tiny", defect=Duplicates(fraction=1.0)), 0.3, "Lower the fraction of duplicates"),
    ],
)
def test_a_client_that_cannot_start_is_refused_by_name(member, share, way_out):
    with pytest.raises(ScenarioError) as refusal:
        FederatedDataset.for_scenario(scenario(HOSPITAL, member, validation_share=share), None)
    assert way_out in str(refusal.value)
    if share == 0.3:
        assert "Client 'tiny' gets" in str(refusal.value)
