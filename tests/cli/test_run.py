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
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests import one_thread

from .conftest import run_here
from .small_run import (
    SMALL,
    finished_run,
    results,
    running,
    settled_rounds,
    undisturbed,
    wait_for_round,
)


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of an undisturbed run; not to be changed."""
    return undisturbed(tmp_path_factory)


@pytest.fixture(scope="module")
def first_round(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one-round")
    finished_run(folder, "--rounds", "1", "--out", "one", "--workers", "1")
    return folder / "one"


@pytest.fixture
def ran_one_round(first_round, tmp_path):
    """Put a finished run of one round into a folder."""
    return lambda name: shutil.copytree(first_round, tmp_path / name)


@pytest.fixture(scope="module")
def interrupted(first_round, tmp_path_factory):
    """A run that replaces another one, meets a second process in its folder, and is stopped by Ctrl-C."""
    folder = tmp_path_factory.mktemp("interrupted")
    (folder / "small.toml").write_text(SMALL.replace("rounds = 4", "rounds = 40"))
    shutil.copytree(first_round, folder / "out/small")
    with running(folder, "run", "small.toml", "--overwrite") as process:
        wait_for_round(process, 1)
        second = run_here(["run", "small.toml", "--resume"], folder)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=100)
    return folder / "out/small", process.returncode, error, second


def test_a_run_leaves_history_report_and_plots(whole):
    assert "report: run/report.html" in (whole.parent / "said").read_text()
    files = set(results(whole))
    assert {"history.json", "report.html"} < files
    assert {Path(name).suffix for name in files} == {".json", ".html", ".png", ".svg"}
    history = json.loads((whole / "history.json").read_text())
    assert history["schema"] == "commonweal.history/1"
    for held in history["rounds"]:
        assert sum(c["transfer"]["value"] for c in held["clients"] if c["transfer"]) == pytest.approx(0, abs=1e-12)


def test_a_killed_run_continues_to_the_same_result_and_settles_each_round_once(commonweal, whole, small, tmp_path):
    killed(tmp_path, round_number=2, delay=0.1)
    (tmp_path / "broken/.1.unfinished").write_bytes(b"half a checkpoint")
    done = commonweal("run", "small.toml", "--out", "broken", "--resume")
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "broken") == results(whole)
    assert settled_rounds(tmp_path / "broken") == settled_rounds(whole)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_a_run_killed_in_every_round_gives_the_same_to_the_bit(seed, commonweal, whole, small, tmp_path):
    delays = random.Random(seed)
    with running(tmp_path, "run", "small.toml", "--out", "broken") as process:  # in round 1: nothing is safe yet
        while not (tmp_path / "broken").exists():
            time.sleep(0.01)
        time.sleep(delays.uniform(0, 0.3))
        process.kill()
    assert not (tmp_path / "broken/checkpoint.npz").exists(), "killed too late"
    for round_number in (2, 3, 4):
        killed(tmp_path, round_number, delays.uniform(0, 0.2))
    assert not (tmp_path / "broken/history.json").exists(), "killed too late"
    assert commonweal("run", "small.toml", "--out", "broken", "--resume").returncode == 0
    assert results(tmp_path / "broken") == results(whole)
    assert settled_rounds(tmp_path / "broken") == settled_rounds(whole)
    assert "sound" in commonweal("ledger", "verify", "broken/ledger.db").stdout


def killed(folder, round_number, delay):
    """A run in `broken`, killed in this round; continued if it was killed before."""
    words = ["run", "small.toml", "--out", "broken"]
    if (folder / "broken/checkpoint.npz").exists():
        words.append("--resume")
    with running(folder, *words) as process:
        wait_for_round(process, round_number - 1)
        time.sleep(delay)
        process.kill()


def test_the_number_of_workers_changes_nothing(commonweal, first_round, small, tmp_path):
    words = ["small.toml", "--rounds", 1, "--out", "by-3", "--workers", 3]
    done = commonweal("run", *words, env=one_thread.unlimited())
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "by-3") == results(first_round)


def test_ctrl_c_says_what_is_saved_and_how_to_resume(interrupted):
    _, code, error, _ = interrupted
    assert code == 130
    assert "Traceback" not in error
    safe = int(re.search(r"interrupted: (\d+) of 40 rounds are saved in out/small; add --resume", error)[1])
    assert safe >= 1


def test_a_new_run_removes_what_the_one_before_it_reported(interrupted):
    folder, *_ = interrupted
    left = {path.name for path in folder.rglob("*") if path.is_file()}
    saved = {"checkpoint.npz", *(f"round-{number:04d}.npz" for number in range(1, 41))}
    assert left - {"ledger.db", "ledger.db-journal"} <= saved


def test_two_runs_at_once_do_not_share_a_folder(interrupted):
    *_, second = interrupted
    assert second.returncode == 2
    assert "another process is using the directory" in second.stderr


@pytest.mark.usefixtures("numbers_only")
def test_options_override_the_scenario(commonweal, small, tmp_path):
    done = commonweal("run", "small.toml", "--mu", "inf", "--seed", 9, "--rounds", 1, "--out", "one")
    assert done.returncode == 0, done.stderr
    scenario = json.loads((tmp_path / "one/history.json").read_text())["scenario"]
    assert (scenario["mechanism"]["mu"], scenario["seed"], scenario["rounds"]) == ("inf", 9, 1)


def test_two_runs_are_not_mixed_in_one_folder(refused, ran_one_round, small):
    ran_one_round("out/small")
    assert "'out/small' already contains a run. Resume it (--resume)" in refused("run", "small.toml", "--rounds", 1)
    error = refused("run", "small.toml", "--seed", 4, "--resume")
    assert "was written for a different scenario. Give the scenario, mu, seed and rounds" in error


def test_a_run_that_cannot_start_leaves_the_one_before_it(refused, ran_one_round, small, tmp_path):
    ran_one_round("kept")
    before = {path: path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file()}
    small.write_text(SMALL.replace("mnist-5k", "no-such-source"))
    refused("run", "small.toml", "--out", "kept", "--overwrite")
    assert before == {path: path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file()}


def test_a_refused_run_leaves_other_files_alone(commonweal, small, tmp_path):
    """Its folder was made, somebody else writes beside it, then it fails."""
    small.write_text(SMALL.replace("[learning]", "[learning]\nlearning_rate = 1e30"))

    def write_beside():
        while not (tmp_path / "shared/mine").exists():
            time.sleep(0.001)
        (tmp_path / "shared/theirs").write_text("results")

    writer = threading.Thread(target=write_beside, daemon=True)
    writer.start()
    assert commonweal("run", "small.toml", "--out", "shared/mine").returncode == 2
    writer.join()
    assert [path.name for path in (tmp_path / "shared").iterdir()] == ["theirs"]


@pytest.mark.usefixtures("numbers_only")
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
    assert "was written for different data: the scenario is the same" in error
    error = refused("run", "small.toml", "--rounds", 1, "--seed", 4, "--data", "store", "--resume")
    assert "was written for a different scenario or different data" in error


def test_a_damaged_checkpoint_is_refused(refused, ran_one_round, small, tmp_path):
    ran_one_round("out/small")
    checkpoint = tmp_path / "out/small/checkpoint.npz"
    content = checkpoint.read_bytes()
    for spoilt in (content[: len(content) // 2], b"", b"no archive at all"):
        checkpoint.write_bytes(spoilt)
        assert "Cannot read checkpoint 'out/small/checkpoint.npz'" in refused(
            "run", "small.toml", "--rounds", 1, "--resume"
        )


ALL_CLIENTS = re.compile(r"\[\[clients\]\].*", re.DOTALL)
REFUSALS = {
    "broken TOML": (SMALL.replace("[mechanism]", "[mechanism"), "small.toml, line 6: not valid TOML"),
    "unknown key": (SMALL.replace("iteration_limit", "iterations_limit"), "small.toml, line 11: unknown key"),
    "missing data": (SMALL.replace("mnist-5k", "svhn"), "COMMONWEAL_DATA"),
    "unknown source": (SMALL.replace("mnist-5k", "mnits"), "mnits"),
    "huge rate": (SMALL.replace("[learning]", "[learning]\nlearning_rate = 1e39"), "learning_rate must be"),
    "pool too small": (SMALL.replace("samples_per_round = 60", "samples_per_round = 9000"), "north"),
    "zero clients": (ALL_CLIENTS.sub("", SMALL), "clients"),
    "one client": (ALL_CLIENTS.sub('[[clients]]\nname = "alone"', SMALL), "at least 2"),
    "no validation samples": (SMALL.replace("samples_per_round = 60", "samples_per_round = 0.001"), "north"),
    "diverging": (
        SMALL.replace("[learning]", "[learning]\nlearning_rate = 1e30"),
        "in round 1, iteration 1. Nothing in this round was settled. Lower learning_rate (now 1e+30).",
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
        (["small.toml", "--mu", "-1"], 'mu must be 0, a number from 1e-50 to 1e+50, or "inf", got -1.0'),
        (["small.toml", "--rounds", "0"], "rounds must be a whole number from 1 to 10000, got 0"),
        (["small.toml", "--seed", "-1"], "seed must be a whole number from 0 to 9223372036854775807, got -1"),
        (["small.toml", "--workers", "0"], "--workers"),
        (["small.toml", "--resume"], "Nothing to resume in 'out/small'"),
        (["small.toml", "--resume", "--overwrite"], "cannot be combined. Drop one of them"),
        (["small.toml", "--out", "small.toml"], "small.toml"),
        (["small.toml", "--out", "/proc/nowhere"], "Cannot write results into"),
    ],
)
def test_bad_options_are_refused(arguments, evidence, refused, small):
    assert evidence in refused("run", *arguments)


def test_a_full_disk_is_reported(commonweal, small, tmp_path):
    """The room for a file is limited so that the checkpoint of the first round does not fit."""

    def no_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = commonweal("run", "small.toml", preexec_fn=no_room)
    assert done.returncode == 2
    assert "Cannot write the state after a round to" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.soak
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
        assert "no space left on device. Free some space there, then resume" in done.stderr
        assert "Traceback" not in done.stderr
        assert not list(disk.rglob("*unfinished*"))
        shutil.copytree(disk / "run/rounds", tmp_path / "elsewhere/rounds")
        shutil.copy(disk / "run/checkpoint.npz", tmp_path / "elsewhere")
    finally:
        subprocess.run(["umount", disk], check=True)
    assert commonweal("run", "small.toml", "--out", "elsewhere", "--resume").returncode == 0
    assert results(tmp_path / "elsewhere") == results(whole)


def test_a_scenario_named_like_a_path_stays_in_its_folder(refused, small):
    small.write_text(SMALL.replace('name = "small"', 'name = "../over/there"'))
    assert "out/over-there" in refused("run", "small.toml", "--resume")


def test_the_quickstart_is_the_default(refused):
    assert "out/quickstart" in refused("run", "--resume")


def test_without_torch_the_message_says_what_to_install(tmp_path):
    """The command itself needs neither torch nor data packages."""
    code = (
        "import sys; sys.modules['torch'] = None; sys.argv = ['commonweal', 'run'];"
        "import commonweal.cli.main as main; main.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert done.returncode == 2
    assert "pip install 'commonweal[simulation]'" in done.stderr
    assert "Traceback" not in done.stderr
