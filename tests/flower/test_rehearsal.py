"""Rehearsals: real processes of Flower, members that fail, and nothing left behind however it ends.

The app is plain Flower (see `tiny_federation`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from commonweal.flower.rehearsal.rehearsal import Rehearsal
from commonweal.flower.starting.proxy import find_nginx
from tests.flower.fleet import restart_killed_node
from tests.flower.tiny_federation import write_tiny_federation

pytestmark = pytest.mark.soak

LIMIT = 240  # seconds, for a busy machine

needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")


def processes_of(work):
    """The processes of a rehearsal: those with a Flower home in its folder."""
    wanted = f"FLWR_HOME={work}/".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "environ").read_bytes() and "\nState:\tZ" not in (process / "status").read_text():
                found.append(int(process.name))
        except OSError:  # ended, or somebody else's
            continue
    return found


def wait_for(is_so, limit=LIMIT):
    deadline = time.monotonic() + limit
    while not is_so():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


def result(rehearsal):
    file = rehearsal.out / "result.json"
    content = json.loads(file.read_text())
    file.unlink()
    return content


def tree(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_federation(tmp_path_factory.mktemp("rehearsed") / "tiny")


@pytest.fixture(scope="module")
def rehearsal(folder, tmp_path_factory):
    """One that all tests of this file share, since it takes long to start."""
    before = tree(folder)
    with Rehearsal(folder, tmp_path_factory.mktemp("out"), warm=True) as rehearsal:
        yield rehearsal
    assert tree(folder) == before, "a rehearsal writes only into its copy"
    assert not rehearsal.work.exists()
    if Path("/proc/self/environ").exists():
        assert not processes_of(rehearsal.work)


def test_a_run_that_completes(rehearsal):
    lines = []
    outcome = rehearsal.run_app(timeout=LIMIT, show=lines.append, questions=2)
    assert outcome.status == "completed", outcome
    assert outcome.is_completed
    assert "the answers are in" in lines
    assert "the answers are in" in outcome.output
    assert result(rehearsal)["answered"] == ["north", "south"] == list(rehearsal.members)
    assert rehearsal.home("north") == rehearsal.work / "members" / "north" / "home"
    assert (rehearsal.home("north") / "log.txt").read_text() == "asked\n" * 2
    for name in rehearsal.members:
        assert "SuperNode ID" in rehearsal.logs[name].read_text()


def test_logs_and_statements_of_members_are_kept(rehearsal):
    (rehearsal.home("south") / "statements").mkdir(parents=True, exist_ok=True)
    (rehearsal.home("south") / "statements" / "one.json").write_text("{}")
    (rehearsal.home("south") / "state.json").write_text("private")
    rehearsal.keep_member_files()
    kept = rehearsal.out / "members"
    assert (kept / "south" / "statements" / "one.json").read_text() == "{}"
    assert not (kept / "south" / "state.json").exists()
    assert sorted(path.name for path in kept.iterdir()) == ["north", "south"]


def test_a_run_that_fails_is_not_called_completed(rehearsal):
    """`flwr run` itself ends with 0 here."""
    outcome = rehearsal.run_app(timeout=LIMIT, fails=True)
    assert outcome.status == "failed"
    assert not outcome.is_completed
    assert "this one was to fail" in outcome.details
    assert "this one was to fail" in outcome.output


def test_a_run_that_cannot_start(rehearsal):
    outcome = rehearsal.run_app(timeout=LIMIT, unknown=1)
    assert outcome.status == "not started"
    assert "Error" in outcome.output


def test_a_run_that_takes_too_long_is_stopped(rehearsal):
    outcome = rehearsal.run_app(timeout=15, expected=3)  # waits for a third member for ever
    assert outcome.status == "timed out"


@needs_proc
def test_a_member_killed_while_it_works_returns(rehearsal):
    asked = rehearsal.home("north") / "log.txt"
    asked.unlink(missing_ok=True)
    outcomes = []
    run = threading.Thread(target=lambda: outcomes.append(rehearsal.run_app(timeout=LIMIT, seconds=3.0, enough=1)))
    run.start()
    wait_for(asked.exists)
    before = set(processes_of(rehearsal.work))
    rehearsal.kill_node("north")
    assert len(before - set(processes_of(rehearsal.work))) >= 3, "the SuperNode, its executor and the app at work"
    run.join()
    assert outcomes[0].status == "completed", outcomes
    assert result(rehearsal)["answered"] == ["south"]

    started = time.monotonic()
    restart_killed_node(rehearsal, "north")
    assert time.monotonic() - started < 55, "Flower would keep it out for a minute"
    assert rehearsal.run_app(timeout=LIMIT).status == "completed"
    assert result(rehearsal)["answered"] == ["north", "south"]


def test_a_member_disconnects_and_returns(rehearsal):
    rehearsal.stop_node("south")
    assert rehearsal.run_app(timeout=LIMIT, expected=1).status == "completed"
    assert result(rehearsal)["answered"] == ["north"]
    rehearsal.start_node("south")
    assert rehearsal.run_app(timeout=LIMIT).status == "completed"
    assert result(rehearsal)["answered"] == ["north", "south"]


def test_flower_as_it_is_installed(folder, tmp_path):
    """Without forks: a new Python for each message."""
    said = []
    with Rehearsal(folder, tmp_path / "out", say=said.append) as rehearsal:
        rehearsal.start()  # is started already
        assert rehearsal.run_app(timeout=LIMIT).status == "completed"
        assert result(rehearsal)["answered"] == ["north", "south"]
    assert said[0].startswith("Starting a SuperLink at 127.0.0.1:")
    assert said[1].startswith("Starting nginx at 127.0.0.1:" if find_nginx() else "nginx is not installed")
    assert said[2:] == ["Starting 2 SuperNodes: north, south."]


OWNER = """
import sys, time
from pathlib import Path
from commonweal.flower.rehearsal import warm_executor
from commonweal.flower.rehearsal.rehearsal import Rehearsal
with Rehearsal(Path(sys.argv[1]), Path(sys.argv[2]), warm=True) as rehearsal:
    print(rehearsal.work, flush=True)
    rehearsal.run_app(seconds=300.0)
