"""`manifest.json` of a data directory: which files belong there, and their checksums."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from commonweal.bounded_read import LARGEST_DOCUMENT, read_bounded
from commonweal.data.samples import CLASS_LIMIT
from commonweal.errors import StorageError, os_reason

FILE_NAME = "manifest.json"
_VERSION = 1
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file of a data directory."""

    file: str  # a plain file name inside the directory
    sha256: str
    sample_count: int
    image_shape: tuple[int, int, int]  # (rows, columns, channels) as clients get the images
    note: str
    licence: str
    class_count: int = 10
    is_published: bool = False  # whether the files that it was made from have the publisher's checksums


def is_plain_name(name: str) -> bool:
    """Whether it can name a source and its file: letters, digits, dot, dash, underscore; no path."""
    return _PLAIN_NAME.fullmatch(name) is not None


def read_manifest(directory: Path) -> dict[str, Entry]:
    """The entries by source name; none where there is no manifest."""
    path = directory / FILE_NAME
    try:
        document = json.loads(read_bounded(path, LARGEST_DOCUMENT).decode())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StorageError(
            f"Cannot read the manifest {path}: {os_reason(error)}. Make it readable, or choose another data directory."
        ) from None
    except (ValueError, RecursionError) as error:
        raise StorageError(
            f"The manifest {path} is not valid JSON ({type(error).__name__}). {_way_out(path)}"
        ) from None
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise StorageError(f"The manifest {path} does not have version {_VERSION}. {_way_out(path)}")
    sources = document.get("sources")
    if not isinstance(sources, dict):
        raise StorageError(f"The manifest {path} has no object 'sources'. {_way_out(path)}")
    return {name: _entry(name, found, path) for name, found in sources.items()}


def to_json(entries: Mapping[str, Entry]) -> str:
    """The text of the manifest; the same entries give the same text."""
    document = {"version": _VERSION, "sources": {name: asdict(entries[name]) for name in sorted(entries)}}
    return json.dumps(document, indent=2) + "\n"  # in ASCII, which can represent any file name


def _entry(name: str, found: Any, path: Path) -> Entry:
    where = f"for source {name!r} in the manifest {path}. {_way_out(path)}"
    wanted = {field.name for field in fields(Entry)}
    required = {field.name for field in fields(Entry) if field.default is MISSING}
    if not is_plain_name(name) or not isinstance(found, dict) or not required <= set(found) <= wanted:
        raise StorageError(
            f"An entry must have a plain name and exactly the keys {', '.join(sorted(wanted))}, got something else "
            f"{where}"
        )
    # Version 0.1 knew only ten classes, and noted in words that checksums were unknown.
    found = {"class_count": 10, "is_published": "checksums unknown" not in str(found["note"])} | found
    shape, count = found["image_shape"], found["sample_count"]
    texts = [found[key] for key in ("file", "sha256", "note", "licence")]
    if not all(isinstance(text, str) for text in texts) or not is_plain_name(found["file"]):
        raise StorageError(f"file must be the name of a file in the directory, got {found['file']!r} {where}")
    if not _SHA256.fullmatch(found["sha256"]):
        raise StorageError(f"sha256 must be 64 hexadecimal digits, got {found['sha256']!r} {where}")
    is_shape = isinstance(shape, list) and len(shape) == 3 and all(_is_count(side) for side in shape)
    if not is_shape or not _is_count(count):
        raise StorageError(
            f"image_shape and sample_count must be positive integers, got {shape!r} and {count!r} {where}"
        )
    classes = found["class_count"]
    if not _is_count(classes) or not 2 <= classes <= CLASS_LIMIT:
        raise StorageError(f"class_count must be a whole number from 2 to {CLASS_LIMIT}, got {classes!r} {where}")
    if not isinstance(found["is_published"], bool):
        raise StorageError(f"is_published must be true or false, got {found['is_published']!r} {where}")
    return Entry(**{**found, "image_shape": tuple(shape)})


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _way_out(path: Path) -> str:
    return f"Remove {path.name} and run `commonweal data import` again."
