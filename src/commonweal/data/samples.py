"""Labelled images: the record that all parts of this package share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from commonweal.data.optional_packages import needed_for
from commonweal.errors import InputError

CLASS_LIMIT = 1000
DIGIT_COUNT = 10
DIGIT_SIZE = 28

Images = NDArray[np.uint8]  # (sample, row, column, channel)
Labels = NDArray[np.int64]
Indices = NDArray[np.intp]

_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """All samples of a source: images of one size, 1 channel if grey and 3 (red, green, blue) if coloured.

    Labels are 0 to `class_count` − 1; not every class must occur. The arrays are shared between clients, so they are
    read-only.
    """

    name: str
    images: Images
    labels: Labels
    class_count: int
    note: str

    def __post_init__(self) -> None:
        images, labels = self.images, self.labels
        is_image_block = images.dtype == np.uint8 and images.ndim == 4 and images.shape[3] in (1, 3) and images.size > 0
        if not is_image_block:
            raise InputError(
                f"images must be a uint8 array of shape (samples, rows, columns, 1 or 3 channels) with at least one "
                f"sample, got {images.dtype} {images.shape} for source '{self.name}'."
            )
        if labels.dtype != np.int64 or labels.shape != images.shape[:1]:
            raise InputError(
                f"labels must be an int64 array with one label for each of the {len(images)} images, got "
                f"{labels.dtype} "
                f"{labels.shape} for source '{self.name}'."
            )
        if not 2 <= self.class_count <= CLASS_LIMIT:
            raise InputError(
                f"A source must have 2 to {CLASS_LIMIT} classes, got {self.class_count} for source '{self.name}'."
            )
        if labels.min() < 0 or labels.max() >= self.class_count:
            raise InputError(
                f"labels must be 0 to {self.class_count - 1}, got {labels.min()} to {labels.max()} for source "
                f"'{self.name}'."
            )
        object.__setattr__(self, "images", _frozen(np.ascontiguousarray(images)))
        object.__setattr__(self, "labels", _frozen(labels))

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(rows, columns, channels)."""
        _, rows, columns, channels = self.images.shape
        return rows, columns, channels


def resize(images: Images, size: tuple[int, int]) -> Images:
    """Images of the size (rows, columns), resized as in the FedBN code: bilinear, by Pillow."""
    count, *old_size, channels = images.shape
    if tuple(old_size) == size:
        return images
    with needed_for("resizing images"):
        from PIL import Image
    rows, columns = size
    resized = np.empty((count, rows, columns, channels), dtype=np.uint8)
    squeezed = images[..., 0] if channels == 1 else images  # Pillow's grey images have no channel axis
    target = resized[..., 0] if channels == 1 else resized
    for index in range(count):
        target[index] = np.asarray(Image.fromarray(squeezed[index]).resize((columns, rows), Image.Resampling.BILINEAR))
    return resized


def _frozen(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    view = array.view()
    view.flags.writeable = False
    return view
