"""Download the official files of a source into a cache; pooch does the work and checks the published checksums."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from commonweal.data.catalogue import BUILT_IN
from commonweal.data.downloads import DOWNLOADS, Download
from commonweal.data.optional_packages import needed_for
from commonweal.data.writing import sole_writer
from commonweal.errors import InputError

_CHUNK_BYTES = 1 << 16
_TIMEOUT_SECONDS = 30


class ProgressBar(Protocol):
    """What pooch tells while bytes arrive; `total` is 0 where the server does not say."""

    total: int

    def update(self, byte_count: int, /) -> None: ...
    def reset(self) -> None: ...
    def close(self) -> None: ...


def default_cache() -> Path:
    """The user's cache folder of the platform."""
    with needed_for("downloading"):
        import pooch
    return Path(pooch.os_cache("commonweal"))


def fetch(name: str, cache: Path, *, urls: Sequence[str] = (), progress: ProgressBar | None = None) -> list[Path]:
    """The official files of a source, in the cache; those already there with the right checksum are not loaded again.

    `urls` replaces the addresses, one for each file, e.g. of a mirror; published checksums hold all the same.
    """
    if name not in DOWNLOADS:
        hint = "it is built in, use it as it is" if name in BUILT_IN else f"those are {', '.join(DOWNLOADS)}"
        raise InputError(f"only originals can be fetched, got {name!r}; {hint}")
    downloads = DOWNLOADS[name]
    if urls and len(urls) != len(downloads):
        raise InputError(
            f"{name} is {len(downloads)} files, {' and '.join(d.file for d in downloads)}, got {len(urls)} --url; give "
            "one for each, in this order"
        )
    addresses: list[str | None] = [*urls] or [download.url for download in downloads]
    for address, download in zip(addresses, downloads, strict=True):
        if address is None:
            raise InputError(
                f"a fetch needs an address, got none that is stable for {download.file}; find it on its authors' page, "
                f"then `commonweal data import {name} {download.file}`, or give --url"
            )
        if not address.startswith(("http://", "https://")):
            raise InputError(f"an address must begin with http:// or https://, got {address!r}; correct --url")
    with sole_writer(cache) as work:
        return [
            _fetched(download, str(address), cache, work, progress)
            for address, download in zip(addresses, downloads, strict=True)
        ]


def _fetched(download: Download, url: str, cache: Path, work: Path, progress: ProgressBar | None) -> Path:
    target = cache / download.file
    if target.is_file() and download.md5 is not None and _md5(target) == download.md5:
        return target
    with needed_for("downloading"):
        import pooch
        import requests
    pooch.get_logger().setLevel(logging.WARNING)  # the bar says it all
    # Bytes as the server stores them: a .gz must not be unpacked on the way.
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
        raise InputError(
            f"{download.file} must arrive whole from {url}, got {_reason(error)}; check the network, give a mirror "
            "with --url, or download it by hand and `commonweal data import` it"
        ) from None
    except ValueError:
        raise InputError(
            f"{download.file} must have the md5 {download.md5}, got a file with another from {url}; try again, or give "
            "a mirror with --url"
        ) from None
    (work / download.file).replace(target)
    return target


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    return f"status {response.status_code}" if response is not None else type(error).__name__
