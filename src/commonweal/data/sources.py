"""A source's name -> its samples: built in, or a file of a data directory that a manifest vouches for."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from commonweal.data.built_in import MAKERS
from commonweal.data.catalogue import BUILT_IN, KNOWN, PREPARED
from commonweal.data.manifest import Entry, read_manifest
from commonweal.data.npz_file import from_npz
from commonweal.data.optional_packages import is_installed
from commonweal.data.resizing import resize
from commonweal.data.samples import Samples
from commonweal.errors import InputError

ENVIRONMENT_VARIABLE = "COMMONWEAL_DATA"

Kind = Literal["built-in", "original", "rebuilt", "own"]
State = Literal["present", "missing", "changed", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """What is known of a source without reading its samples; counts and shapes are None where no file is known.

    `changed`: the file's checksum is not the manifest's. `unknown`: a file without an entry in any manifest.
    """

    name: str
    kind: Kind
    state: State
    file: str | None  # in the data directory; None if built in
    sample_count: int | None
    image_shape: tuple[int, int, int] | None
    note: str
    licence: str


def find_directory(given: Path | None) -> Path | None:
    """The data directory: the one given, else the environment's COMMONWEAL_DATA, else none."""
    if given is not None:
        return given
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(named) if named else None


def load_source(name: str, directory: Path | None) -> Samples:
    """All samples of a source. A file is read once, checked against its manifest, and only then opened."""
    if name in BUILT_IN:
        return _built_in(name)
    entries = _entries(directory)
    if name not in KNOWN and name not in entries:
        raise InputError(
            f"a source must be one of {', '.join([*BUILT_IN, *KNOWN, *sorted(set(entries) - set(KNOWN))])}, got "
            f"{name!r}; correct it, or bring your own with `commonweal data import {name} FILE.npz --data DIR`"
        )
    content = _content(name, directory, entries)
    entry = entries.get(name)
    if entry is None:
        raise InputError(
            f"a data file must be in a manifest, got {_file(name, entries)} in none; make it from the official files "
            f"with {_ways_to_get(name)}"
        )
    found = hashlib.sha256(content).hexdigest()
    if found != entry.sha256:
        raise InputError(
            f"{entry.file} must have the sha256 {entry.sha256} of its manifest, got {found}; it was changed or is "
            f"another version: get it again with {_ways_to_get(name)}"
        )
    images, labels = from_npz(content, entry.file)
    if name in KNOWN:
        images = resize(images, KNOWN[name].size)
    return Samples(name=name, images=images, labels=labels, note=entry.note)


def list_sources(directory: Path | None) -> list[SourceStatus]:
    """Every source that has a name: built in, known, and those of the directory's own manifest."""
    if directory is not None and not directory.is_dir():
        raise InputError(
            f"the data directory must be a folder, got {directory}; correct --data DIR or {ENVIRONMENT_VARIABLE}"
        )
    entries = _entries(directory)
    listed = [
        SourceStatus(
            name=source.name,
            kind="built-in",
            state="present" if all(map(is_installed, source.packages)) else "missing",
            file=None,
            sample_count=source.sample_count,
            image_shape=source.image_shape,
            note=source.note,
            licence=source.licence,
        )
        for source in BUILT_IN.values()
    ]
    for name in [*KNOWN, *sorted(set(entries) - set(KNOWN))]:
        entry, known = entries.get(name), KNOWN.get(name)
        about = entry or known
        assert about is not None
        state = _state(name, directory, entries)
        is_there = entry is not None and state != "missing"
        listed.append(
            SourceStatus(
                name=name,
                kind="own" if known is None else "original" if known.is_original else "rebuilt",
                state=state,
                file=_file(name, entries),
                sample_count=entry.sample_count if entry and is_there else None,
                image_shape=entry.image_shape if entry and is_there else None,
                note=about.note if is_there or known is None else known.note,
                licence=about.licence,
            )
        )
    return listed


@cache
def _built_in(name: str) -> Samples:
    # Made once in a process, never on disk: the samples are read-only, so they can be shared.
    images, labels = MAKERS[name]()
    return Samples(name=name, images=images, labels=labels, note=BUILT_IN[name].note)


def _entries(directory: Path | None) -> dict[str, Entry]:
    """Prepared copies, overridden and extended by the directory's own manifest."""
    own = {} if directory is None else read_manifest(directory)
    taken = sorted(set(own) & set(BUILT_IN))
    if taken:
        raise InputError(
            f"a manifest must not reuse the name of a built-in source, got {taken[0]!r} in {directory}; give it a name "
            "of its own"
        )
    return {**PREPARED, **own}


def _file(name: str, entries: dict[str, Entry]) -> str:
    return entries[name].file if name in entries else KNOWN[name].file


def _content(name: str, directory: Path | None, entries: dict[str, Entry]) -> bytes:
    if directory is None:
        raise InputError(
            f"the source {name!r} is read from a data directory, got none; name it with --data DIR or "
            f"{ENVIRONMENT_VARIABLE}, or {_alternatives(name)}"
        )
    if not directory.is_dir():
        raise InputError(
            f"the data directory must be a folder, got {directory}; name it with --data DIR or "
            f"{ENVIRONMENT_VARIABLE}, or {_alternatives(name)}"
        )
    path = directory / _file(name, entries)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"the source {name!r} is read from {path.name}, got no such file in {directory}; name another directory "
            f"with --data DIR or {ENVIRONMENT_VARIABLE}, or {_alternatives(name)}"
        ) from None
    except OSError as error:
        raise InputError(
            f"the source {name!r} is read from {path.name}, got {error.strerror} in {directory}; make it readable"
        ) from None


def _alternatives(name: str) -> str:
    nearest = KNOWN[name].alternative if name in KNOWN else None
    built_in = f", or use the built-in source {nearest!r} in a scenario of your own" if nearest else ""
    return f"get it with {_ways_to_get(name)}{built_in}"


def _ways_to_get(name: str) -> str:
    ways = f"`commonweal data import {name} FILE...`"
    return f"`commonweal data fetch {name}` or {ways}" if name in KNOWN and KNOWN[name].is_original else ways


def _state(name: str, directory: Path | None, entries: dict[str, Entry]) -> State:
    path = None if directory is None else directory / _file(name, entries)
    if path is None or not path.is_file():
        return "missing"
    if name not in entries:
        return "unknown"
    return "present" if sha256_of(path) == entries[name].sha256 else "changed"


def sha256_of(path: Path) -> str:
    """The checksum of a file, in hexadecimal digits."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path.name} must be readable, got {error.strerror}; change its permissions") from None
