"""The official formats, written small, are read back exactly; damaged and foreign files are refused."""

from __future__ import annotations

import gzip
import os
import pickle
import zipfile

import numpy as np
import pytest

from commonweal.data.catalogue import EXTERNAL
from commonweal.data.importing import convert, import_source
from commonweal.data.manifest import read_manifest
from commonweal.data.npz_file import from_npz, to_npz
from commonweal.data.sources import load_source
from commonweal.errors import CommonwealError, InputError, StorageError
from tests.data.small import (
    digits,
    idx,
    pictures,
    tar_of,
    write_cifar,
    write_mat,
    write_mnist,
    write_mnist_m,
    write_usps,
)

COUNT = 40
PUBLISHED = [name for name, source in EXTERNAL.items() if source.official]


def write_usps_h5(path, images, labels):
    import h5py

    with h5py.File(path, "w") as file:
        for name, rows in (("train", slice(0, 30)), ("test", slice(30, None))):
            group = file.create_group(name)
            group["data"] = (images[rows].reshape(-1, 256) + 0.5) / 255.5
            group["target"] = labels[rows]
    return path


OFFICIAL = {
    "mnist": (28, 1, lambda folder, images, labels: write_mnist(folder, images, labels)),
    "svhn": (32, 3, lambda folder, images, labels: [write_mat(folder / "train_32x32.mat", images, labels)]),
    "usps": (16, 1, lambda folder, images, labels: [write_usps(folder / "usps.bz2", images, labels)]),
    "usps-h5": (16, 1, lambda folder, images, labels: [write_usps_h5(folder / "usps.h5", images, labels)]),
    "mnistm": (32, 3, lambda folder, images, labels: [write_mnist_m(folder / "mnist_m.tar.gz", images, labels)]),
    "synthdigits": (
        32,
        3,
        lambda folder, images, labels: [write_mat(folder / "synth_train_32x32.mat", images, labels, zero=0)],
    ),
    "cifar10": (32, 3, lambda folder, images, labels: [write_cifar(folder / "cifar-10-python.tar.gz", images, labels)]),
}


def official(form, folder):
    size, channels, write = OFFICIAL[form]
    images, labels = pictures(COUNT, size, channels), digits(COUNT)
    return images.reshape(COUNT, size, size, channels), labels, write(folder, images, labels)


def source_of(form):
    return form.removesuffix("-h5")


def test_every_original_has_a_format():
    assert {source_of(form) for form in OFFICIAL} == set(PUBLISHED)
    assert set(PUBLISHED) == {source.name for source in EXTERNAL.values() if source.is_original}


@pytest.mark.parametrize("form", OFFICIAL)
def test_official_files_are_read_exactly(form, tmp_path):
    images, labels, files = official(form, tmp_path)
    read_images, read_labels = convert(source_of(form), files)
    assert np.array_equal(read_images, images)
    assert np.array_equal(read_labels, labels)
    assert (read_images.dtype, read_labels.dtype) == (np.uint8, np.int64)


def test_the_mnist_files_may_be_given_in_either_order_and_unpacked(tmp_path):
    images, labels, files = official("mnist", tmp_path)
    for file in files:
        file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
    read_images, read_labels = convert("mnist", [file.with_suffix("") for file in files[::-1]])
    assert np.array_equal(read_images, images)
    assert np.array_equal(read_labels, labels)


def test_usps_test_rows_follow_the_training_rows(tmp_path):
    images, labels = pictures(30, 16, 1), digits(30)
    parts = [
        write_usps(tmp_path / "usps.bz2", images[:20], labels[:20]),
        write_usps(tmp_path / "usps.t.bz2", images[20:], labels[20:]),
    ]
    read_images, read_labels = convert("usps", parts)
    assert np.array_equal(read_images[..., 0], images)
    assert np.array_equal(read_labels, labels)


def test_values_that_libsvm_leaves_out_are_zero_on_its_scale(tmp_path):
    (tmp_path / "usps").write_text("10 1:-1 256:1\n")
    images, labels = convert("usps", [tmp_path / "usps"])
    assert images.reshape(-1)[[0, 1, 254, 255]].tolist() == [0, 127, 127, 255]
    assert labels.tolist() == [9]


def test_an_unlisted_mnist_m_image_is_left_out_and_a_missing_one_refused(tmp_path):
    images, labels = pictures(10, 32, 3), digits(10)
    read_images, _ = convert("mnistm", [write_mnist_m(tmp_path / "a.tar.gz", images, labels[:9])])
    assert np.array_equal(read_images, images[:9])
    with pytest.raises(StorageError, match=r"no mnist_m_train/00000004\.png"):
        convert("mnistm", [write_mnist_m(tmp_path / "b.tar.gz", images, labels, left_out={4})])


@pytest.mark.parametrize("form", OFFICIAL)
@pytest.mark.parametrize("kept", [0, 3, 0.3, 0.6, 0.9])
def test_truncated_files_are_refused(form, kept, tmp_path):
    _, _, files = official(form, tmp_path)
    content = files[0].read_bytes()
    files[0].write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    with pytest.raises(StorageError) as refusal:
        import_source(source_of(form), files, tmp_path / "data")
    assert files[0].name in str(refusal.value)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("form", OFFICIAL)
