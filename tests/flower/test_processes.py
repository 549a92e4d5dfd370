"""Processes of a rehearsal end with their owner, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from commonweal.flower.rehearsal.processes import Processes

OWNER = """
import os, sys, time
from pathlib import Path
from commonweal.flower.rehearsal.processes import Processes
folder = Path(sys.argv[1])
processes = Processes(folder)
script = "sleep 300 & echo started; wait"
processes.start("one", ["sh", "-c", script], environment=os.environ, folder=folder, log=folder / "log.txt")
print(processes.pid("one"), flush=True)
time.sleep(300)
"""


def is_there(group):
    """Whether any process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(is_so):
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def test_nothing_outlives_an_owner_that_is_killed(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        group = int(owner.stdout.readline())
        wait_for(lambda: "started" in (folder / "log.txt").read_text())
        assert is_there(group)
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()
    wait_for(lambda: not is_there(group) and not folder.exists())


def test_a_process_is_terminated_and_then_killed(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    processes = Processes(folder)
    script = "trap 'echo asked' TERM; echo ready; while true; do sleep 0.05; done"
    log = tmp_path / "log.txt"
    processes.start("stubborn", ["sh", "-c", script], environment=os.environ, folder=tmp_path, log=log)
    group = processes.pid("stubborn")
    wait_for(lambda: "ready" in log.read_text())
    assert processes.is_running("stubborn")
    processes.stop("stubborn", patience=0.5)
    processes.close()
    wait_for(lambda: not is_there(group))
    assert "asked" in log.read_text()
    assert not Path(folder).exists(), "the watchdog removes the folder"
