"""A file is written completely or not at all."""

from __future__ import annotations

import errno
import os

import pytest

from commonweal.atomic_write import write_atomically
from commonweal.errors import StorageError


def test_content_is_replaced(tmp_path):
    path = tmp_path / "a.txt"
    write_atomically(path, b"old", what="the file")
    write_atomically(path, b"new", what="the file")
    assert path.read_bytes() == b"new"
    assert [found.name for found in tmp_path.iterdir()] == ["a.txt"]


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_atomically(path, b"old", what="the file")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"Cannot write the file to .*a\.txt': no space left on device\. Choose"):
        write_atomically(path, b"new", what="the file")
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["a.txt"]


def test_a_missing_folder_and_a_file_as_folder_are_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    for folder in ("nowhere", "file"):
        with pytest.raises(StorageError, match=r"Cannot write the report to .*: (no such file|not a directory)"):
            write_atomically(tmp_path / folder / "a.txt", b"new", what="the report")
