"""Labelled images, the one noun that every stage of the data shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError

CLASS_COUNT = 10

Images = NDArray[np.uint8]  # (sample, row, column, channel)
Labels = NDArray[np.int64]
Indices = NDArray[np.intp]

_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """All samples of a source: images of one size, 1 channel if grey and 3 (red, green, blue) if coloured.

    The arrays are shared between clients, so they are read-only.
    """

    name: str
    images: Images
    labels: Labels
    note: str

    def __post_init__(self) -> None:
        images, labels = self.images, self.labels
        is_image_block = images.dtype == np.uint8 and images.ndim == 4 and images.shape[3] in (1, 3) and images.size > 0
        if not is_image_block:
            raise InputError(
                f"images must be a block of bytes (samples, rows, columns, 1 or 3 channels) with at least one, got "
                f"{images.dtype} {images.shape} for source '{self.name}'; reshape or convert them"
            )
        if labels.dtype != np.int64 or labels.shape != images.shape[:1]:
            raise InputError(
                f"there must be one 64-bit whole-number label for each of the {len(images)} images, got {labels.dtype} "
                f"{labels.shape} for source '{self.name}'; convert them"
            )
        if labels.min() < 0 or labels.max() >= CLASS_COUNT:
            raise InputError(
                f"labels must be 0 to {CLASS_COUNT - 1}, got {labels.min()} to {labels.max()} for source "
                f"'{self.name}'; number the classes anew"
            )
        object.__setattr__(self, "images", _frozen(np.ascontiguousarray(images)))
        object.__setattr__(self, "labels", _frozen(labels))

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(rows, columns, channels)."""
        _, rows, columns, channels = self.images.shape
        return rows, columns, channels


def _frozen(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    view = array.view()
    view.flags.writeable = False
    return view
