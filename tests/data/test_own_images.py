"""Images of one's own: idx pairs and .npz files of any size and number of classes, under their own name."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.data.idx_file import read_idx
from commonweal.data.importing import import_source
from commonweal.data.own_images import LARGEST_SIDE, SMALLEST_SIDE
from commonweal.data.samples import CLASS_LIMIT, Samples
from commonweal.data.sources import list_sources, load_source, verify
from commonweal.errors import InputError, StorageError
from commonweal.learning.models import ARCHITECTURES
from commonweal.scenario.spec import LabelNoise
from tests.data.small import client, digits, idx, pictures, scenario, write_mnist

COUNT, SIZE, CLASSES = 260, (20, 12), 26


def letters(count=COUNT):
    return np.arange(count, dtype=np.int64) % CLASSES


def write_pair(folder, images, labels, *, kind=0x08, pack=lambda content: content, ending=""):
    """Two files as EMNIST names them."""
    paths = [folder / f"letters-{part}-ubyte{ending}" for part in ("images-idx3", "labels-idx1")]
    paths[0].write_bytes(pack(idx(images)))
    paths[1].write_bytes(pack(idx(labels, kind)))
    return paths


def own_npz(folder, images, labels, **more):
    np.savez(folder / "given.npz", images=images, labels=labels, **more)
    return [folder / "given.npz"]


def status_of(name, directory):
    (status,) = [status for status in list_sources(directory) if status.name == name]
    return status


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("pack", "ending"), [(gzip.compress, ".gz"), (bytes, "")])
@pytest.mark.parametrize("step", [1, -1])
def test_idx_files_become_a_source_with_the_name_that_they_are_given(channels, pack, ending, step, tmp_path):
    images = pictures(COUNT, SIZE, channels)
    files = write_pair(tmp_path, images, letters(), pack=pack, ending=ending)
    entry = import_source("letters", files[::step], tmp_path / "data")
    loaded = load_source("letters", tmp_path / "data")
    assert np.array_equal(loaded.images, images.reshape(COUNT, *SIZE, channels))
    assert np.array_equal(loaded.labels, letters())
    assert loaded.class_count == entry.class_count == CLASSES
    status = status_of("letters", tmp_path / "data")
    assert (status.kind, status.state, status.class_count) == ("own", "present", CLASSES)
    assert (status.sample_count, status.image_shape) == (COUNT, (*SIZE, channels))
    assert all(file.name in status.note for file in files)
    assert verify(tmp_path / "data").sound == ("letters",)


@pytest.mark.parametrize("kind", [0x08, 0x09, 0x0B, 0x0C])
def test_labels_may_be_integers_of_any_width(kind, tmp_path):
    files = write_pair(tmp_path, pictures(COUNT, SIZE, 1), letters(), kind=kind)
    import_source("letters", files, tmp_path)
    assert np.array_equal(load_source("letters", tmp_path).labels, letters())


def test_a_thousand_classes_are_stored_exactly(tmp_path):
    labels = np.arange(2 * CLASS_LIMIT) % CLASS_LIMIT
    entry = import_source("many", write_pair(tmp_path, pictures(len(labels), 8, 1), labels, kind=0x0B), tmp_path)
    assert entry.class_count == CLASS_LIMIT
    assert np.array_equal(load_source("many", tmp_path).labels, labels)


def test_an_npz_file_may_have_many_classes_and_any_size(tmp_path):
    images = pictures(COUNT, SIZE, 3)
    entry = import_source("letters", own_npz(tmp_path, images, letters()), tmp_path / "data")
    assert (entry.class_count, entry.image_shape) == (CLASSES, (*SIZE, 3))
    assert np.array_equal(load_source("letters", tmp_path / "data").images, images)


def test_the_number_of_classes_can_be_stated_by_the_user_or_by_the_file(tmp_path):
    images, odd = pictures(30, SIZE, 1), 1 + 2 * (np.arange(30) % 3)
    assert import_source("a", own_npz(tmp_path, images, odd), tmp_path, class_count=8).class_count == 8
    assert import_source("b", own_npz(tmp_path, images, odd, class_count=7), tmp_path).class_count == 7
    assert import_source("c", write_pair(tmp_path, images, odd), tmp_path, class_count=6).class_count == 6
    assert [load_source(name, tmp_path).class_count for name in "abc"] == [8, 7, 6]
    with pytest.raises(InputError, match=r"You state 8 classes, but given\.npz states 7"):
        import_source("d", own_npz(tmp_path, images, odd, class_count=7), tmp_path, class_count=8)


def test_images_are_resized_to_rows_and_columns_by_pillow(tmp_path):
    from PIL import Image

    images = pictures(4, (30, 16), 3)
    import_source("scans", own_npz(tmp_path, images, digits(4)), tmp_path, size=SIZE)
    loaded = load_source("scans", tmp_path).images
    assert loaded.shape == (4, *SIZE, 3)
    for before, after in zip(images, loaded, strict=True):
        rows, columns = SIZE
        assert np.array_equal(
            after, np.asarray(Image.fromarray(before).resize((columns, rows), Image.Resampling.BILINEAR))
        )


GAP = r"without gaps, but those in .* go from {} to {} and no image has the label {}\. Number .* classes \({}\)"


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (1 + letters(), GAP.format(1, 26, 0, 27)),  # as EMNIST Letters counts them
        (np.arange(COUNT) % 3 * 2, GAP.format(0, 4, "1, 3", 5)),
        (np.arange(COUNT) % 2 * 250, GAP.format(0, 250, r"1, 2, 3, 4, 5, \.\.\.", 251)),
        (np.zeros(COUNT), "All images in .* have the label 0, but there must be at least two classes"),
    ],
)
def test_gaps_in_the_labels_are_refused_unless_the_classes_are_stated(labels, sentence, tmp_path):
    files = write_pair(tmp_path, pictures(COUNT, SIZE, 1), labels)
    with pytest.raises(InputError, match=sentence):
        import_source("letters", files, tmp_path / "data")
    assert not (tmp_path / "data").exists()
    assert import_source("letters", files, tmp_path / "data", class_count=300).class_count == 300


@pytest.mark.parametrize(
    ("labels", "class_count", "sentence"),
    [
        (letters(), 25, r"labels must be 0 to 24, got 0 to 25 in letters-images"),
        (letters() - 1, None, r"labels must be 0 to 999, got -1 to 24"),
        (4 * np.arange(COUNT), None, r"labels must be 0 to 999, got 0 to 1036"),
        (letters(), 1, "There must be 2 to 1000 classes, got 1"),
        (letters(), 1001, "There must be 2 to 1000 classes, got 1001"),
    ],
)
def test_labels_outside_the_classes_are_refused(labels, class_count, sentence, tmp_path):
    files = write_pair(tmp_path, pictures(COUNT, SIZE, 1), labels, kind=0x0C)
    with pytest.raises((InputError, StorageError), match=sentence):
        import_source("letters", files, tmp_path / "data", class_count=class_count)


@pytest.mark.parametrize("stated", [1, 1001, 26.0, "26", [26, 26]])
def test_an_impossible_number_of_classes_in_a_file_is_refused(stated, tmp_path):
    with pytest.raises(StorageError, match=r"class_count must be one whole number from 2 to 1000, got .*given\.npz"):
        import_source("letters", own_npz(tmp_path, pictures(26, 8, 1), letters(26), class_count=stated), tmp_path)


@pytest.mark.parametrize("size", [(7, 28), (28, 7), (8, 1025)])
def test_images_that_no_network_can_take_are_refused_and_can_be_resized(size, tmp_path):
    files = own_npz(tmp_path, pictures(4, size, 1), digits(4))
    with pytest.raises(
        InputError, match=rf"at least 8 rows and columns, .*, and at most 1024, got {size[0]}×{size[1]} in given\.npz"
    ):
        import_source("scans", files, tmp_path)
    assert import_source("scans", files, tmp_path, size=(8, 1024)).image_shape == (8, 1024, 1)


def test_the_smallest_images_are_those_that_every_network_can_take():
    assert max(architecture.smallest_side for architecture in ARCHITECTURES.values()) == SMALLEST_SIDE < LARGEST_SIDE


def damaged(place, content):
    """The pair, with the given content in place of the images (0) or the labels (1)."""

    def make(folder):
        files = write_pair(folder, pictures(10, SIZE, 1), digits(10))
        files[place].write_bytes(content)
        return files

    return make


IMAGES = idx(pictures(10, SIZE, 1))
BAD_PAIRS = {
    "wrong magic": (
        damaged(0, b"\1" + IMAGES[1:]),
        r"images-idx3-ubyte is not an idx file: it starts with 01 00 08 03",
    ),
    "unknown type": (damaged(0, b"\0\0\7" + IMAGES[3:]), "is not an idx file: it starts with 00 00 07 03"),
    "empty": (damaged(1, b""), "labels-idx1-ubyte is not an idx file: it starts with nothing"),
    "html": (damaged(1, b"<html>"), "is not an idx file: it starts with 3c 68 74 6d"),
    "no dimension": (damaged(1, b"\0\0\x08\0"), "has 0 dimensions"),
    "200 dimensions": (damaged(0, b"\0\0\x08\xc8" + bytes(800)), "has 200 dimensions"),
    "cut in the header": (damaged(0, IMAGES[:13]), "images-idx3-ubyte ends within its idx header"),
    "cut short": (damaged(0, IMAGES[:-1]), r"announces 10×20×12 values \(2,400 bytes\): 2,399 bytes follow"),
    "too long": (damaged(0, IMAGES + b"x"), r"\(2,400 bytes\): 2,401 bytes follow"),
    "a huge promise": (damaged(0, b"\0\0\x08\3" + b"\xff" * 12), r": 0 bytes follow\. Download or copy it again"),
    "cut gzip": (damaged(0, gzip.compress(IMAGES)[:-9]), "Cannot unpack letters-images-idx3-ubyte: "),
    "rotten gzip": (damaged(0, b"\x1f\x8b" + bytes(50)), "Cannot unpack letters-images-idx3-ubyte: "),
    "fewer labels": (damaged(1, idx(digits(9))), r"got 10 images and 9 labels in letters-labels-idx1-ubyte"),
    "two of images": (damaged(1, IMAGES), "got 10×20×12 in letters-images-idx3-ubyte and 10×20×12 in letters-labels"),
    "two of labels": (damaged(0, idx(digits(10))), "One idx file must hold images"),
    "no samples": (damaged(0, idx(pictures(0, SIZE, 1))), "at least one sample, got uint8 0×20×12"),
    "four channels": (damaged(0, idx(np.zeros((10, 20, 12, 4)))), "got uint8 10×20×12×4 in letters-images"),
    "images of floats": (damaged(0, idx(pictures(10, SIZE, 1), 0x0D)), "got float32 10×20×12"),
    "images without columns": (damaged(0, idx(np.zeros((10, 20)))), "got uint8 10×20 in letters-images"),
    "labels of floats": (damaged(1, idx(digits(10), 0x0D)), "Labels must be whole numbers, got float32"),
}


@pytest.mark.parametrize("damage", BAD_PAIRS)
def test_damaged_and_foreign_idx_files_are_refused(damage, tmp_path):
    make, sentence = BAD_PAIRS[damage]
    with pytest.raises(StorageError, match=sentence):
        import_source("letters", make(tmp_path), tmp_path / "data")
    assert not (tmp_path / "data").exists()


@given(content=st.binary(max_size=40) | st.binary(max_size=40).map(lambda rest: b"\0\0\x08" + rest))
def test_any_bytes_are_an_array_or_refused(content, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any-bytes"
    path.write_bytes(content)
    with suppress(StorageError):
        assert idx(read_idx(path), content[2]) == content


@pytest.mark.parametrize(
    "files", [["given.npz", "text"], ["text"], ["text", "text", "text"], ["given.npz", "given.npz"]]
)
def test_other_combinations_of_files_are_refused(files, tmp_path):
    own_npz(tmp_path, pictures(4, 28, 1), digits(4))
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InputError, match=r"must be one \.npz file .* or two idx files"):
        import_source("scans", [tmp_path / file for file in files], tmp_path / "data")


def test_files_in_the_format_of_an_original_are_not_listed_as_the_original(tmp_path):
    """Fashion-MNIST has MNIST's format, so only the publisher's checksums can tell them apart."""
    import_source("mnist", write_mnist(tmp_path, pictures(30, 28, 1), digits(30)), tmp_path)
    status = status_of("mnist", tmp_path)
    assert (status.kind, status.state) == ("unchecked", "present")
    assert status.note.startswith("said to be MNIST")
    (tmp_path / "mnist.npz").unlink()
    assert (status_of("mnist", tmp_path).kind, status_of("mnist", tmp_path).state) == ("original", "missing")


def test_images_of_another_size_are_not_mnist(tmp_path):
    with pytest.raises(StorageError, match=r"MNIST has images of 28×28×1 .* are 20×12×1\. Import them under a name"):
        import_source("mnist", write_pair(tmp_path, pictures(20, SIZE, 1), digits(20)), tmp_path)
    with pytest.raises(InputError, match=r"'mnist' has 10 classes\. Leave the number of classes out"):
        import_source("mnist", write_mnist(tmp_path, pictures(20, 28, 1), digits(20)), tmp_path, class_count=10)


@pytest.mark.skipif(not os.environ.get("COMMONWEAL_DATA"), reason="the originals are read where COMMONWEAL_DATA is set")
def test_prepared_copies_are_listed_as_originals():
    assert status_of("mnist", Path(os.environ["COMMONWEAL_DATA"])).kind == "original"


def test_manifests_of_version_0_1_are_read(tmp_path):
    """They had neither class_count nor is_published: all sources had ten classes, whichever of them occurred."""
    import_source("scans", own_npz(tmp_path, pictures(7, 28, 1), digits(7)), tmp_path)
    import_source("mnist", write_mnist(tmp_path, pictures(30, 28, 1), digits(30)), tmp_path)
    document = json.loads((tmp_path / "manifest.json").read_text())
    for entry in document["sources"].values():
        del entry["class_count"], entry["is_published"]
    (tmp_path / "manifest.json").write_text(json.dumps(document))
    assert load_source("scans", tmp_path).class_count == 10
    assert status_of("mnist", tmp_path).kind == "unchecked"  # its note says that checksums are unknown
    document["sources"]["mnist"]["note"] = (
        "MNIST (LeCun, Cortes, Burges); all 30 rows of official files by their checksums"
    )
    (tmp_path / "manifest.json").write_text(json.dumps(document))
    assert status_of("mnist", tmp_path).kind == "original"


@pytest.mark.parametrize("class_count", [0, 1, CLASS_LIMIT + 1, 25])
def test_samples_know_their_classes(class_count):
    images = pictures(COUNT, SIZE, 3)
    with pytest.raises(InputError, match=r"2 to 1000 classes, got|labels must be 0 to 24, got 0 to 25"):
        Samples(name="letters", images=images, labels=letters(), class_count=class_count, note="")


@pytest.fixture
def two_sources(tmp_path):
    """Letters (26 classes) and digits (10) of the same size."""
    import_source("letters", write_pair(tmp_path, pictures(520, SIZE, 1), letters(520)), tmp_path)
    import_source("digits", own_npz(tmp_path, pictures(400, SIZE, 1), digits(400)), tmp_path)
    return tmp_path


def test_sources_of_one_scenario_share_the_larger_number_of_classes(two_sources):
    both = scenario(client("a", source="letters"), client("b", source="digits"))
    assert FederatedDataset.for_scenario(both, two_sources).class_count == CLASSES
    assert FederatedDataset.for_scenario(scenario(client("b", source="digits")), two_sources).class_count == 10


@pytest.mark.parametrize("label_skew", [None, 0.5])
def test_a_source_with_more_classes_changes_nothing_for_clients_of_others(two_sources, label_skew):
    noisy = client("b", source="digits", defect=LabelNoise(probability=0.9))
    alone = FederatedDataset.for_scenario(scenario(noisy, label_skew=label_skew), two_sources)
    beside = FederatedDataset.for_scenario(
        scenario(client("a", source="letters"), noisy, label_skew=label_skew), two_sources
    )
    for number in (1, 2, 3):
        before, after = alone.samples_for("b", number), beside.samples_for("b", number)
        assert np.array_equal(before.training_images, after.training_images)
        assert np.array_equal(before.training_labels, after.training_labels)
        assert after.training_labels.max() < 10


def test_wrong_labels_are_of_all_classes_of_the_source(two_sources):
    noisy = client("a", source="letters", rate=400, defect=LabelNoise(probability=1.0))
    received = FederatedDataset.for_scenario(scenario(noisy), two_sources).samples_for("a", 1)
    assert set(received.training_labels.tolist()) == set(range(CLASSES))


def test_the_fingerprint_knows_the_number_of_classes(tmp_path):
    """Another number of classes is another network, so such a run cannot be continued."""
    found = set()
    for class_count in (10, 11, 12):
        files = own_npz(tmp_path, pictures(300, SIZE, 1), digits(300))
        import_source("scans", files, tmp_path, class_count=class_count)
        dataset = FederatedDataset.for_scenario(scenario(client("a", source="scans")), tmp_path)
        found.add(dataset.fingerprint())
    assert len(found) == 3
