"""MNIST: a pair of idx files, gzipped or not, in either order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from commonweal.data.idx_file import read_idx_pair
from commonweal.data.samples import Images, Labels
from commonweal.data.source_types import Download, ExternalSource, OfficialFiles, PreparedCopy
from commonweal.errors import StorageError


def _read_mnist(paths: Sequence[Path]) -> tuple[Images, Labels]:
    """Images 28×28×1 and labels."""
    images, labels = read_idx_pair(paths)
    if images.shape[1:] != (28, 28, 1):
        names = " and ".join(path.name for path in paths)
        raise StorageError(
            f"MNIST has images of 28×28×1 (one channel, grey), but those in {names} are "
            f"{'×'.join(map(str, images.shape[1:]))}. Import them under a name of their own."
        )
    return images, labels


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
