"""Files without an end, wherever a command reads one: refused with a sentence, in little memory."""

from __future__ import annotations

import io
import os
import resource
from pathlib import Path

import pytest

from commonweal.bounded_read import LARGEST_KEY, read_bounded, read_up_to
from commonweal.errors import StorageError

ENDLESS = "/dev/zero"
FEDERATION = """\
name = "one"
rounds = 1
[mechanism]
mu = 0.1
[[clients]]
name = "north"
key_file = "/dev/zero"
[[clients]]
name = "south"
key_file = "/dev/zero"
"""
COMMANDS = {
    "figures": ("decide", ENDLESS, "--mu", "0.1"),
    "a scenario": ("run", ENDLESS, "--out", "out"),
    "a scenario for advice": ("advise", ENDLESS),
    "a statement": ("verify-statement", ENDLESS, "--key", ENDLESS),
    "a member's key": ("ledger", "init", "new.db", "--member", f"north={ENDLESS}", "--keys", "keys"),
    "a ledger": ("ledger", "verify", ENDLESS),
    "a member's file": ("flower", "withdraw", ENDLESS),
    "images": ("data", "import", "mine", ENDLESS, ENDLESS, "--data", "data"),
    "official files": ("data", "import", "usps", ENDLESS, "--data", "data"),
    "official archive": ("data", "import", "mnist-m", ENDLESS, "--data", "data"),
}


@pytest.fixture
def _little_memory():
    """So that a command that reads without end fails here, and leaves the machine alone."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2_000_000_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("what", COMMANDS)
def test_a_device_is_refused(refused, what):
    assert ENDLESS in refused(*COMMANDS[what])


@pytest.mark.usefixtures("_little_memory")
def test_a_key_in_a_federations_file_that_is_a_device(tmp_path):
    from commonweal.errors import CommonwealError
    from commonweal.remote.coordinator.federation_file import read_federation

    file = tmp_path / "federation.toml"
    file.write_text(FEDERATION)
    with pytest.raises(CommonwealError, match="/dev/zero: it is a device"):
        read_federation(file)


@pytest.mark.usefixtures("_little_memory")
def test_a_table_and_a_task_that_are_devices():
    from commonweal.tables.reading import read_table
    from commonweal.task.file import read_task

    for read in (read_table, read_task):
        with pytest.raises(StorageError, match="it is a device"):
            read(Path(ENDLESS))


@pytest.mark.usefixtures("_little_memory")
def test_a_large_file_is_refused_where_a_small_one_is_expected(refused, tmp_path):
    large = tmp_path / "large.pem"
    large.touch()
    os.truncate(large, 10_000_000_000)  # it takes no room on the disk
    said = refused("ledger", "init", "new.db", "--member", f"north={large}", "--keys", "keys")
    assert "large.pem: it has more than 100,000 bytes" in said
    assert "large.pem: it has more than 500,000,000 bytes" in refused("decide", large, "--mu", "0.1")


def test_what_is_read_is_what_is_there(tmp_path):
    file = tmp_path / "file"
    for count in (0, 1, LARGEST_KEY):
        file.write_bytes(bytes(range(256)) * (count // 256) + b"x" * (count % 256))
        assert read_bounded(file, LARGEST_KEY) == file.read_bytes()
    file.write_bytes(b"x" * (LARGEST_KEY + 1))
    with pytest.raises(StorageError, match="more than 100,000 bytes"):
        read_bounded(file, LARGEST_KEY)
    assert read_bounded(Path("/proc/self/status"), LARGEST_KEY), "a file that says it is empty"
    assert read_up_to(io.BytesIO(b"x" * 3_000_000), 3_000_000, "a pipe") == b"x" * 3_000_000
