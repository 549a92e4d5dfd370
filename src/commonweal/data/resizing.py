"""All images of a source to one size, as the FedBN reference code does it: bilinear, by Pillow."""

from __future__ import annotations

import numpy as np

from commonweal.data.optional_packages import needed_for
from commonweal.data.samples import Images

DIGIT_SIZE = 28


def resize(images: Images, size: int = DIGIT_SIZE) -> Images:
    """Images (samples, rows, columns, channels) with `size` rows and columns; those that have them stay untouched."""
    count, rows, columns, channels = images.shape
    if rows == columns == size:
        return images
    with needed_for("resizing images"):
        from PIL import Image
    resized = np.empty((count, size, size, channels), dtype=np.uint8)
    squeezed = images[..., 0] if channels == 1 else images  # Pillow's grey images have no channel axis
    target = resized[..., 0] if channels == 1 else resized
    for index in range(count):
        target[index] = np.asarray(Image.fromarray(squeezed[index]).resize((size, size), Image.Resampling.BILINEAR))
    return resized
