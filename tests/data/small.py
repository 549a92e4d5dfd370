"""Small scenarios, sources and official files for the tests."""

from __future__ import annotations

import bz2
import gzip
import io
import pickle
import struct
import tarfile

import numpy as np
from PIL import Image

from commonweal.data.samples import Samples
from commonweal.records import Rules
from commonweal.scenario.spec import ClientSpec, DataSpec, MechanismSpec, Scenario


def client(name, *, source="mnist-5k", rate=40.0, defect=None):
    return ClientSpec(name=name, source=source, samples_per_round=rate, defect=defect)


def scenario(*clients, seed=1, validation_share=0.3, label_skew=None):
    return Scenario(
        name="test",
        description="",
        round_count=5,
        seed=seed,
        clients=clients,
        mechanism=MechanismSpec(rules=Rules(mu=0.1)),
        data=DataSpec(validation_share=validation_share, label_skew=label_skew),
    )


def samples(labels, name="toy", *, size=8, channels=1, class_count=10):
    """Every image tells its own index, so a sample can be traced back."""
    labels = np.asarray(labels, dtype=np.int64)
    images = np.zeros((len(labels), size, size, channels), dtype=np.uint8)
    images[:, 0, 0, 0], images[:, 0, 1, 0] = np.divmod(np.arange(len(labels)), 256)
    return Samples(name=name, images=images, labels=labels, class_count=class_count, note="made for a test")


def pictures(count, size, channels, seed=0):
    """Random images: of `size` rows and columns, or of the size (rows, columns)."""
    rows, columns = (size, size) if isinstance(size, int) else size
    shape = (count, rows, columns, 3) if channels == 3 else (count, rows, columns)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def digits(count):
    return np.arange(count, dtype=np.int64) % 10


def idx(array, kind=0x08):
    """The official format: https://yann.lecun.com/exdb/mnist (type 08: bytes, 0b: 2 bytes, 0c: 4 bytes, 0d: floats)."""
    values = array.astype({0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}[kind])
    return bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + values.tobytes()


def write_mnist(folder, images, labels):
    paths = [folder / "train-images-idx3-ubyte.gz", folder / "train-labels-idx1-ubyte.gz"]
    paths[0].write_bytes(gzip.compress(idx(images)))
    paths[1].write_bytes(gzip.compress(idx(labels)))
    return paths


def write_mat(path, images, labels, *, zero=10):
    import scipy.io

    written = np.where(labels == 0, zero, labels).astype(np.uint8)[:, None]
    scipy.io.savemat(path, {"X": images.transpose(1, 2, 3, 0), "y": written}, do_compression=True)
    return path


def write_usps(path, images, labels):
    """Values on LIBSVM's scale −1..1 that stand for the given bytes; zeros are left out, as the format allows."""
    rows = []
    for image, label in zip(images.reshape(len(images), -1), labels, strict=True):
        values = (image + 0.5) / 255.5 * 2 - 1
        cells = [f"{index}:{value:.9f}" for index, value in enumerate(values, start=1) if value != 0]
        rows.append(f"{label + 1} {' '.join(cells)}")
    path.write_bytes(bz2.compress("\n".join(rows).encode()))
    return path


def tar_of(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def write_cifar(path, images, labels, *, batch_pickle=None):
    members = {}
    for number in range(5):
        rows = slice(number * len(images) // 5, (number + 1) * len(images) // 5)
        planes = images[rows].transpose(0, 3, 1, 2).reshape(-1, 3072)
        batch = {b"data": np.ascontiguousarray(planes), b"labels": labels[rows].tolist()}
        members[f"cifar-10-batches-py/data_batch_{number + 1}"] = pickle.dumps(batch, protocol=2)
    if batch_pickle is not None:
        members["cifar-10-batches-py/data_batch_3"] = batch_pickle
    return tar_of(path, members)


def write_mnist_m(path, images, labels, *, left_out=()):
    members = {}
    for number, image in enumerate(images):
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "PNG")
        if number not in left_out:
            members[f"mnist_m/mnist_m_train/{number:08}.png"] = buffer.getvalue()
    lines = [f"{number:08}.png {label}" for number, label in enumerate(labels)]
    members["mnist_m/mnist_m_train_labels.txt"] = ("\n".join(lines) + "\n").encode()
    return tar_of(path, members)
