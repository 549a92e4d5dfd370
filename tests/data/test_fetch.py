"""Downloads arrive whole and checked, or not at all."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from commonweal.data import fetch as fetch_module
from commonweal.data.catalogue import EXTERNAL
from commonweal.data.fetch import fetch
from commonweal.data.source_types import Download
from commonweal.errors import InputError, StorageError
from tests.data.file_server import serving

CONTENT = bytes(range(256)) * 2000


@pytest.fixture
def server():
    with serving(CONTENT) as (address, asked):
        yield address, asked


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def published(monkeypatch):
    """A source whose published checksum is that of the server's content, or another."""

    def publish(md5=None):
        md5 = md5 or hashlib.md5(CONTENT).hexdigest()
        official = replace(EXTERNAL["svhn"].official, downloads=(Download(file="train_32x32.mat", url=None, md5=md5),))
        svhn = replace(EXTERNAL["svhn"], official=official)
        monkeypatch.setattr(fetch_module, "EXTERNAL", {**EXTERNAL, "svhn": svhn})

    return publish


class Counter:
    def __init__(self):
        self.total, self.seen = 0, 0

    def update(self, byte_count, /):
        self.seen += byte_count

    def reset(self):
        self.seen = 0

    def close(self):
        pass


def test_a_file_is_downloaded_completely_with_progress(server, cache, published):
    published()
    bar = Counter()
    [path] = fetch("svhn", cache, urls=[f"{server[0]}/whole/x"], progress=bar)
    assert path.read_bytes() == CONTENT
    assert list(cache.iterdir()) == [path] == [cache / "train_32x32.mat"]
    assert bar.seen == bar.total == len(CONTENT)


def test_only_a_damaged_file_is_downloaded_again(server, cache, published):
    published()
    address, asked = server
    urls = [f"{address}/whole/x"]
    [path] = fetch("svhn", cache, urls=urls)
    fetch("svhn", cache, urls=urls)
    assert len(asked) == 1
    path.write_bytes(CONTENT[:-1])
    fetch("svhn", cache, urls=urls)
    assert len(asked) == 2
    assert path.read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(server, cache, published):
    published("0" * 32)
    with pytest.raises(StorageError, match=r"train_32x32\.mat from http.* does not have the published md5 0{32}\."):
        fetch("svhn", cache, urls=[f"{server[0]}/whole/x"])
    assert not cache.exists()


@pytest.mark.parametrize(
    ("manner", "evidence"), [("half", "ChunkedEncodingError|ConnectionError"), ("gone", "status 404")]
)
def test_a_failed_download_leaves_nothing_with_or_without_a_checksum(server, cache, published, manner, evidence):
    published()
    for name in ("svhn", "mnistm"):
        with pytest.raises(StorageError, match=rf"Cannot download .* from http.*: ({evidence})\. Check the network"):
            fetch(name, cache, urls=[f"{server[0]}/{manner}/x"])
        assert not cache.exists()


def test_a_failed_download_keeps_what_was_there(server, cache, published):
    published("0" * 32)
    cache.mkdir()
    (cache / "other").write_text("kept")
    with pytest.raises(StorageError):
        fetch("svhn", cache, urls=[f"{server[0]}/whole/x"])
    assert [path.name for path in cache.iterdir()] == ["other"]


def test_an_unreachable_server_is_reported(cache):
    with pytest.raises(StorageError, match=r"ConnectionError\. Check the network"):
        fetch("mnistm", cache / "deep" / "inside", urls=["http://127.0.0.1:9/x"])
    assert not cache.exists()


@pytest.mark.parametrize(
    ("name", "urls", "sentence"),
    [
        ("mnist-5k", [], "built in and needs no download"),
        ("scans", [], "These can: mnist, svhn"),
        ("synthdigits-rebuilt", [], "cannot be fetched"),
        ("mnist", ["http://a/b"], "mnist needs an address for each of its files, .* got 1 instead of 2"),
        ("mnistm", [], r"`commonweal data import mnistm mnist_m\.tar\.gz`, or give its address"),
        ("mnistm", ["ftp://a/b"], "must start with http"),
        ("mnistm", ["/etc/passwd"], "must start with http"),
    ],
)
def test_what_cannot_be_fetched_is_refused_at_once(name, urls, sentence, cache):
    with pytest.raises(InputError, match=sentence):
        fetch(name, cache, urls=urls)
    assert not cache.exists()


def test_a_cache_that_cannot_be_written_is_refused(cache):
    cache.write_text("a file, not a folder")
    for place in (cache, cache / "inside"):
        with pytest.raises(StorageError, match=r"Cannot write into .*Choose another directory"):
            fetch("mnistm", place, urls=["http://127.0.0.1:9/x"])
    assert cache.read_text() == "a file, not a folder"


def test_checksums_have_the_form_of_md5():
    published = [download for source in EXTERNAL.values() if source.official for download in source.official.downloads]
    assert all(download.md5 is None or (len(download.md5) == 32 and int(download.md5, 16)) for download in published)
    assert all((download.url is None) == (download.md5 is None) for download in published)
