"""idx, the format in which MNIST and its relatives are published: one file of images, one of labels.

Two zero bytes, the type of the values, the number of dimensions, each dimension as 4 bytes, then the values; all
numbers are big-endian. The files may be gzipped.
"""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.bounded_read import LARGEST_DATA, read_bounded, read_up_to
from commonweal.data.samples import Images, Labels
from commonweal.errors import StorageError, os_reason

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP_SIGNATURE = b"\x1f\x8b"
_MOST_DIMENSIONS = 4  # of coloured images: sample, row, column, channel


def read_idx_pair(paths: Sequence[Path]) -> tuple[Images, Labels]:
    """Images (sample, row, column, channel) and labels of two idx files, which may be given in either order."""
    arrays = {path: read_idx(path) for path in paths}
    images = [path for path, array in arrays.items() if array.ndim > 1]
    labels = [path for path, array in arrays.items() if array.ndim == 1]
    if len(images) != 1 or len(labels) != 1:
        held = " and ".join(f"{_shape(array)} in {path.name}" for path, array in arrays.items())
        raise StorageError(
            f"One idx file must hold images (samples×rows×columns) and the other one their labels, got {held}. Give "
            "the two files that belong together."
        )
    return _as_images(arrays[images[0]], images[0]), _as_labels(arrays[labels[0]], labels[0], arrays[images[0]])


def read_idx(path: Path) -> NDArray[Any]:
    """The array of one idx file."""
    content = _unpacked(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise StorageError(
            f"{path.name} is not an idx file: it starts with {content[:4].hex(' ') or 'nothing'}, but an idx file "
            "starts with 00 00 and the type of its values (08 for bytes). Give the file as it was published."
        )
    dimension_count, start = content[3], 4 + 4 * content[3]
    if not 1 <= dimension_count <= _MOST_DIMENSIONS:
        raise StorageError(
            f"{path.name} has {dimension_count} dimensions, but idx files of labels have 1, of grey images 3 and of "
            "coloured ones 4. Give the file as it was published."
        )
    if len(content) < start:
        raise StorageError(f"{path.name} ends within its idx header. Download or copy it again.")
    kind = np.dtype(_TYPES[content[2]])
    shape = struct.unpack(f">{dimension_count}I", content[4:start])
    announced, found = math.prod(shape) * kind.itemsize, len(content) - start
    if announced != found:
        raise StorageError(
            f"{path.name} does not match its idx header, which announces {'×'.join(map(str, shape))} values "
            f"({announced:,} bytes): {found:,} bytes follow. Download or copy it again."
        )
    return np.frombuffer(content, dtype=kind, offset=start).reshape(shape)


def _unpacked(path: Path) -> bytes:
    try:
        content = read_bounded(path, LARGEST_DATA)
    except OSError as error:
        raise StorageError(f"Cannot read {path}: {os_reason(error)}.") from None
    if not content.startswith(_GZIP_SIGNATURE):
        return content
    try:
        return read_up_to(gzip.GzipFile(fileobj=io.BytesIO(content)), LARGEST_DATA, path.name)
    except (EOFError, OSError, zlib.error) as error:
        raise StorageError(f"Cannot unpack {path.name}: {error}. Download or copy it again.") from None


def _as_images(array: NDArray[Any], path: Path) -> Images:
    is_grey, is_coloured = array.ndim == 3, array.ndim == 4 and array.shape[3] == 3
    if array.dtype != np.uint8 or not (is_grey or is_coloured) or array.size == 0:
        raise StorageError(
            f"Images must be bytes (type 08) of samples×rows×columns, in colour samples×rows×columns×3, with at least "
            f"one sample, got {array.dtype.name} {_shape(array)} in {path.name}."
        )
    return array[..., None] if is_grey else array


def _as_labels(array: NDArray[Any], path: Path, images: NDArray[Any]) -> Labels:
    if array.dtype.kind not in "iu":
        raise StorageError(f"Labels must be whole numbers, got {array.dtype.name} in {path.name}.")
    if len(array) != len(images):
        raise StorageError(
            f"There must be one label for each image, got {len(images):,} images and {len(array):,} labels in "
            f"{path.name}. Give the two files that belong together."
        )
    return array.astype(np.int64)


def _shape(array: NDArray[Any]) -> str:
    return "×".join(map(str, array.shape))
