"""`commonweal run` as a user runs it: results, resuming, workers, refusals."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from commonweal.scenario.shipped import shipped_text
from tests import one_thread

from .conftest import COMMAND

SMALL = """
name = "small"
description = "four rounds of three clients"
rounds = 4
seed = 3
[mechanism]
mu = 0.2
contribution = "shapley"
[learning]
algorithm = "fedbn"
iteration_limit = 3
[defaults]
source = "mnist-5k"
samples_per_round = 60
cost_per_sample = 2e-4
[[clients]]
name = "north"
[[clients]]
name = "south"
defect = { kind = "label-noise", probability = 0.5 }
[[clients]]
name = "west"
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def finished_run(folder, *arguments):
    (folder / "small.toml").write_text(SMALL)
    command = [COMMAND, "run", "small.toml", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What an undisturbed run says and leaves; not to be changed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return finished_run(folder, "--out", "results/first"), folder / "results/first"


@pytest.fixture(scope="module")
def first_round(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one-round")
    finished_run(folder, "--rounds", "1", "--out", "one")
    return folder / "one"


@pytest.fixture
def held_one_round(first_round, tmp_path):
    """Put a finished run of one round into a folder."""
    return lambda name: shutil.copytree(first_round, tmp_path / name)


@pytest.fixture
def started(tmp_path):
    """Start the command and read its lines; killed at the end."""
    processes = []

    def start(*arguments):
        process = subprocess.Popen(
            [str(COMMAND), *map(str, arguments)],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def results(directory):
    """All files of a run by content, the checkpoint aside (a zip archive carries times)."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.suffix not in (".npz", ".db")  # a book states its times: see test_run_ledger
    }


def wait_for_round(process, number):
    """Read the run's lines until this round is safe."""
    for line in process.stderr:
        if line.startswith(f"round {number}/"):
            return
    raise AssertionError(f"the run ended before round {number}")


def test_a_run_leaves_history_report_and_figures(whole):
    done, folder = whole
    assert "report: results/first/report.html" in done.stdout
    files = set(results(folder))
    assert {"history.json", "report.html"} < files
    assert {Path(name).suffix for name in files} == {".json", ".html", ".png", ".svg"}
    history = json.loads((folder / "history.json").read_text())
    assert history["schema"] == "commonweal.history/1"
    for held in history["rounds"]:
        assert sum(c["transfer"]["value"] for c in held["clients"] if c["transfer"]) == pytest.approx(0, abs=1e-12)


def test_a_run_killed_in_any_round_and_resumed_gives_the_same_to_the_bit(commonweal, started, whole, small, tmp_path):
    delays = random.Random(20)
    arguments = ["run", "small.toml", "--out", "broken"]
    killed = started(*arguments)  # in round 1, or just before: nothing is safe yet
    while not (tmp_path / "broken").exists():
        time.sleep(0.01)
    time.sleep(delays.uniform(0, 0.3))
    killed.kill()
    killed.wait()
    assert not (tmp_path / "broken/checkpoint.npz").exists(), "killed too late"
    for round_number in (2, 3, 4):
        killed = started(*arguments)
        wait_for_round(killed, round_number - 1)
        time.sleep(delays.uniform(0, 0.2))
        killed.kill()
        killed.wait()
        arguments = [*arguments[:4], "--resume"]
    assert not (tmp_path / "broken/history.json").exists(), "killed too late"
    (tmp_path / "broken/.1.unfinished").write_bytes(b"half a checkpoint")
    done = commonweal(*arguments)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "broken") == results(whole[1])


def test_the_number_of_workers_changes_nothing(commonweal, small, tmp_path):
    for workers, environment in ((1, None), (3, one_thread.unlimited())):
        words = ["small.toml", "--rounds", 2, "--out", f"by-{workers}", "--workers", workers]
        done = commonweal("run", *words, env=environment)
        assert done.returncode == 0, done.stderr
    assert results(tmp_path / "by-1") == results(tmp_path / "by-3")


def test_ctrl_c_says_what_is_safe_and_how_to_go_on(commonweal, started, small, tmp_path):
    process = started("run", "small.toml")
    wait_for_round(process, 1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in error
    safe = int(re.search(r"interrupted: (\d) of 4 rounds are safe in out/small; add --resume", error)[1])
    assert safe >= 1
    done = commonweal("run", "small.toml", "--resume")
    assert done.returncode == 0, done.stderr
    assert len(json.loads((tmp_path / "out/small/history.json").read_text())["rounds"]) == 4


def test_options_override_the_scenario(commonweal, small, tmp_path):
    done = commonweal("run", "small.toml", "--mu", "inf", "--seed", 9, "--rounds", 1, "--out", "one")
    assert done.returncode == 0, done.stderr
    scenario = json.loads((tmp_path / "one/history.json").read_text())["scenario"]
    assert (scenario["mechanism"]["mu"], scenario["seed"], scenario["rounds"]) == ("inf", 9, 1)


def test_two_runs_are_not_mixed_in_one_folder(commonweal, refused, held_one_round, small):
    held_one_round("out/small")
    assert "add --resume to continue the run in it" in refused("run", "small.toml", "--rounds", 1)
    assert "got other ones than those of" in refused("run", "small.toml", "--seed", 4, "--resume")
    assert commonweal("run", "small.toml", "--rounds", 1, "--overwrite").returncode == 0


def test_a_run_that_cannot_start_leaves_the_one_before_it(refused, held_one_round, small, tmp_path):
    held_one_round("kept")
    before = {path: path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file()}
    small.write_text(SMALL.replace("mnist-5k", "no-such-source"))
    refused("run", "small.toml", "--out", "kept", "--overwrite")
    assert before == {path: path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file()}


def test_a_new_run_removes_what_the_one_before_it_reported(started, held_one_round, small, tmp_path):
    held_one_round("kept")
    process = started("run", "small.toml", "--out", "kept", "--overwrite")
    wait_for_round(process, 1)
    process.kill()
    process.wait()
    left = {path.name for path in (tmp_path / "kept").rglob("*") if path.is_file()}
    assert left - {"ledger.db", "ledger.db-journal"} == {"checkpoint.npz"}


def test_a_refused_run_takes_nothing_of_others_along(started, small, tmp_path):
    """Its folder was made, another process writes beside it, then it fails."""
    small.write_text(SMALL.replace("[learning]", "[learning]\nlearning_rate = 1e30"))
    process = started("run", "small.toml", "--out", "shared/mine")
    while not (tmp_path / "shared/mine").exists():
        assert process.poll() is None
        time.sleep(0.01)
    (tmp_path / "shared/theirs").write_text("results")
    assert process.wait(timeout=100) == 2
    assert [path.name for path in (tmp_path / "shared").iterdir()] == ["theirs"]


def test_two_runs_at_once_do_not_share_a_folder(started, commonweal, small):
    first = started("run", "small.toml", "--out", "one")
    wait_for_round(first, 1)
    done = commonweal("run", "small.toml", "--out", "one", "--resume")
    assert done.returncode == 2
    assert "another process at work" in done.stderr


def test_a_run_is_not_continued_on_other_data(commonweal, refused, small, tmp_path):
    random = np.random.default_rng(1)
    small.write_text(SMALL.replace("mnist-5k", "mine"))
    for start in ("first", "second"):
        np.savez(
            tmp_path / f"{start}.npz",
            images=random.integers(0, 256, (1000, 28, 28), np.uint8),
            labels=random.integers(0, 10, 1000, np.uint8),
        )
    assert commonweal("data", "import", "mine", "first.npz", "--data", "store").returncode == 0
    assert commonweal("run", "small.toml", "--rounds", 1, "--data", "store").returncode == 0
    assert commonweal("data", "import", "mine", "second.npz", "--data", "store").returncode == 0
    error = refused("run", "small.toml", "--rounds", 1, "--data", "store", "--resume")
    assert "a run continues with the scenario and the data it was started with" in error


def test_a_spoilt_checkpoint_is_refused(refused, held_one_round, small, tmp_path):
    held_one_round("out/small")
    checkpoint = tmp_path / "out/small/checkpoint.npz"
    content = checkpoint.read_bytes()
    for spoilt in (content[: len(content) // 2], b"", b"no archive at all"):
        checkpoint.write_bytes(spoilt)
        assert "a checkpoint must be readable" in refused("run", "small.toml", "--rounds", 1, "--resume")


ALL_CLIENTS = re.compile(r"\[\[clients\]\].*", re.DOTALL)
REFUSALS = {
    "broken TOML": (SMALL.replace("[mechanism]", "[mechanism"), "line 6, column"),
    "unknown key": (SMALL.replace("iteration_limit", "iterations_limit"), "(line 11 of small.toml)"),
    "missing data": (SMALL.replace("mnist-5k", "svhn"), "--data DIR"),
    "unknown source": (SMALL.replace("mnist-5k", "mnits"), "mnits"),
    "huge rate": (SMALL.replace("[learning]", "[learning]\nlearning_rate = 1e39"), "learning_rate must be"),
    "pool too small": (SMALL.replace("samples_per_round = 60", "samples_per_round = 9000"), "north"),
    "zero clients": (ALL_CLIENTS.sub("", SMALL), "clients"),
    "one client": (ALL_CLIENTS.sub('[[clients]]\nname = "alone"', SMALL), "at least 2"),
    "no validation samples": (SMALL.replace("samples_per_round = 60", "samples_per_round = 0.001"), "north"),
    "diverging": (
        SMALL.replace("[learning]", "[learning]\nlearning_rate = 1e30"),
        "for client 'north' in round 1, iteration 1: it diverged, and nothing of this round was settled; lower "
        "learning_rate (now 1e+30)",
    ),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_what_cannot_be_run_is_refused_and_nothing_is_written(kind, refused, small, monkeypatch):
    monkeypatch.delenv("COMMONWEAL_DATA", raising=False)
    text, evidence = REFUSALS[kind]
    small.write_text(text)
    error = refused("run", "small.toml")
    assert error.startswith("error: ")
    assert evidence in error


def test_a_changed_data_file_is_refused(refused, small, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/mnist.npz").write_bytes(b"not the file of the manifest")
    small.write_text(SMALL.replace("mnist-5k", "mnist"))
    assert "sha256" in refused("run", "small.toml", "--data", "data")


@pytest.mark.parametrize(
    ("arguments", "evidence"),
    [
        (["nowhere"], "quickstart"),
        (["small.toml", "--mu", "-1"], "--mu"),
        (["small.toml", "--rounds", "0"], "--rounds"),
        (["small.toml", "--seed", "-1"], "--seed"),
        (["small.toml", "--workers", "0"], "--workers"),
        (["small.toml", "--resume"], "no checkpoint"),
        (["small.toml", "--resume", "--overwrite"], "drop one"),
        (["small.toml", "--out", "small.toml"], "small.toml"),
        (["small.toml", "--out", "/proc/nowhere"], "must be writable"),
    ],
)
def test_bad_options_are_refused(arguments, evidence, refused, small):
    assert evidence in refused("run", *arguments)


def test_a_full_disk_is_told_and_the_run_can_go_on(commonweal, small, tmp_path):
    """The room for a file is limited so that the checkpoint of the first round does not fit."""

    def no_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = commonweal("run", "small.toml", preexec_fn=no_room)
    assert done.returncode == 2
    assert "the state after a round must be writable" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
    assert commonweal("run", "small.toml", "--rounds", 1).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_really_full_disk_leaves_the_last_round_safe(commonweal, whole, small, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        done = commonweal("run", "small.toml", "--out", "disk/run")
        assert done.returncode == 2, done.stderr
        assert "No space left on device" in done.stderr
        assert "Traceback" not in done.stderr
        assert not list(disk.rglob("*unfinished*"))
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere/checkpoint.npz").write_bytes((disk / "run/checkpoint.npz").read_bytes())
    finally:
        subprocess.run(["umount", disk], check=True)
    assert commonweal("run", "small.toml", "--out", "elsewhere", "--resume").returncode == 0
    assert results(tmp_path / "elsewhere") == results(whole[1])


def test_a_scenario_named_like_a_path_stays_in_its_folder(commonweal, small, tmp_path):
    small.write_text(SMALL.replace('name = "small"', 'name = "../over/there"'))
    assert commonweal("run", "small.toml", "--rounds", 1).returncode == 0
    assert (tmp_path / "out/over-there/report.html").exists()


def test_the_quickstart_is_the_default(commonweal, tmp_path):
    done = commonweal("run", "--rounds", 1)
    assert done.returncode == 0, done.stderr
    assert re.search(r'^name = "quickstart"$', shipped_text("quickstart"), re.MULTILINE)
    assert (tmp_path / "out/quickstart/report.html").exists()


def test_without_torch_the_way_out_is_told(tmp_path):
    """The command itself needs neither torch nor data packages."""
    code = (
        "import sys; sys.modules['torch'] = None; sys.argv = ['commonweal', 'run'];"
        "import commonweal.cli.main as main; main.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert done.returncode == 2
    assert "pip install 'commonweal[simulation]'" in done.stderr
    assert "Traceback" not in done.stderr
