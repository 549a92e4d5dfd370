"""MNIST: a pair of idx files, gzipped or not, in either order."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from commonweal.data.originals import reading
from commonweal.data.samples import Images, Labels
from commonweal.data.source_types import Download, ExternalSource, OfficialFiles, PreparedCopy
from commonweal.errors import StorageError


def _read_mnist(paths: Sequence[Path]) -> tuple[Images, Labels]:
    """Images and labels; the number of dimensions tells which file is which."""
    arrays = {array.ndim: array for array in map(_read_idx, paths)}
    if set(arrays) != {1, 3} or len(arrays[1]) != len(arrays[3]):
        shapes = " and ".join("×".join(map(str, array.shape)) for array in arrays.values())
        raise StorageError(
            f"MNIST is one idx file of images and one of as many labels, but these files hold {shapes}. Give the "
            "official pair."
        )
    return arrays[3][..., None], arrays[1].astype(np.int64)


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """idx: two zero bytes, type 8 (bytes), dimension count, each dimension as 4 bytes big-endian, then the values."""
    with reading(path, "an idx file of bytes"):
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        if content[:3] != b"\0\0\x08":
            raise ValueError("no idx header")
        (dimension_count,) = content[3:4]
        start = 4 + 4 * dimension_count
        shape = struct.unpack(f">{dimension_count}I", content[4:start])
        return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist"  # the one that torchvision uses
_IMAGES, _LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"

MNIST = ExternalSource(
    name="mnist",
    size=28,
    note="MNIST (LeCun, Cortes, Burges)",
    licence="commonly given as CC BY-SA 3.0",
    alternative="mnist-5k",
    official=OfficialFiles(
        names=f"{_IMAGES} {_LABELS}",
        counts=(2,),
        read=_read_mnist,
        downloads=(
            Download(file=_IMAGES, url=f"{_MIRROR}/{_IMAGES}", md5="f68b3c2dcbeaaa9fbdd348bbdeb94873"),
            Download(file=_LABELS, url=f"{_MIRROR}/{_LABELS}", md5="d53e105ee54ea40749a09fcbcd1e9432"),
        ),
    ),
    prepared=PreparedCopy(
        sha256="8297bfb85a88fafa9ad7968b4338ee4456ce1ce3a81bca41e0b5280d07edfb3e",
        sample_count=12_000,
        channels=1,
        rows="12,000 of 60,000 training rows kept",
    ),
)