"""


@needs_proc
def test_nothing_outlives_an_owner_that_is_killed(folder, tmp_path):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder), str(tmp_path / "out")], stdout=subprocess.PIPE, text=True
    )
    try:
        work = Path(owner.stdout.readline().strip())
        wait_for((work / "members" / "south" / "home" / "log.txt").exists)  # in the middle of it
        assert len(processes_of(work)) >= 8
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()
    wait_for(lambda: not processes_of(work) and not work.exists(), limit=20)


@needs_proc
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_command_is_interrupted(folder, tmp_path, sent, code):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = subprocess.Popen(
        [Path(sys.executable).with_name("commonweal"), "flower", "rehearse", folder, "--out", tmp_path / "out"],
        env={**os.environ, "TMPDIR": str(temporary)},
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in command.stderr:
        if line.startswith("Starting 2 SuperNodes"):
            break
    work = next(temporary.glob("commonweal-rehearsal-*"))
    wait_for(lambda: len(processes_of(work)) >= 4)
    command.send_signal(sent)
    said = command.communicate(timeout=60)[1]
    assert command.returncode == code
    assert "Traceback" not in said
    assert not processes_of(work)
    assert not list(temporary.iterdir())


@needs_proc
def test_unmodified_supernodes_leave_nothing_running_either(folder, tmp_path):
    """Flower starts their executors in groups of their own."""
    with Rehearsal(folder, tmp_path / "out") as rehearsal:
        assert rehearsal.run_app(timeout=LIMIT).is_completed
        assert len(processes_of(rehearsal.work)) >= 6  # two SuperNodes and their executors among them
        rehearsal.kill_node("north")  # which cannot end its executor then
    assert not processes_of(rehearsal.work)
