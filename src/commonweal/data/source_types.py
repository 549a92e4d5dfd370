"""What is known about a source in advance. Each source is an object of one of these types, listed in `catalogue`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from commonweal.data.manifest import Entry
from commonweal.data.samples import Images, Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInSource:
    """A source that is made from installed packages, without a download."""

    name: str
    make: Callable[[], tuple[Images, Labels]]
    sample_count: int
    image_shape: tuple[int, int, int]
    note: str
    licence: str
    class_count: int = 10
    packages: tuple[str, ...] = ()  # packages that `make` imports or whose files it reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """One official file.

    `url` is None where no stable address exists: the file must be downloaded by hand. `md5` is the checksum that the
    publisher or the usual libraries give; where it is None the file is accepted as it is, and the manifest says so.
    """

    file: str
    url: str | None = None
    md5: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialFiles:
    """The files in which a source is published, and how to read them."""

    names: str  # for people
    counts: tuple[int, ...]  # how many files there may be
    read: Callable[[Sequence[Path]], tuple[Images, Labels]]  # training samples, in the published order and size
    downloads: tuple[Download, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCopy:
    """A subset of a source, drawn once, that is accepted by its checksum."""

    sha256: str
    sample_count: int
    channels: int
    rows: str  # which rows it has


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalSource:
    """A source with a reserved name whose samples are in a file of a data directory."""

    name: str
    size: int  # rows and columns of the images as clients get them
    note: str
    licence: str
    alternative: str | None  # the built-in source that is most like it
    class_count: int = 10
    is_original: bool = True
    official: OfficialFiles | None = None
    prepared: PreparedCopy | None = None

    @property
    def file(self) -> str:
        return f"{self.name.replace('-', '_')}.npz"

    @property
    def prepared_entry(self) -> Entry | None:
        """The manifest entry of the prepared copy."""
        if self.prepared is None:
            return None
        return Entry(
            file=self.file,
            sha256=self.prepared.sha256,
            sample_count=self.prepared.sample_count,
            image_shape=(self.size, self.size, self.prepared.channels),
            class_count=self.class_count,
            is_published=True,
            note=f"{self.note}; {self.prepared.rows}",
            licence=self.licence,
        )
