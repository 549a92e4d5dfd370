"""Download the official files of a source into a cache; pooch does the work and checks the published checksums."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from commonweal.atomic_write import sole_writer
from commonweal.data.catalogue import BUILT_IN, EXTERNAL
from commonweal.data.optional_packages import needed_for
from commonweal.data.source_types import Download
from commonweal.errors import InputError, StorageError

_CHUNK_BYTES = 1 << 16
_TIMEOUT_SECONDS = 30


class ProgressBar(Protocol):
    """Called by pooch while bytes arrive; `total` is 0 if the server does not state the size."""

    total: int

    def update(self, byte_count: int, /) -> None: ...
    def reset(self) -> None: ...
    def close(self) -> None: ...


def default_cache() -> Path:
    """The platform's cache folder for this user."""
    with needed_for("downloading"):
        import pooch
    return Path(pooch.os_cache("commonweal"))


def fetch(name: str, cache: Path, *, urls: Sequence[str] = (), progress: ProgressBar | None = None) -> list[Path]:
    """The official files of a source, in the cache; one with the right checksum is not downloaded again.

    `urls` replaces the addresses, one for each file, e.g. with those of a mirror; checksums are still compared.
    """
    if name in BUILT_IN:
        raise InputError(f"{name!r} is built in and needs no download. Use it as it is.")
    official = EXTERNAL[name].official if name in EXTERNAL else None
    if official is None:
        published = ", ".join(source.name for source in EXTERNAL.values() if source.official)
        raise InputError(f"{name!r} cannot be fetched. These can: {published}.")
    downloads = official.downloads
    if urls and len(urls) != len(downloads):
        raise InputError(
            f"{name} needs an address for each of its files, {' and '.join(d.file for d in downloads)}, in this order, "
            f"got {len(urls)} instead of {len(downloads)}."
        )
    addresses: list[str | None] = [*urls] or [download.url for download in downloads]
    for address, download in zip(addresses, downloads, strict=True):
        if address is None:
            raise InputError(
                f"{download.file} has no stable address. Download it from its authors' page and run "
                f"`commonweal data import {name} {download.file}`, or give its address."
            )
        if not address.startswith(("http://", "https://")):
            raise InputError(f"An address must start with http:// or https://, got {address!r}.")
    with sole_writer(cache) as work:
        return [
            _download(download, str(address), cache, work, progress)
            for address, download in zip(addresses, downloads, strict=True)
        ]


def _download(download: Download, url: str, cache: Path, work: Path, progress: ProgressBar | None) -> Path:
    target = cache / download.file
    if target.is_file() and download.md5 is not None and _md5(target) == download.md5:
        return target
    with needed_for("downloading"):
        import pooch
        import requests
    pooch.get_logger().setLevel(logging.WARNING)  # the progress bar is enough
    # The bytes as the server stores them: a .gz must not be unpacked during the transfer.
    downloader = pooch.HTTPDownloader(
        progressbar=progress or False,
        chunk_size=_CHUNK_BYTES,
        timeout=_TIMEOUT_SECONDS,
        headers={"Accept-Encoding": "identity"},
    )
    known_hash = None if download.md5 is None else f"md5:{download.md5}"
    try:
        pooch.retrieve(url, known_hash=known_hash, fname=download.file, path=work, downloader=downloader)
    except requests.exceptions.RequestException as error:
        raise StorageError(
            f"Cannot download {download.file} from {url}: {_reason(error)}. Check the network, give the address of a "
            "mirror, or download it by hand and run `commonweal data import`."
        ) from None
    except ValueError:
        raise StorageError(
            f"{download.file} from {url} does not have the published md5 {download.md5}. Try again, or give the "
            "address of "
            "a mirror."
        ) from None
    (work / download.file).replace(target)
    return target


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    return f"status {response.status_code}" if response is not None else type(error).__name__
