"""Reproductions that tests run as a user does, on noise in MNIST's official format.

Clients learn for one iteration and are soon eliminated, so a replication takes half a second.
"""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pyarrow.parquet as pq

from commonweal.data.importing import import_source
from tests import one_thread
from tests.cli.conftest import COMMAND
from tests.data.small import digits, pictures, write_mnist
from tests.made_once import made_once

SAMPLE_COUNT = 600
REPLICATION_COUNT = 3
SHORT = ["--set", "learning.iteration_limit=1", "--no-report"]
SMALL_MNIST, LABEL_NOISE = "small-mnist[iteration_limit=1]", "label-noise[iteration_limit=1]"
ASKED = ["small-mnist", "label-noise", "--replications", str(REPLICATION_COUNT), "--mu", "0,0.002", *SHORT]
TOTAL = 2 * REPLICATION_COUNT
DONE = re.compile(rf"^(\d+)/{TOTAL}: replication (\d+) of (\S+), \d+ rounds? in \d+ s", re.MULTILINE)
PATIENCE_SECONDS = 300  # on a busy machine


def make_store(folder, seed=0):
    folder.mkdir()
    files = write_mnist(folder, pictures(SAMPLE_COUNT, 28, 1, seed=seed), digits(SAMPLE_COUNT))
    import_source("mnist", files, folder / "store")
    return folder / "store"


def common_store(tmp_path_factory):
    return made_once(tmp_path_factory, "noise-data", lambda folder: make_store(folder / "noise")) / "noise/store"


def undisturbed(tmp_path_factory):
    """The result set of an uninterrupted run with one worker and a user's threads. Do not change it."""
    store = common_store(tmp_path_factory)

    def run(folder):
        command = [COMMAND, "reproduce", *ASKED, "--workers", "1", "--data", store, "--out", folder / "out"]
        environment = one_thread.unlimited()
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
        assert done.returncode == 0, done.stderr

    return made_once(tmp_path_factory, "undisturbed", run) / "out"


def rows(folder):
    return pq.read_table(folder / "results.parquet").replace_schema_metadata(None)


def done_in(folder):
    return {(path.parent.name, int(path.stem)) for path in folder.glob("replications/*/*.parquet")}


def wait_for_results(process, count):
    """Read the command's lines until this many replications are done; returns them."""
    found = set()
    while len(found) < count:
        line = process.stderr.readline()
        assert line, f"it ended after {len(found)} replications"
        if done := DONE.match(line):
            found.add((done[3], int(done[2])))
    return found


def wait_until(is_so, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def descendants(process):
    """Processes started by it, and by those."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {process}


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
