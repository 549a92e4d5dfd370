"""Which converter reads the official files of which source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from commonweal.data.official.cifar import read_cifar10
from commonweal.data.official.idx import read_mnist
from commonweal.data.official.mat import read_cropped_digits
from commonweal.data.official.mnist_m import read_mnist_m
from commonweal.data.official.usps import read_usps
from commonweal.data.samples import CLASS_COUNT, Images, Labels
from commonweal.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """The files in which an original is published."""

    files: str
    file_counts: tuple[int, ...]
    read: Callable[[Sequence[Path]], tuple[Images, Labels]]


FORMATS = {
    "mnist": Format(
        files="train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz", file_counts=(2,), read=lambda f: read_mnist(*f)
    ),
    "svhn": Format(files="train_32x32.mat", file_counts=(1,), read=lambda f: read_cropped_digits(*f)),
    "usps": Format(files="usps.bz2 [usps.t.bz2], or usps.h5", file_counts=(1, 2), read=read_usps),
    "mnistm": Format(files="mnist_m.tar.gz", file_counts=(1,), read=lambda f: read_mnist_m(*f)),
    "synthdigits": Format(files="synth_train_32x32.mat", file_counts=(1,), read=lambda f: read_cropped_digits(*f)),
    "cifar10": Format(files="cifar-10-python.tar.gz", file_counts=(1,), read=lambda f: read_cifar10(*f)),
}


def convert(name: str, files: Sequence[Path]) -> tuple[Images, Labels]:
    """The training samples of an original, in the published order and size."""
    form = FORMATS[name]
    if len(files) not in form.file_counts:
        raise InputError(f"{name} is made from {form.files}, got {len(files)} files; name exactly these")
    images, labels = form.read(files)
    if len(images) == 0 or labels.min() < 0 or labels.max() >= CLASS_COUNT:
        raise InputError(
            f"{name} must hold samples with labels 0 to {CLASS_COUNT - 1}, got others in {files[0].name}; use the "
            "official files"
        )
    return np.ascontiguousarray(images), labels
