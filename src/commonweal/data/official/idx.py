"""MNIST: a pair of idx files, gzipped or not, in either order."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from commonweal.data.official.refusal import refused_unless
from commonweal.data.samples import Images, Labels
from commonweal.errors import InputError

_WHAT = "an idx file of bytes"


def read_mnist(first: Path, second: Path) -> tuple[Images, Labels]:
    """Images and labels; which file is which is told by their number of dimensions."""
    arrays = {array.ndim: array for array in (_read_idx(first), _read_idx(second))}
    if set(arrays) != {1, 3} or len(arrays[1]) != len(arrays[3]):
        shapes = " and ".join("×".join(map(str, array.shape)) for array in arrays.values())
        raise InputError(
            f"MNIST must be one idx file of images and one of as many labels, got {shapes}; name the official pair"
        )
    return arrays[3][..., None], arrays[1].astype(np.int64)


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """idx: two zero bytes, type 8 (bytes), dimension count, each dimension as 4 bytes big-endian, then the values."""
    with refused_unless(path, _WHAT):
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        if content[:3] != b"\0\0\x08":
            raise ValueError("no idx header")
        (dimension_count,) = content[3:4]
        start = 4 + 4 * dimension_count
        shape = struct.unpack(f">{dimension_count}I", content[4:start])
        return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
