"""What is written survives a power failure, and nobody can redirect a temporary file."""

from __future__ import annotations

import os
import stat

import pytest

from commonweal.atomic_write import UNFINISHED, write_atomically, write_new
from commonweal.errors import StorageError
from tests.system_calls import disk_calls, in_order

POSIX = pytest.mark.skipif(os.name != "posix", reason="links and modes are POSIX's")

WRITE = """
import sys
from pathlib import Path
from commonweal.atomic_write import write_atomically
write_atomically(Path(sys.argv[1]), b"content", what="the file")
"""
MAKE_FOLDERS = """
import sys
from pathlib import Path
from commonweal.atomic_write import make_results_folder, new_folder
make_results_folder(Path("results/of/june"))
with new_folder(Path("made/member"), "the folder") as folder:
    (folder / "inside").mkdir()
    (folder / "inside" / "file").write_text("x")
"""
MAKE_KEYS = """
from pathlib import Path
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.node_keys import NodeKey
KeyDirectory(Path("of/keys")).current()
NodeKey.new().write(Path("node.key"))
"""


def test_a_file_and_its_name_are_on_the_disk(tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "state.json").write_text("before")
    calls = disk_calls(WRITE, folder / "state.json", folder=folder, log=tmp_path / "calls")
    unfinished = rf"\.\S+{UNFINISHED}"
    assert in_order(
        calls,
        f"create exclusively {unfinished}",
        f"write {unfinished}",
        f"sync {unfinished}",
        rf"rename {unfinished} state\.json",
        r"sync \.",
    ), calls
    assert (folder / "state.json").read_bytes() == b"content"


def test_the_names_of_new_folders_are_on_the_disk(tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    calls = disk_calls(MAKE_FOLDERS, folder=folder, log=tmp_path / "calls")
    for made, parent in (("results", r"\."), ("results/of", "results"), ("results/of/june", "results/of")):
        assert in_order(calls, f"mkdir {made}", f"sync {parent}"), calls
    unfinished = rf"made/\.member\.\d+{UNFINISHED}"
    assert in_order(
        calls,
        f"write {unfinished}/inside/file",
        f"sync {unfinished}/inside/file",
        f"rename {unfinished} made/member",
        "sync made",
        r"sync \.",
    ), calls
    assert in_order(calls, f"sync {unfinished}/inside", f"rename {unfinished} made/member"), calls


def test_keys_are_on_the_disk(tmp_path):
    """A ledger whose key is lost takes no more entries."""
    folder = tmp_path / "here"
    folder.mkdir()
    calls = disk_calls(MAKE_KEYS, folder=folder, log=tmp_path / "calls")
    unfinished = rf"of/keys/\.\S+{UNFINISHED}"
    assert in_order(calls, "mkdir of/keys", "sync of"), calls
    assert in_order(
        calls,
        f"create exclusively {unfinished}",
        f"sync {unfinished}",
        rf"rename {unfinished} of/keys/[0-9a-f]{{16}}\.pem",
        "sync of/keys",
        f"link {unfinished} of/keys/current",
        "sync of/keys",
    ), calls
    assert in_order(calls, r"create exclusively node\.key", r"sync node\.key", r"sync \."), calls


@POSIX
def test_a_link_does_not_redirect_a_temporary_file(tmp_path):
    (tmp_path / "dear").write_text("something dear")
    (tmp_path / "link").symlink_to(tmp_path / "dear")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("dear", "link", "dangling"):
        with pytest.raises(FileExistsError):
            write_new(tmp_path / name, b"another")
    assert (tmp_path / "dear").read_text() == "something dear"
    assert not (tmp_path / "nowhere").exists()
    # The name that earlier versions used, which others could foresee.
    (tmp_path / f".{os.getpid()}{UNFINISHED}").symlink_to(tmp_path / "dear")
    write_atomically(tmp_path / "new", b"content", what="the file")
    assert ((tmp_path / "dear").read_text(), (tmp_path / "new").read_text()) == ("something dear", "content")


@POSIX
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_users_mode(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "new", b"content", what="the file")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode


def test_nothing_is_left_behind(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match=r"Cannot write the file to .*folder.*: is a directory\. Choose"):
        write_atomically(tmp_path / "folder", b"content", what="the file")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@POSIX
def test_a_special_file_is_not_replaced(tmp_path):
    """Such as a device; a pipe stands for all of them, since a test must not risk a real one."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        with pytest.raises(StorageError, match=r"it is a device, a pipe or a socket, and would be replaced\. Choose"):
            write_atomically(tmp_path / name, b"content", what="the file")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]
