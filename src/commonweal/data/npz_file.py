"""The file format of a data directory: a NumPy .npz with `images` (uint8, N×H×W or N×H×W×3) and `labels` (0, 1, ...).

A file that a user imports may also state the number of classes, as `class_count`.
"""

from __future__ import annotations

import io
import zipfile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from commonweal.data.samples import CLASS_LIMIT, Images, Labels
from commonweal.errors import StorageError

_FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can store


class NpzContent(NamedTuple):
    """What an .npz holds."""

    images: Images
    labels: Labels
    class_count: int | None  # if the file states it


def from_npz(content: bytes, where: str) -> NpzContent:
    """The samples in the bytes of an .npz; `where` names the file in messages. Never unpickles."""
    try:
        if content.startswith(b"\x93NUMPY"):
            raise ValueError("it is a single array, not an archive")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            missing = sorted({"images", "labels"} - set(archive.files))
            arrays = None if missing else (np.asarray(archive["images"]), np.asarray(archive["labels"]))
            stated = np.asarray(archive["class_count"]) if "class_count" in archive.files else None
    except Exception as error:  # numpy, zipfile and zlib raise a dozen kinds of errors on damaged files
        raise StorageError(
            f"{where} is not a complete NumPy .npz file: {_first_line(error)}. Download or save it again."
        ) from None
    if arrays is None:
        raise StorageError(
            f"{where} has no array {' and no array '.join(missing)}. Save it with numpy.savez(file, images=..., "
            "labels=...)."
        )
    images, labels = _as_images(arrays[0], where), _as_labels(arrays[1], len(arrays[0]), where)
    class_count = None if stated is None else _as_class_count(stated, where)
    check_labels(labels, class_count or CLASS_LIMIT, where)
    return NpzContent(images, labels, class_count)


def check_labels(labels: Labels, class_count: int, where: str) -> None:
    """Raise StorageError unless all labels are 0 to `class_count` − 1."""
    least, most = int(labels.min()), int(labels.max())
    if least < 0 or most >= class_count:
        raise StorageError(f"labels must be 0 to {class_count - 1}, got {least} to {most} in {where}.")


def to_npz(images: Images, labels: Labels) -> bytes:
    """The bytes of an .npz; the same samples give the same bytes on every machine.

    To that end there is no compression, whose bytes depend on the version of zlib, and all members have a fixed time.
    """
    label_type = np.uint8 if labels.max() < 256 else np.uint16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in (("images", images), ("labels", labels.astype(label_type))):
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _FIXED_TIME), member.getvalue())
    return buffer.getvalue()


def _as_images(array: NDArray[np.generic], where: str) -> Images:
    grey, coloured = array.ndim == 3, array.ndim == 4 and array.shape[3] in (1, 3)
    if array.dtype != np.uint8 or not (grey or coloured) or array.size == 0:
        raise StorageError(
            f"images must be uint8 of shape N×H×W or N×H×W×3 with at least one sample, got {array.dtype} "
            f"{'×'.join(map(str, array.shape))} in {where}."
        )
    images: Images = array[..., None] if grey else array  # type: ignore[assignment]
    return np.ascontiguousarray(images)


def _as_labels(array: NDArray[np.generic], image_count: int, where: str) -> Labels:
    if array.dtype.kind not in "iu" or array.shape != (image_count,):
        raise StorageError(
            f"labels must be integers, one for each of the {image_count} images, got {array.dtype} "
            f"{'×'.join(map(str, array.shape))} in {where}."
        )
    return array.astype(np.int64)


def _as_class_count(array: NDArray[np.generic], where: str) -> int:
    if array.dtype.kind not in "iu" or array.size != 1 or not 2 <= array.item() <= CLASS_LIMIT:
        raise StorageError(
            f"class_count must be one whole number from 2 to {CLASS_LIMIT}, got {array.dtype} "
            f"{array.item() if array.size == 1 else '×'.join(map(str, array.shape))} in {where}."
        )
    return int(array.item())


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
