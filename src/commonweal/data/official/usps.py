"""USPS: LIBSVM text (usps.bz2, usps.t.bz2) or HDF5 (usps.h5); 16×16 grey."""

from __future__ import annotations

import bz2
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from commonweal.data.official.refusal import refused_unless
from commonweal.data.optional_packages import needed_for
from commonweal.data.samples import Images, Labels

_SIZE = 16
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def read_usps(paths: Sequence[Path]) -> tuple[Images, Labels]:
    """The samples of all files, one after the other."""
    parts = [_read(path) for path in paths]
    return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])


def _read(path: Path) -> tuple[Images, Labels]:
    with refused_unless(path, "usps.bz2 or usps.t.bz2 of LIBSVM, or usps.h5"):
        content = path.read_bytes()
        if content.startswith(_HDF5_SIGNATURE):
            return _read_hdf5(path)
        return _read_libsvm(bz2.decompress(content) if content.startswith(b"BZh") else content)


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
    # Rounded down, as every published reader of this data does.
    return (brightness * 255).astype(np.uint8).reshape(-1, _SIZE, _SIZE, 1)