@pytest.mark.parametrize("content", [b"hello", b"\0" * 5000, b"<html>not found</html>", b"BZhello", b"\x1f\x8b\x08"])
def test_foreign_files_are_refused(form, content, tmp_path):
    _, _, files = official(form, tmp_path)
    files[0].write_bytes(content)
    with pytest.raises(StorageError) as refusal:
        convert(source_of(form), files)
    assert files[0].name in str(refusal.value)


SAME_FORMAT = ({"svhn", "synthdigits"},)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        (name, form)
        for name in PUBLISHED
        for form in OFFICIAL
        if name != source_of(form) and {name, source_of(form)} not in SAME_FORMAT
    ],
)
def test_files_of_another_original_are_refused(name, form, tmp_path):
    _, _, files = official(form, tmp_path)
    with pytest.raises(CommonwealError):
        convert(name, files)


def test_there_must_be_as_many_labels_as_images(tmp_path):
    files = write_mnist(tmp_path, pictures(10, 28, 1), digits(9))
    with pytest.raises(StorageError, match=r"got 10 images and 9 labels in train-labels-idx1-ubyte\.gz"):
        convert("mnist", files)
    with pytest.raises(StorageError, match=r"the other one their labels, got 10×28×28 in train-images"):
        convert("mnist", [files[0], files[0]])


def test_labels_beyond_nine_are_refused(tmp_path):
    files = write_mnist(tmp_path, pictures(11, 28, 1), np.arange(11))
    with pytest.raises(StorageError, match="labels outside 0 to 9"):
        convert("mnist", files)
    broken = write_mat(tmp_path / "x.mat", pictures(12, 32, 3), np.arange(12))
    with pytest.raises(StorageError, match="labels outside 0 to 10"):
        convert("svhn", [broken])


def test_an_idx_file_with_extra_bytes_is_refused(tmp_path):
    files = write_mnist(tmp_path, pictures(10, 28, 1), digits(10))
    files[1].write_bytes(gzip.compress(idx(digits(10)) + b"x"))
    with pytest.raises(StorageError, match=r"train-labels-idx1-ubyte\.gz does not match its idx header"):
        convert("mnist", files)


class Evil:
    """Unpickled the usual way, this makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_cannot_run_code(protocol, tmp_path):
    trap = tmp_path / "trapped"
    content = pickle.dumps({b"data": Evil(str(trap)), b"labels": [1]}, protocol=protocol)
    path = write_cifar(tmp_path / "c.tar.gz", pictures(10, 32, 3), digits(10), batch_pickle=content)
    with pytest.raises(StorageError, match=r"its pickle asks for (posix|nt)\.mkdir"):
        convert("cifar10", [path])
    assert not trap.exists()
    pickle.loads(content)
    assert trap.exists(), "the trap does not work, so it proved nothing"


@pytest.mark.parametrize(
    "array", [np.zeros((2, 3072)), np.array([{}, {}]), np.zeros((2, 3071), np.uint8), np.zeros((1, 3072), np.uint8)]
)
def test_pickled_arrays_other_than_pictures_are_refused(array, tmp_path):
    content = pickle.dumps({b"data": array, b"labels": [1, 2]}, protocol=2)
    path = write_cifar(tmp_path / "c.tar.gz", pictures(10, 32, 3), digits(10), batch_pickle=content)
    with pytest.raises(StorageError, match=r"c\.tar\.gz is not the official cifar-10-python"):
        convert("cifar10", [path])


def test_a_python_2_pickle_is_read(tmp_path):
    """The official batches were pickled by Python 2: byte strings, and numpy's old module names."""
    rows = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072)
    content = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\x01b\x87R(K\x01K\x02M\x00\x0c"
        b"\x86cnumpy\ndtype\nU\x02u1K\0K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89T"
        + len(rows.tobytes()).to_bytes(4, "little")
        + rows.tobytes()
        + b"tbU\x06labels](K\x07K\x08eu."
    )
    members = {f"cifar-10-batches-py/data_batch_{number}": content for number in range(1, 6)}
    images, labels = convert("cifar10", [tar_of(tmp_path / "c.tar.gz", members)])
    assert labels.tolist() == [7, 8] * 5
    assert images[1, 0, 5].tolist() == [rows[1, 5], rows[1, 1024 + 5], rows[1, 2048 + 5]]


@pytest.mark.parametrize("form", OFFICIAL)
def test_imported_originals_have_their_size_and_a_note_on_their_origin(form, tmp_path):
    images, labels, files = official(form, tmp_path)
    name, data = source_of(form), tmp_path / "data"
    entry = import_source(name, files, data)
    loaded = load_source(name, data)
    assert np.array_equal(loaded.labels, labels)
    assert loaded.image_shape == entry.image_shape == (EXTERNAL[name].size, EXTERNAL[name].size, images.shape[3])
    assert loaded.note == entry.note
    assert "checksums unknown" in entry.note  # these files are not the published ones
    assert sorted(path.name for path in data.iterdir()) == sorted(["manifest.json", EXTERNAL[name].file])


