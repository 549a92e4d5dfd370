"""MNIST-M: a tar of PNG files, 32×32 in colour, and a list of their labels."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path, PurePosixPath

import numpy as np

from commonweal.data.official.refusal import refused_unless
from commonweal.data.optional_packages import needed_for
from commonweal.data.samples import Images, Labels

_FOLDER = "mnist_m_train"
_LIST = "mnist_m_train_labels.txt"
_SIZE = 32


def read_mnist_m(path: Path) -> tuple[Images, Labels]:
    """The training images in the order of their list; the published list lacks one image, which is left out."""
    with needed_for("reading PNG files"):
        from PIL import Image
    with refused_unless(path, "the official mnist_m.tar.gz"):
        pictures: dict[str, bytes] = {}
        listed: list[list[str]] | None = None
        # In one pass: jumping about in a gzipped archive would unpack it again and again.
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                place = PurePosixPath(member.name)
                content = archive.extractfile(member) if member.isfile() else None
                if content is None:
                    continue
                if place.parent.name == _FOLDER and place.suffix == ".png":
                    pictures[place.name] = content.read()
                elif place.name == _LIST:
                    listed = [line.split() for line in content.read().decode("ascii").splitlines()]
        if not listed:
            raise ValueError(f"no {_LIST}")
        images = np.empty((len(listed), _SIZE, _SIZE, 3), dtype=np.uint8)
        for row, (name, _) in enumerate(listed):
            if name not in pictures:
                raise ValueError(f"no {_FOLDER}/{name}")
            with Image.open(io.BytesIO(pictures[name]), formats=["PNG"]) as picture:
                if picture.size != (_SIZE, _SIZE):
                    raise ValueError(f"{_FOLDER}/{name} of size {picture.width}×{picture.height}")
                images[row] = np.asarray(picture.convert("RGB"))
        return images, np.array([int(label) for _, label in listed], dtype=np.int64)
