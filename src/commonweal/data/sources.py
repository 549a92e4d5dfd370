"""From a source's name to its samples: built in, or a file of a data directory that matches its manifest."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from commonweal.bounded_read import LARGEST_DATA, read_bounded
from commonweal.data.catalogue import BUILT_IN, EXTERNAL
from commonweal.data.manifest import Entry, read_manifest
from commonweal.data.npz_file import check_labels, from_npz
from commonweal.data.optional_packages import is_installed
from commonweal.data.samples import Samples, resize
from commonweal.data.source_types import ExternalSource
from commonweal.errors import CommonwealError, InputError, StorageError, os_reason

ENVIRONMENT_VARIABLE = "COMMONWEAL_DATA"

Kind = Literal["built-in", "original", "unchecked", "rebuilt", "own"]
State = Literal["present", "missing", "changed", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """What is known about a source without reading its samples; counts and shapes are None where no file is known.

    The kind `unchecked`: said to be an original, but not by the publisher's checksums. The state `changed`: the file's
    checksum differs from the manifest's; `unknown`: no manifest has an entry for the file.
    """

    name: str
    kind: Kind
    state: State
    file: str | None  # in the data directory; None if built in
    sample_count: int | None
    image_shape: tuple[int, int, int] | None
    class_count: int | None
    note: str
    licence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetCheck:
    """Sources whose files match their manifests, and a sentence about each problem."""

    sound: tuple[str, ...]
    problems: tuple[str, ...]


def find_directory(given: Path | None) -> Path | None:
    """The data directory: the given one, otherwise that of the environment variable COMMONWEAL_DATA, if set."""
    if given is not None:
        return given
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(named) if named else None


def load_source(name: str, directory: Path | None) -> Samples:
    """All samples of a source. A file is read once and checked against its manifest before it is parsed."""
    if name in BUILT_IN:
        return _built_in(name)
    entries = _entries(directory)
    if name not in EXTERNAL and name not in entries:
        raise InputError(
            f"There is no source {name!r}. Choose one of "
            f"{', '.join([*BUILT_IN, *EXTERNAL, *sorted(set(entries) - set(EXTERNAL))])}, or import your own images "
            f"with `commonweal data import {name} FILE...`."
        )
    content = _content(name, directory, entries)
    entry = entries.get(name)
    if entry is None:
        raise StorageError(
            f"{_file(name, entries)} is not in any manifest, so it cannot be checked. Make it from the "
            "official "
            f"files with {_ways_to_get(name)}."
        )
    found = hashlib.sha256(content).hexdigest()
    if found != entry.sha256:
        raise StorageError(
            f"{entry.file} has the sha256 {found}, but its manifest says {entry.sha256}: it was changed or is a "
            f"different version. Get it again with {_ways_to_get(name)}."
        )
    images, labels, _ = from_npz(content, entry.file)
    check_labels(labels, entry.class_count, entry.file)
    if name in EXTERNAL:
        size = EXTERNAL[name].size
        images = resize(images, (size, size))
    return Samples(name=name, images=images, labels=labels, class_count=entry.class_count, note=entry.note)


def list_sources(directory: Path | None) -> list[SourceStatus]:
    """All sources that a scenario can name: built-in ones, reserved names, and those of the directory's manifest."""
    if directory is not None and not directory.is_dir():
        raise InputError(f"The data directory {directory} is not a folder. {_choose_directory()}.")
    entries = _entries(directory)
    listed = [
        SourceStatus(
            name=source.name,
            kind="built-in",
            state="present" if all(map(is_installed, source.packages)) else "missing",
            file=None,
            sample_count=source.sample_count,
            image_shape=source.image_shape,
            class_count=source.class_count,
            note=source.note,
            licence=source.licence,
        )
        for source in BUILT_IN.values()
    ]
    for name in [*EXTERNAL, *sorted(set(entries) - set(EXTERNAL))]:
        entry, external = entries.get(name), EXTERNAL.get(name)
        about = entry or external
        assert about is not None
        state = _state(name, directory, entries)
        is_there = entry is not None and state != "missing"
        listed.append(
            SourceStatus(
                name=name,
                kind=_kind(external, entry if is_there else None),
                state=state,
                file=_file(name, entries),
                sample_count=entry.sample_count if entry and is_there else None,
                image_shape=entry.image_shape if entry and is_there else None,
                class_count=entry.class_count if entry and is_there else None,
                note=about.note if is_there or external is None else external.note,
                licence=about.licence,
            )
        )
    return listed


