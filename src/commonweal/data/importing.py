"""Official files, prepared copies or a user's own .npz -> a file of a data directory, recorded in its manifest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from commonweal.data.catalogue import BUILT_IN, KNOWN, PREPARED
from commonweal.data.downloads import PUBLISHED_MD5
from commonweal.data.manifest import FILE_NAME, Entry, read_manifest, to_json
from commonweal.data.npz_file import from_npz, to_npz
from commonweal.data.official.convert import FORMATS, convert
from commonweal.data.resizing import resize
from commonweal.data.writing import sole_writer
from commonweal.errors import InputError

_OWN_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_LARGEST_SIZE = 256
_SMALLEST_SIZE = 8


def import_source(name: str, files: Sequence[Path], directory: Path, *, size: int | None = None) -> Entry:
    """Convert, write and record; returns the entry. Nothing is written unless everything was read and is sound.

    `size` makes the images of a source of your own square, with so many rows and columns.
    """
    for file in files:
        if not file.is_file():
            raise InputError(f"a source is made from files, got {file}, which is none; correct the path")
    if name in BUILT_IN:
        raise InputError(f"a built-in source needs no files, got {name!r}; use it as it is")
    if name in KNOWN and size is not None:
        raise InputError(f"--size is for sources of your own, got it for {name!r}; leave it out")
    if name in KNOWN:
        content, entry = _known(name, files)
    else:
        content, entry = _own(name, files, size)
    with sole_writer(directory) as work:
        entries = read_manifest(directory) | {name: entry}
        (work / entry.file).write_bytes(content)
        (work / FILE_NAME).write_text(to_json(entries), encoding="utf-8")
        (work / entry.file).replace(directory / entry.file)
        (work / FILE_NAME).replace(directory / FILE_NAME)
    return entry


def _known(name: str, files: Sequence[Path]) -> tuple[bytes, Entry]:
    if name not in FORMATS or any(file.suffix == ".npz" for file in files):
        return _prepared_copy(name, files)
    images, labels = convert(name, files)
    are_published = all(
        hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest() in PUBLISHED_MD5 for file in files
    )
    origin = "official files by their checksums" if are_published else "files in the official format, checksums unknown"
    known = KNOWN[name]
    content = to_npz(images, labels)
    return content, Entry(
        file=known.file,
        sha256=hashlib.sha256(content).hexdigest(),
        sample_count=len(images),
        image_shape=(known.size, known.size, images.shape[3]),
        note=f"{known.note}; all {len(images):,} rows of {origin}",
        licence=known.licence,
    )


def _prepared_copy(name: str, files: Sequence[Path]) -> tuple[bytes, Entry]:
    """An .npz under the name of an original is taken only if it is the prepared copy, byte for byte."""
    content = _content(files[0]) if len(files) == 1 else b""
    found = hashlib.sha256(content).hexdigest()
    entry = PREPARED.get(name)
    if entry is None or found != entry.sha256:
        official = f"the official {FORMATS[name].files}" if name in FORMATS else "the prepared copy"
        raise InputError(
            f"the name {name!r} is kept for {official}, got {', '.join(file.name for file in files)} with another "
            "content; import it under a name of its own"
        )
    return content, entry


def _own(name: str, files: Sequence[Path], size: int | None) -> tuple[bytes, Entry]:
    file_name = f"{name}.npz"
    if not _OWN_NAME.fullmatch(name) or file_name in {known.file for known in KNOWN.values()}:
        raise InputError(
            f"a source of your own must have a new name of small letters, digits, - and _, got {name!r}; choose another"
        )
    if len(files) != 1 or files[0].suffix != ".npz":
        raise InputError(
            f"a source of your own must be one .npz file with images and labels, got "
            f"{', '.join(file.name for file in files)}; the originals are {', '.join(FORMATS)}"
        )
    if size is not None and not _SMALLEST_SIZE <= size <= _LARGEST_SIZE:
        raise InputError(f"--size must be {_SMALLEST_SIZE} to {_LARGEST_SIZE} pixels, got {size}; 28 suits digits")
    images, labels = from_npz(_content(files[0]), files[0].name)
    if size is not None:
        images = resize(images, size)
    _, rows, columns, channels = images.shape
    if rows != columns or not _SMALLEST_SIZE <= rows <= _LARGEST_SIZE:
        raise InputError(
            f"images must be square with {_SMALLEST_SIZE} to {_LARGEST_SIZE} rows, got {rows}×{columns} in "
            f"{files[0].name}; add --size 28 to resize them"
        )
    content = to_npz(images, labels)
    return content, Entry(
        file=file_name,
        sha256=hashlib.sha256(content).hexdigest(),
        sample_count=len(images),
        image_shape=(rows, columns, channels),
        note=f"your own, from {files[0].name}",
        licence="yours to say",
    )


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{file.name} must be readable, got {error.strerror}; change its permissions") from None
