"""Images of one's own: an .npz file, or a pair of idx files.

Classes are numbered 0 to C − 1. C is what the user or the file states. If neither does, it is the largest label plus 1,
and every class must occur: a gap is more often a mistake, such as counting from 1, than a class without samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from commonweal.bounded_read import LARGEST_DATA, read_bounded
from commonweal.data.catalogue import EXTERNAL
from commonweal.data.idx_file import read_idx_pair
from commonweal.data.npz_file import check_labels, from_npz
from commonweal.data.samples import CLASS_LIMIT, Images, Labels, resize
from commonweal.errors import InputError, StorageError, os_reason

SMALLEST_SIDE = 8  # the networks halve images up to three times
LARGEST_SIDE = 1024  # the first fully connected layer of `compact` would already have 134 million weights
_GAPS_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnImages:
    """What was read from the user's files, ready to be stored."""

    images: Images
    labels: Labels
    class_count: int
    note: str


def read_own_images(
    files: Sequence[Path], *, size: tuple[int, int] | None = None, class_count: int | None = None
) -> OwnImages:
    """The samples of one .npz file or two idx files.

    `size` is the number of rows and columns to resize to; `class_count` states how many classes there are.
    """
    if size is not None and not all(SMALLEST_SIDE <= side <= LARGEST_SIDE for side in size):
        raise InputError(
            f"The size must be {SMALLEST_SIDE} to {LARGEST_SIDE} rows and columns, got {size[0]}×{size[1]}. Digits use "
            "28×28."
        )
    if class_count is not None and not 2 <= class_count <= CLASS_LIMIT:
        raise InputError(f"There must be 2 to {CLASS_LIMIT} classes, got {class_count}.")
    names = " and ".join(file.name for file in files)
    images, labels, stated = _read(files, names)
    if class_count is not None and stated is not None and class_count != stated:
        raise InputError(f"You state {class_count} classes, but {names} states {stated}. Leave your number out.")
    images = _fitting(images, names) if size is None else resize(images, size)
    counted = _class_count(labels, class_count or stated, names)
    return OwnImages(images=images, labels=labels, class_count=counted, note=f"your own, from {names}")


def _read(files: Sequence[Path], names: str) -> tuple[Images, Labels, int | None]:
    if len(files) == 1 and files[0].suffix == ".npz":
        try:
            content = read_bounded(files[0], LARGEST_DATA)
        except OSError as error:
            raise StorageError(f"Cannot read {files[0]}: {os_reason(error)}.") from None
        return from_npz(content, files[0].name)
    if len(files) == 2 and all(file.suffix != ".npz" for file in files):
        return *read_idx_pair(files), None
    published = ", ".join(source.name for source in EXTERNAL.values() if source.official)
    raise InputError(
        f"Your own images must be one .npz file with images and labels, or two idx files, one of images and one of "
        f"labels (.gz or not), got {names}. Other official files can be imported for {published}."
    )


def _fitting(images: Images, names: str) -> Images:
    rows, columns = images.shape[1:3]
    if not (SMALLEST_SIDE <= rows <= LARGEST_SIDE and SMALLEST_SIDE <= columns <= LARGEST_SIDE):
        raise InputError(
            f"Images must have at least {SMALLEST_SIDE} rows and columns, because the networks halve them up to three "
            f"times, and at most {LARGEST_SIDE}, got {rows}×{columns} in {names}. Import them with a size, e.g. 28, to "
            "resize them."
        )
    return images


def _class_count(labels: Labels, stated: int | None, names: str) -> int:
    check_labels(labels, stated or CLASS_LIMIT, names)
    if stated is not None:
        return stated
    occurrences = np.bincount(labels)
    if len(occurrences) == 1:
        raise InputError(
            f"All images in {names} have the label 0, but there must be at least two classes. If the others have no "
            "images here, state the number of classes."
        )
    gaps = np.flatnonzero(occurrences == 0)
    if len(gaps):
        shown = ", ".join(map(str, gaps[:_GAPS_SHOWN])) + (", ..." if len(gaps) > _GAPS_SHOWN else "")
        raise InputError(
            f"Labels must number the classes 0, 1, 2, ... without gaps, but those in {names} go from {labels.min()} to "
            f"{labels.max()} and no image has the label {shown}. Number the classes from 0, or state the number of "
            f"classes ({len(occurrences)}) to keep classes without images."
        )
    return len(occurrences)
