"""Turn official files, prepared copies or a user's own .npz into files of a data directory, with its manifest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from commonweal.atomic_write import sole_writer
from commonweal.data.catalogue import BUILT_IN, EXTERNAL
from commonweal.data.manifest import FILE_NAME, Entry, read_manifest, to_json
from commonweal.data.npz_file import from_npz, to_npz
from commonweal.data.samples import CLASS_COUNT, Images, Labels, resize
from commonweal.data.source_types import ExternalSource
from commonweal.errors import InputError, StorageError, os_reason

_OWN_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_LARGEST_SIZE = 256
_SMALLEST_SIZE = 8


def import_source(name: str, files: Sequence[Path], directory: Path, *, size: int | None = None) -> Entry:
    """Convert, write and record; returns the entry. Nothing is written unless all files could be read.

    `size` is the number of rows and columns to which the images of your own source are resized.
    """
    for file in files:
        if not file.is_file():
            raise InputError(f"{file} is not a file. Check the path.")
    if name in BUILT_IN:
        raise InputError(f"{name!r} is built in and needs no files. Use it as it is.")
    if name in EXTERNAL and size is not None:
        raise InputError(f"Only your own images can be resized, but {name!r} has a fixed size. Leave the size out.")
    if name in EXTERNAL:
        content, entry = _external(EXTERNAL[name], files)
    else:
        content, entry = _own(name, files, size)
    with sole_writer(directory) as work:
        entries = read_manifest(directory) | {name: entry}
        (work / entry.file).write_bytes(content)
        (work / FILE_NAME).write_text(to_json(entries), encoding="utf-8")
        (work / entry.file).replace(directory / entry.file)
        (work / FILE_NAME).replace(directory / FILE_NAME)
    return entry


def convert(name: str, files: Sequence[Path]) -> tuple[Images, Labels]:
    """The training samples of a published data set, in the published order and size."""
    official = EXTERNAL[name].official
    assert official is not None
    if len(files) not in official.counts:
        raise InputError(f"{name} must be imported from {official.names}, got {len(files)} files. Give exactly these.")
    images, labels = official.read(files)
    if len(images) == 0 or labels.min() < 0 or labels.max() >= CLASS_COUNT:
        raise StorageError(
            f"{files[0].name} has no samples, or has labels outside 0 to {CLASS_COUNT - 1}. Use the official files of "
            f"{name}."
        )
    return np.ascontiguousarray(images), labels


def _external(source: ExternalSource, files: Sequence[Path]) -> tuple[bytes, Entry]:
    if source.official is None or any(file.suffix == ".npz" for file in files):
        return _prepared_copy(source, files)
    images, labels = convert(source.name, files)
    published = {download.md5 for download in source.official.downloads}
    are_published = all(
        hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest() in published for file in files
    )
    origin = "official files by their checksums" if are_published else "files in the official format, checksums unknown"
    content = to_npz(images, labels)
    return content, Entry(
        file=source.file,
        sha256=hashlib.sha256(content).hexdigest(),
        sample_count=len(images),
        image_shape=(source.size, source.size, images.shape[3]),
        note=f"{source.note}; all {len(images):,} rows of {origin}",
        licence=source.licence,
    )


def _prepared_copy(source: ExternalSource, files: Sequence[Path]) -> tuple[bytes, Entry]:
    """An .npz under a reserved name is accepted only if it is the prepared copy, byte for byte."""
    content = _content(files[0]) if len(files) == 1 else b""
    entry = source.prepared_entry
    if entry is None or hashlib.sha256(content).hexdigest() != entry.sha256:
        expected = f"the official {source.official.names}" if source.official else "the prepared copy"
        raise InputError(
            f"The name {source.name!r} is reserved for {expected}, but {', '.join(file.name for file in files)} has "
            "different content. Import it under another name."
        )
    return content, entry


def _own(name: str, files: Sequence[Path], size: int | None) -> tuple[bytes, Entry]:
    file_name = f"{name}.npz"
    if not _OWN_NAME.fullmatch(name) or file_name in {source.file for source in EXTERNAL.values()}:
        raise InputError(
            "The name of your own source must be new and consist of lower-case letters, digits, - and _, got "
            f"{name!r}. Choose another."
        )
    if len(files) != 1 or files[0].suffix != ".npz":
        published = ", ".join(source.name for source in EXTERNAL.values() if source.official)
        raise InputError(
            f"Your own source {name!r} must be one .npz file with images and labels, got "
            f"{', '.join(file.name for file in files)}. Official files can be imported for {published}."
        )
    if size is not None and not _SMALLEST_SIZE <= size <= _LARGEST_SIZE:
        raise InputError(f"The size must be {_SMALLEST_SIZE} to {_LARGEST_SIZE} pixels, got {size}. Digits use 28.")
    images, labels = from_npz(_content(files[0]), files[0].name)
    if size is not None:
        images = resize(images, size)
    _, rows, columns, channels = images.shape
    if rows != columns or not _SMALLEST_SIZE <= rows <= _LARGEST_SIZE:
        raise InputError(
            f"images must be square, with {_SMALLEST_SIZE} to {_LARGEST_SIZE} rows, got {rows}×{columns} in "
            f"{files[0].name}. Import them with a size, e.g. 28, to resize them."
        )
    content = to_npz(images, labels)
    return content, Entry(
        file=file_name,
        sha256=hashlib.sha256(content).hexdigest(),
        sample_count=len(images),
        image_shape=(rows, columns, channels),
        note=f"your own, from {files[0].name}",
        licence="your own",
    )


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise StorageError(f"Cannot read {file}: {os_reason(error)}.") from None
