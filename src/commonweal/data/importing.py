"""Turn official files, prepared copies or a user's own images into files of a data directory, with its manifest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from commonweal.atomic_write import sole_writer
from commonweal.bounded_read import LARGEST_DATA, read_bounded
from commonweal.data.catalogue import BUILT_IN, EXTERNAL
from commonweal.data.manifest import FILE_NAME, Entry, read_manifest, to_json
from commonweal.data.npz_file import to_npz
from commonweal.data.own_images import read_own_images
from commonweal.data.samples import Images, Labels
from commonweal.data.source_types import ExternalSource
from commonweal.errors import InputError, StorageError, os_reason

_OWN_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def import_source(
    name: str,
    files: Sequence[Path],
    directory: Path,
    *,
    size: tuple[int, int] | None = None,
    class_count: int | None = None,
) -> Entry:
    """Convert, write and record; returns the entry. Nothing is written unless all files could be read.

    `size` (rows and columns to resize to) and `class_count` are only for images of one's own.
    """
    for file in files:
        if not file.is_file():
            raise InputError(f"{file} is not a file. Check the path.")
    if name in BUILT_IN:
        raise InputError(f"{name!r} is built in and needs no files. Use it as it is.")
    if name in EXTERNAL and size is not None:
        raise InputError(f"Only images of your own can be resized, and {name!r} has a fixed size. Leave the size out.")
    if name in EXTERNAL and class_count is not None:
        raise InputError(f"{name!r} has {EXTERNAL[name].class_count} classes. Leave the number of classes out.")
    if name in EXTERNAL:
        content, entry = _external(EXTERNAL[name], files)
    else:
        content, entry = _own(name, files, size, class_count)
    with sole_writer(directory) as work:
        entries = read_manifest(directory) | {name: entry}
        (work / entry.file).write_bytes(content)
        (work / FILE_NAME).write_text(to_json(entries), encoding="utf-8")
        (work / entry.file).replace(directory / entry.file)
        (work / FILE_NAME).replace(directory / FILE_NAME)
    return entry


def convert(name: str, files: Sequence[Path]) -> tuple[Images, Labels]:
    """The training samples of a published data set, in the published order and size."""
    official, class_count = EXTERNAL[name].official, EXTERNAL[name].class_count
    assert official is not None
    if len(files) not in official.counts:
        raise InputError(f"{name} must be imported from {official.names}, got {len(files)} files. Give exactly these.")
    images, labels = official.read(files)
    if len(images) == 0 or labels.min() < 0 or labels.max() >= class_count:
        raise StorageError(
            f"{files[0].name} has no samples, or labels outside 0 to {class_count - 1}. Use the official files of "
            f"{name}, or import these under a name of their own."
        )
    return np.ascontiguousarray(images), labels


def _external(source: ExternalSource, files: Sequence[Path]) -> tuple[bytes, Entry]:
    if source.official is None or any(file.suffix == ".npz" for file in files):
        return _prepared_copy(source, files)
    images, labels = convert(source.name, files)
    published = {download.md5 for download in source.official.downloads}
    are_published = all(
        hashlib.md5(read_bounded(file, LARGEST_DATA), usedforsecurity=False).hexdigest() in published for file in files
    )
    what, origin = source.note, "official files by their checksums"
    if not are_published:
        what, origin = f"said to be {source.note}", "files in the official format, checksums unknown"
    content = to_npz(images, labels)
    return content, Entry(
        file=source.file,
        sha256=hashlib.sha256(content).hexdigest(),
        sample_count=len(images),
        image_shape=(source.size, source.size, images.shape[3]),
        note=f"{what}; all {len(images):,} rows of {origin}",
        licence=source.licence,
        class_count=source.class_count,
        is_published=are_published,
    )


def _prepared_copy(source: ExternalSource, files: Sequence[Path]) -> tuple[bytes, Entry]:
    """An .npz under a reserved name is accepted only if it is the prepared copy, byte for byte."""
    content = _content(files[0]) if len(files) == 1 else b""
    entry = source.prepared_entry
    if entry is None or hashlib.sha256(content).hexdigest() != entry.sha256:
        expected = f"the official {source.official.names}" if source.official else "the prepared copy"
        raise InputError(
            f"The name {source.name!r} is reserved for {expected}, and {', '.join(file.name for file in files)} has "
            "different content. Import it under another name."
        )
    return content, entry


def _own(
    name: str, files: Sequence[Path], size: tuple[int, int] | None, class_count: int | None
) -> tuple[bytes, Entry]:
    file_name = f"{name}.npz"
    if not _OWN_NAME.fullmatch(name) or file_name in {source.file for source in EXTERNAL.values()}:
        raise InputError(
            "The name of your own source must be new and consist of lower-case letters, digits, - and _, got "
            f"{name!r}. Choose another."
        )
    own = read_own_images(files, size=size, class_count=class_count)
    content = to_npz(own.images, own.labels)
    _, rows, columns, channels = own.images.shape
    return content, Entry(
        file=file_name,
        sha256=hashlib.sha256(content).hexdigest(),
        sample_count=len(own.images),
        image_shape=(rows, columns, channels),
        note=own.note,
        licence="not recorded",
        class_count=own.class_count,
    )


def _content(file: Path) -> bytes:
    try:
        return read_bounded(file, LARGEST_DATA)
    except OSError as error:
        raise StorageError(f"Cannot read {file}: {os_reason(error)}.") from None