def test_the_same_samples_give_the_same_bytes(tmp_path, monkeypatch):
    _, _, files = official("mnist", tmp_path)
    first = import_source("mnist", files, tmp_path / "one")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    os.utime(files[0], (1, 1))
    assert import_source("mnist", files, tmp_path / "two") == first
    with zipfile.ZipFile(tmp_path / "two" / "mnist.npz") as archive:
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {member.compress_type for member in archive.infolist()} == {zipfile.ZIP_STORED}


def test_written_samples_are_plain_numpy_files(tmp_path):
    images, labels = pictures(5, 32, 3), digits(5)
    (tmp_path / "a.npz").write_bytes(to_npz(images, labels))
    with np.load(tmp_path / "a.npz") as archive:
        assert np.array_equal(archive["images"], images)
        assert np.array_equal(archive["labels"], labels)
    assert np.array_equal(from_npz((tmp_path / "a.npz").read_bytes(), "a.npz")[0], images)


def own(tmp_path, *, size=28, count=20, **more):
    np.savez(tmp_path / "given.npz", images=pictures(count, size, 1), labels=digits(count), **more)
    return [tmp_path / "given.npz"]


def test_imports_add_to_the_manifest(tmp_path):
    data = tmp_path / "data"
    import_source("scans", own(tmp_path), data)
    import_source("mnist", official("mnist", tmp_path)[2], data)
    import_source("more", own(tmp_path, count=30), data)
    import_source("scans", own(tmp_path, count=25), data)  # replaced
    entries = read_manifest(data)
    assert {name: entry.sample_count for name, entry in entries.items()} == {"mnist": COUNT, "more": 30, "scans": 25}
    assert len(load_source("scans", data).labels) == 25


@pytest.mark.skipif(os.name == "nt", reason="names of bytes are a matter of POSIX")
def test_any_file_name_can_be_recorded(tmp_path):
    odd = tmp_path / os.fsdecode(b"scan\xff [1].npz")
    own(tmp_path)[0].rename(odd)
    import_source("scans", [odd], tmp_path / "data")
    assert load_source("scans", tmp_path / "data").note == f"your own, from {odd.name}"


def test_own_images_can_be_resized(tmp_path):
    import_source("scans", own(tmp_path, size=40), tmp_path, size=(28, 28))
    assert load_source("scans", tmp_path).image_shape == (28, 28, 1)


@pytest.mark.parametrize("name", ["MNIST", "a b", "", "../x", "synthdigits_rebuilt", "ä", "x" * 80])
def test_misleading_names_are_refused(name, tmp_path):
    with pytest.raises(InputError, match="must be new and consist of lower-case letters"):
        import_source(name, own(tmp_path), tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", ["mnist", "synthdigits", "synthdigits-rebuilt"])
def test_own_samples_cannot_use_the_name_of_an_original(name, tmp_path):
    with pytest.raises(InputError, match=rf"The name '{name}' is reserved for .* Import it under another name\."):
        import_source(name, own(tmp_path), tmp_path / "data")


@pytest.mark.parametrize(
    ("name", "size", "files", "sentence"),
    [
        ("mnist-5k", None, ["given.npz"], "'mnist-5k' is built in and needs no files"),
        ("mnist", None, ["text"], "mnist must be imported from train-images-.*, got 1 files"),
        ("mnist", (9, 9), ["text", "text"], "Only images of your own can be resized, and 'mnist' has a fixed size"),
        ("scans", None, ["text"], r"must be one \.npz file with images and labels, or two idx files, .*, got text"),
        ("scans", None, ["given.npz", "given.npz"], r"must be one \.npz file"),
        ("scans", (7, 28), ["given.npz"], "The size must be 8 to 1024 rows and columns, got 7×28"),
        ("scans", (28, 1025), ["given.npz"], "The size must be 8 to 1024 rows and columns, got 28×1025"),
        ("scans", None, ["."], "is not a file. Check the path"),
    ],
)
def test_impossible_imports_are_refused(name, size, files, sentence, tmp_path):
    own(tmp_path)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InputError, match=sentence):
        import_source(name, [tmp_path / file for file in files], tmp_path / "data", size=size)
    assert not (tmp_path / "data").exists()


def test_leftovers_of_a_killed_import_are_removed(tmp_path):
    work = tmp_path / "data" / ".commonweal-partial"
    work.mkdir(parents=True)
    (work / "scans.npz").write_bytes(b"half")
    import_source("scans", own(tmp_path), tmp_path / "data")
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["manifest.json", "scans.npz"]


def test_a_second_writer_is_refused(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / "data").mkdir()
    descriptor = os.open(tmp_path / "data", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match="another process is using the directory"):
            import_source("scans", own(tmp_path), tmp_path / "data")
    finally:
        os.close(descriptor)
    import_source("scans", own(tmp_path), tmp_path / "data")
