"""Where the originals are published, and the checksums their publishers or the usual libraries give.

A checksum that nobody we trust published is None: the file is then taken as it comes, and the manifest says so.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """One official file. Without an address it must be downloaded by hand."""

    file: str
    url: str | None
    md5: str | None


def _at(folder: str, file: str, md5: str) -> Download:
    return Download(file=file, url=f"{folder}/{file}", md5=md5)


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"  # the mirror that torchvision uses
_USPS = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass"

DOWNLOADS = {
    "mnist": (
        _at(_MNIST, "train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        _at(_MNIST, "train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
    ),
    "svhn": (_at("http://ufldl.stanford.edu/housenumbers", "train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),),
    "usps": (
        _at(_USPS, "usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197"),
        _at(_USPS, "usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118"),
    ),
    # Published on a file-sharing service without stable addresses or checksums.
    "mnistm": (Download(file="mnist_m.tar.gz", url=None, md5=None),),
    "synthdigits": (Download(file="synth_train_32x32.mat", url=None, md5=None),),
    "cifar10": (_at("https://www.cs.toronto.edu/~kriz", "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),),
}

PUBLISHED_MD5 = {download.md5 for downloads in DOWNLOADS.values() for download in downloads if download.md5}
