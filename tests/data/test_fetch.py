"""Downloads arrive whole and checked, or not at all."""

from __future__ import annotations

import hashlib

import pytest

from commonweal.data import downloads
from commonweal.data.downloads import DOWNLOADS, Download
from commonweal.data.fetch import fetch
from commonweal.errors import InputError
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
        monkeypatch.setitem(DOWNLOADS, "svhn", (Download(file="train_32x32.mat", url=None, md5=md5),))

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


def test_a_file_arrives_whole_and_is_counted(server, cache, published):
    published()
    bar = Counter()
    [path] = fetch("svhn", cache, urls=[f"{server[0]}/whole/x"], progress=bar)
    assert path.read_bytes() == CONTENT
    assert list(cache.iterdir()) == [path] == [cache / "train_32x32.mat"]
    assert bar.seen == bar.total == len(CONTENT)


def test_a_checked_file_is_not_loaded_again_but_a_damaged_one_is(server, cache, published):
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
    with pytest.raises(InputError, match=r"train_32x32\.mat must have the md5 0{32}, got a file with another from"):
        fetch("svhn", cache, urls=[f"{server[0]}/whole/x"])
    assert not cache.exists()


@pytest.mark.parametrize(
    ("manner", "evidence"), [("half", "ChunkedEncodingError|ConnectionError"), ("gone", "status 404")]
)
def test_a_failed_download_leaves_nothing_with_or_without_a_checksum(server, cache, published, manner, evidence):
    published()
    for name in ("svhn", "mnistm"):
        with pytest.raises(InputError, match=f"must arrive whole from http.*, got ({evidence}); check the network"):
            fetch(name, cache, urls=[f"{server[0]}/{manner}/x"])
        assert not cache.exists()


def test_a_failed_download_keeps_what_was_there(server, cache, published):
    published("0" * 32)
    cache.mkdir()
    (cache / "other").write_text("kept")
    with pytest.raises(InputError):
        fetch("svhn", cache, urls=[f"{server[0]}/whole/x"])
    assert [path.name for path in cache.iterdir()] == ["other"]


def test_a_server_that_is_not_there_is_told(cache):
    with pytest.raises(InputError, match="got ConnectionError; check the network"):
        fetch("mnistm", cache / "deep" / "inside", urls=["http://127.0.0.1:9/x"])
    assert not cache.exists()


@pytest.mark.parametrize(
    ("name", "urls", "sentence"),
    [
        ("mnist-5k", [], "it is built in"),
        ("scans", [], "those are mnist, svhn"),
        ("synthdigits-rebuilt", [], "only originals can be fetched"),
        ("mnist", ["http://a/b"], "mnist is 2 files, .* got 1 --url"),
        ("mnistm", [], r"`commonweal data import mnistm mnist_m\.tar\.gz`, or give --url"),
        ("mnistm", ["ftp://a/b"], "must begin with http"),
        ("mnistm", ["/etc/passwd"], "must begin with http"),
    ],
)
def test_what_cannot_be_fetched_is_refused_at_once(name, urls, sentence, cache):
    with pytest.raises(InputError, match=sentence):
        fetch(name, cache, urls=urls)
    assert not cache.exists()


def test_a_cache_that_cannot_be_written_is_refused(cache):
    cache.write_text("a file, not a folder")
    for place in (cache, cache / "inside"):
        with pytest.raises(InputError, match="the directory must be writable"):
            fetch("mnistm", place, urls=["http://127.0.0.1:9/x"])
    assert cache.read_text() == "a file, not a folder"


def test_checksums_have_the_form_of_md5():
    published = [download for group in downloads.DOWNLOADS.values() for download in group]
    assert all(download.md5 is None or (len(download.md5) == 32 and int(download.md5, 16)) for download in published)
    assert all((download.url is None) == (download.md5 is None) for download in published)
