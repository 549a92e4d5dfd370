"""MNIST-M: a tar of PNG files, 32×32 in colour, and a list of their labels."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from commonweal.data.optional_packages import needed_for
from commonweal.data.originals import reading
from commonweal.data.samples import Images, Labels
from commonweal.data.source_types import Download, ExternalSource, OfficialFiles, PreparedCopy

_FOLDER = "mnist_m_train"
_LIST = "mnist_m_train_labels.txt"
_SIZE = 32


def _read_mnist_m(paths: Sequence[Path]) -> tuple[Images, Labels]:
    """The training images in the order of the label list; the one image that the published list lacks is left out."""
    (path,) = paths
    with needed_for("reading PNG files"):
        from PIL import Image
    with reading(path, "the official mnist_m.tar.gz"):
        pictures: dict[str, bytes] = {}
        listed: list[list[str]] | None = None
        # In one pass, because seeking in a gzipped archive unpacks it from the start.
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


MNIST_M = ExternalSource(
    name="mnistm",
    size=28,
    note="MNIST-M (Ganin and Lempitsky 2015)",
    licence="no explicit licence known; BSDS500 photographs: non-commercial research and education",
    alternative="mnist5k-photo",
    official=OfficialFiles(
        names="mnist_m.tar.gz",
        counts=(1,),
        read=_read_mnist_m,
        downloads=(Download(file="mnist_m.tar.gz"),),  # on a file-sharing service without stable addresses
    ),
    prepared=PreparedCopy(
        sha256="36c330d661ff963958a4105ad8b4cfb20e176d4676fafe970cbf6a3d05bc5cf6",
        sample_count=12_000,
        channels=3,
        rows="12,000 of 59,000 training rows kept",
    ),
)
