"""CIFAR-10, Python version: a tar of pickled batches. A pickle can run any code, so only its arrays are read."""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from commonweal.data.originals import reading
from commonweal.data.samples import Images, Labels
from commonweal.data.source_types import Download, ExternalSource, OfficialFiles, PreparedCopy

_BATCHES = tuple(f"cifar-10-batches-py/data_batch_{number}" for number in range(1, 6))


def _read_cifar10(paths: Sequence[Path]) -> tuple[Images, Labels]:
    """The five training batches, images 32×32×3."""
    (path,) = paths
    with reading(path, "the official cifar-10-python.tar.gz"):
        blocks, labels = [], []
        with tarfile.open(path) as archive:
            for name in _BATCHES:
                member = archive.extractfile(name)
                if member is None:
                    raise ValueError(f"no file {name}")
                batch = _ArraysOnly(io.BytesIO(member.read()), encoding="bytes").load()
                blocks.append(batch[b"data"])
                labels.append(np.array(batch[b"labels"], dtype=np.int64))
                if blocks[-1].dtype != np.uint8 or blocks[-1].shape != (len(labels[-1]), 3 * 32 * 32):
                    raise ValueError(f"{name} does not hold N×3072 bytes and N labels")
        planes = np.concatenate(blocks).reshape(-1, 3, 32, 32)  # all red, then all green, then all blue
        return planes.transpose(0, 2, 3, 1), np.concatenate(labels)


class _ArraysOnly(pickle.Unpickler):
    """Unpickles numbers, texts, lists, dicts and arrays of bytes; calls only the four functions below."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return _blank_array
        if (module, name) == ("numpy", "ndarray"):
            return _array_kind
        if (module, name) == ("numpy", "dtype"):
            return _byte_type
        if (module, name) == ("_codecs", "encode"):
            return _latin_1
        raise pickle.UnpicklingError(f"its pickle asks for {module}.{name}")


def _array_kind() -> None:
    """Stands in for the class numpy.ndarray where a pickle names it as an argument."""


def _blank_array(*_: object) -> np.ndarray[Any, Any]:
    """An array without content; the pickle's next step fills in shape, type and bytes."""
    return np.empty(0, dtype=np.uint8)


def _byte_type(kind: object, *_: object) -> np.dtype[Any]:
    if kind not in ("u1", b"u1"):
        raise pickle.UnpicklingError(f"it contains an array of {kind!r} instead of bytes")
    return np.dtype(np.uint8, False, True)  # a copy, because the pickle's next step writes into it


def _latin_1(text: str, _: object) -> bytes:
    """How Python 3 pickles bytes for Python 2."""
    return text.encode("latin-1")


CIFAR10 = ExternalSource(
    name="cifar10",
    size=32,
    note="CIFAR-10 (Krizhevsky 2009)",
    licence="no formal licence; cite the technical report",
    alternative=None,
    official=OfficialFiles(
        names="cifar-10-python.tar.gz",
        counts=(1,),
        read=_read_cifar10,
        downloads=(
            Download(
                file="cifar-10-python.tar.gz",
                url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
                md5="c58f30108f718f92721af3b95e74349a",
            ),
        ),
    ),
    prepared=PreparedCopy(
        sha256="7420de99599c66da4de7c6bda9150e623538d8afab1f1d92aa94910e2ff59f49",
        sample_count=20_000,
        channels=3,
        rows="20,000 of 50,000 training rows kept",
    ),
)