def verify(directory: Path) -> DatasetCheck:
    """Read every file completely. A missing file is a problem only if it was imported."""
    recorded = read_manifest(directory)
    listed = [status for status in list_sources(directory) if status.kind != "built-in"]
    sound, problems = [], []
    for status in listed:
        if status.state == "missing":
            if status.name in recorded:
                problems.append(
                    f"{status.name}: {recorded[status.name].file} is in the manifest, but the file is missing."
                )
            continue
        try:
            samples = load_source(status.name, directory)
        except CommonwealError as error:
            problems.append(f"{status.name}: {error}")
            continue
        if (len(samples.labels), samples.image_shape) != (status.sample_count, status.image_shape):
            problems.append(f"{status.name}: the sample count or image shape differs from the manifest.")
        else:
            sound.append(status.name)
    unlisted = sorted({path.name for path in directory.glob("*.npz")} - {status.file for status in listed})
    problems += [f"{name}: not in any manifest. Add it with `commonweal data import`." for name in unlisted]
    return DatasetCheck(sound=tuple(sound), problems=tuple(problems))


@cache
def _built_in(name: str) -> Samples:
    # Made once per process and shared, which is safe because samples are read-only.
    source = BUILT_IN[name]
    images, labels = source.make()
    return Samples(name=name, images=images, labels=labels, class_count=source.class_count, note=source.note)


def _entries(directory: Path | None) -> dict[str, Entry]:
    """Prepared copies, overridden and extended by the directory's own manifest."""
    own = {} if directory is None else read_manifest(directory)
    taken = sorted(set(own) & set(BUILT_IN))
    if taken:
        raise StorageError(
            f"The manifest of {directory} uses {taken[0]!r}, the name of a built-in source. Give that source another "
            "name."
        )
    prepared = {name: entry for name, source in EXTERNAL.items() if (entry := source.prepared_entry) is not None}
    return {**prepared, **own}


def _kind(external: ExternalSource | None, entry: Entry | None) -> Kind:
    """The kind of a source in a data directory; no entry if its file is missing."""
    if external is None:
        return "own"
    if not external.is_original:
        return "rebuilt"
    return "original" if entry is None or entry.is_published else "unchecked"


def _file(name: str, entries: dict[str, Entry]) -> str:
    return entries[name].file if name in entries else EXTERNAL[name].file


def _content(name: str, directory: Path | None, entries: dict[str, Entry]) -> bytes:
    if directory is None:
        raise InputError(f"The source {name!r} needs a data directory. {_choose_directory()}; {_alternatives(name)}.")
    if not directory.is_dir():
        raise InputError(
            f"The data directory {directory} is not a folder. {_choose_directory()}; {_alternatives(name)}."
        )
    path = directory / _file(name, entries)
    try:
        return read_bounded(path, LARGEST_DATA)
    except FileNotFoundError:
        raise StorageError(
            f"The data directory {directory} has no {path.name}, the file of the source {name!r}. "
            f"{_choose_directory()}; "
            f"{_alternatives(name)}."
        ) from None
    except OSError as error:
        raise StorageError(f"Cannot read {path}: {os_reason(error)}.") from None


def _choose_directory() -> str:
    return f"Choose a data directory, e.g. with {ENVIRONMENT_VARIABLE}"


def _alternatives(name: str) -> str:
    nearest = EXTERNAL[name].alternative if name in EXTERNAL else None
    built_in = f", or use the built-in source {nearest!r} in a scenario of your own" if nearest else ""
    return f"get the source with {_ways_to_get(name)}{built_in}"


def _ways_to_get(name: str) -> str:
    ways = f"`commonweal data import {name} FILE...`"
    return f"`commonweal data fetch {name}` or {ways}" if name in EXTERNAL and EXTERNAL[name].is_original else ways


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
        raise StorageError(f"Cannot read {path}: {os_reason(error)}.") from None
