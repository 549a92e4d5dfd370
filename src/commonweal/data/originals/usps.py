"""USPS: LIBSVM text (usps.bz2, usps.t.bz2) or HDF5 (usps.h5); 16×16 grey."""

from __future__ import annotations

import bz2
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from commonweal.bounded_read import LARGEST_DATA, read_bounded, read_up_to
from commonweal.data.optional_packages import needed_for
from commonweal.data.originals import reading
from commonweal.data.samples import Images, Labels
from commonweal.data.source_types import Download, ExternalSource, OfficialFiles, PreparedCopy

_SIZE = 16
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def _read_usps(paths: Sequence[Path]) -> tuple[Images, Labels]:
    """The samples of all files, one after the other."""
    parts = [_read(path) for path in paths]
    return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])


def _read(path: Path) -> tuple[Images, Labels]:
    with reading(path, "usps.bz2 or usps.t.bz2 of LIBSVM, or usps.h5"):
        content = read_bounded(path, LARGEST_DATA)
        if content.startswith(_HDF5_SIGNATURE):
            return _read_hdf5(path)
        if content.startswith(b"BZh"):
            content = read_up_to(bz2.BZ2File(io.BytesIO(content)), LARGEST_DATA, path.name)
        return _read_libsvm(content)


def _read_libsvm(text: bytes) -> tuple[Images, Labels]:
    """Lines "label index:value ...": labels 1..10 for 0..9, indices 1..256, values −1..1, left out where 0."""
    lines = text.splitlines()
    values = np.zeros((len(lines), _SIZE * _SIZE))
    labels = np.empty(len(lines), dtype=np.int64)
    for row, line in enumerate(lines):
        label, *pairs = line.split()
        labels[row] = int(label) - 1
        cells = [pair.split(b":") for pair in pairs]
        columns = np.array([int(index) for index, _ in cells]) - 1
        if columns.min() < 0:
            raise ValueError(f"index 0 in line {row + 1}")
        values[row, columns] = [float(value) for _, value in cells]
    return _to_bytes((values + 1) / 2), labels


def _read_hdf5(path: Path) -> tuple[Images, Labels]:
    """Groups train and test, each with data (N×256, 0..1) and target (0..9)."""
    with needed_for("reading HDF5 files"):
        import h5py
    with h5py.File(path, "r") as file:
        groups = [file[name] for name in ("train", "test") if name in file]
        values = np.concatenate([group["data"][:] for group in groups])
        labels = np.concatenate([group["target"][:] for group in groups])
    if labels.shape != values.shape[:1]:
        raise ValueError(f"{len(labels)} labels for {len(values)} images")
    return _to_bytes(values), labels.astype(np.int64)


def _to_bytes(brightness: NDArray[np.float64]) -> Images:
    if not ((brightness >= 0) & (brightness <= 1)).all():
        raise ValueError("pixel values outside their range")
    # Rounded down, as all published readers of this data do.
    return (brightness * 255).astype(np.uint8).reshape(-1, _SIZE, _SIZE, 1)


_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass"

USPS = ExternalSource(
    name="usps",
    size=28,
    note="USPS (Hull 1994), enlarged from 16×16",
    licence="no formal licence known; research use",
    alternative="uci-digits",
    official=OfficialFiles(
        names="usps.bz2 [usps.t.bz2], or usps.h5",
        counts=(1, 2),
        read=_read_usps,
        downloads=(
            Download(file="usps.bz2", url=f"{_LIBSVM}/usps.bz2", md5="ec16c51db3855ca6c91edd34d0e9b197"),
            Download(file="usps.t.bz2", url=f"{_LIBSVM}/usps.t.bz2", md5="8ea070ee2aca1ac39742fdd1ef5ed118"),
        ),
    ),
    prepared=PreparedCopy(
        sha256="cb40074f2636f450b476c80a46f4f7ed6acbdbd9be39f22d0e43c8600e13251a",
        sample_count=9_298,
        channels=1,
        rows="all rows kept, training and test",
    ),
)
