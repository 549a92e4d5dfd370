"""`commonweal reproduce` as a user runs it: killed and continued, asked again, refused."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.first_few import first_few
from tests.study.small_federation import small_federation_text

from .conftest import COMMAND
from .reproductions import (
    ASKED,
    DONE,
    LABEL_NOISE,
    PATIENCE_SECONDS,
    REPLICATION_COUNT,
    SHORT,
    SMALL_MNIST,
    TOTAL,
    common_store,
    descendants,
    done_in,
    is_running,
    make_store,
    rows,
    undisturbed,
    wait_for_results,
    wait_until,
)


@pytest.fixture(autouse=True)
def _nothing_of_the_developers(monkeypatch):
    for name in ("COMMONWEAL_DATA", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return common_store(tmp_path_factory)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What an undisturbed run with one worker gives; not to be changed."""
    return undisturbed(tmp_path_factory)


@pytest.fixture
def copied(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "out"))


@pytest.fixture
def reproduce(commonweal, store):
    """Run the command to its end."""
    return lambda *words, **options: commonweal("reproduce", *words, "--data", store, "--out", "out", **options)


@pytest.fixture
def refused_there(reproduce, tmp_path):
    """The sentence with which the command refuses; nothing in the folder has changed."""

    def run(*words):
        before = content(tmp_path)
        done = reproduce(*words)
        assert done.returncode == 2, (done.returncode, done.stderr)
        assert not done.stdout
        assert "Traceback" not in done.stderr
        assert content(tmp_path) == before
        assert re.fullmatch(r"error: [^\n]+\n", done.stderr), done.stderr
        return done.stderr

    return run


@pytest.fixture
def started(store, tmp_path):
    """Start the command with two workers, in a process group of its own as a terminal does; killed at the end."""
    processes = []

    def start(*words):
        process = subprocess.Popen(
            [COMMAND, "reproduce", *ASKED, "--workers", "2", "--data", store, "--out", "out", *words],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        others = descendants(process.pid)
        process.kill()
        process.communicate()
        wait_until(lambda ids=others: not any(map(is_running, ids)), "workers go on")


def left_in_memory(process):
    """What joblib shares between a process and its workers."""
    names = (f"sem.loky-{process}-*", f"joblib_memmapping_folder_{process}_*")
    return [path for name in names for path in Path("/dev/shm").glob(name)]


def content(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "kills",
    [
        [("parent", 1)],
        pytest.param([("group", 0), ("parent", 1), ("group", 1), ("parent", 0)], marks=pytest.mark.soak),
    ],
)
def test_killed_at_any_moment_and_continued_it_gives_the_same_result(kills, started, reproduce, whole, tmp_path):
    moments = random.Random(9)
    for whom, result_count in kills:
        process = started()
        wait_until((tmp_path / "out").exists, "it does not start")
        told = wait_for_results(process, result_count)
        time.sleep(moments.uniform(0, 0.2 if result_count else 2))  # one result at a time, or nothing would remain
        others = descendants(process.pid)
        if whom == "group":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()
        assert told <= done_in(tmp_path / "out"), "what was told to be done was lost"
        wait_until(lambda ids=others: not any(map(is_running, ids)), "workers go on after their parent is gone")
        shared = left_in_memory(process.pid)
        assert whom == "group" or not shared, "only where all are killed nobody can clear up"
        for path in shared:
            path.rmdir() if path.is_dir() else path.unlink()
    assert len(done_in(tmp_path / "out")) < TOTAL, "killed too late"
    assert not (tmp_path / "out/results.parquet").exists()
    there = len(done_in(tmp_path / "out"))
    done = reproduce(*ASKED, "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert f"{there} of {TOTAL} replications already exist" in done.stderr
    assert len(DONE.findall(done.stderr)) <= TOTAL - there
    assert rows(tmp_path / "out").equals(rows(whole))
    assert not list(tmp_path.rglob("*unfinished*"))


@pytest.mark.parametrize(
    ("result_count", "further"),
    [(0, []), *(pytest.param(1, further, marks=pytest.mark.soak) for further in ([], ["--workers", "1"]))],
)
def test_ctrl_c_says_what_is_saved_and_how_to_continue(result_count, further, started, reproduce, whole, tmp_path):
    process = started(*further)
    wait_until((tmp_path / "out").exists, "it does not start")
    told = wait_for_results(process, result_count)
    others = descendants(process.pid)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it: to all of them
    _, error = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130, error
    assert "Traceback" not in error
    assert "Warning" not in error
    safe = re.search(rf"^interrupted: (\d) of {TOTAL} replications are saved in out; run the same command", error, re.M)
    assert safe or (result_count == 0 and "interrupted: nothing was computed; run the same command" in error), error
    wait_until(lambda: not any(map(is_running, others)), "workers go on")
    assert not left_in_memory(process.pid)
    assert told <= done_in(tmp_path / "out")
    if result_count:
        assert int(safe[1]) == len(done_in(tmp_path / "out"))
        assert reproduce(*ASKED, "--workers", 1).returncode == 0
        assert rows(tmp_path / "out").equals(rows(whole))
    else:
        assert not (tmp_path / "out").exists(), "an empty folder is left"


def test_a_repeated_request_computes_nothing_and_needs_no_cluster(reproduce, copied):
    before = content(copied)
    nowhere = ["--backend", "ray", "--ray-address", "127.0.0.1:1"]
    for words in (ASKED, [*ASKED, *nowhere], ["label-noise", "--replications", 2, "--mu", "0.002", *SHORT]):
        done = reproduce(*words)
        assert done.returncode == 0, done.stderr
        assert "already exist" in done.stderr
        assert content(copied) == before


def test_a_file_with_settings_is_one_experiment_per_combination_and_continues(reproduce, tmp_path):
    (tmp_path / "mine.toml").write_text(small_federation_text(rounds=1))
    words = ["mine.toml", "--set", "learning.learning_rate=0.05,0.1", "--mu", "0", "--no-report", "--workers", 1]
    done = reproduce(*words, "--replications", 1)
    assert done.returncode == 0, done.stderr
    assert "1/2: replication 1 of mine[learning_rate=0.05], 1 round in" in done.stderr
    assert "2/2: replication 1 of mine[learning_rate=0.1], 1 round in" in done.stderr
    more = reproduce(*words, "--replications", 2)
    assert "2 of 4 replications already exist" in more.stderr
    names = rows(tmp_path / "out").column("experiment").unique().to_pylist()
    assert names == ["mine[learning_rate=0.05]", "mine[learning_rate=0.1]"]


def test_a_broken_results_file_is_collected_again(reproduce, copied, whole):
    (copied / "results.parquet").write_bytes(b"PAR1")
    assert reproduce(*ASKED).returncode == 0
    assert rows(copied).equals(rows(whole))


@pytest.mark.parametrize(
    ("words", "evidence"),
    [
        (["label-noice"], "'label-noise'?"),
        (["label-noise", "everything"], "'everything'"),
        (["quickstart", "--set", "learning.rate=1"], "no key 'learning.rate'. Did you mean 'learning.learning_rate'?"),
        (["quickstart", "--set", "rounds=0"], "rounds must be a whole number from 1"),
        (["--replications", "0"], "--replications must be a whole number from 1 to 99999, got 0; the paper has 100"),
        (["--replications", "-1"], "got -1"),
        (["--replications", "100000"], "got 100000"),
        (["--mu", "some"], "mu must be a number, got 'some'"),
        (["--mu", "0,,1"], "--mu must be all, or numbers separated by commas such as 0,0.05,inf, got '0,,1'"),
        (["--mu", ""], "--mu must be all, or numbers separated by commas"),
        (["--mu", "0,all"], "mu must be a number, got 'all'"),
        (["--mu", "-0.1"], "got -0.1"),
        (["--mu", "0,nan"], "got nan"),
        (["--mu", "1e-60"], "got 1e-60"),
        (["--workers", "0"], "--workers must be at least 1, got 0"),
    ],
)
def test_bad_arguments_are_refused(words, evidence, refused):
    assert evidence in refused("reproduce", *words)


def test_missing_data_are_reported(refused, refused_there):
    assert "needs a data directory" in refused("reproduce", "label-noise")
    assert "The data directory nowhere is not a folder" in refused("reproduce", "label-noise", "--data", "nowhere")
    assert "has no svhn.npz, the file of the source 'svhn'" in refused_there("heterogeneous")


@pytest.mark.parametrize(
    ("out", "evidence"),
    [
        ("file", "into 'file': file exists. Choose another folder."),
        ("file/inside", "into 'file/inside': not a directory"),
        ("/proc/nowhere", "Cannot write results into '/proc/nowhere': no such file or directory"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused(out, evidence, refused, store, tmp_path):
    (tmp_path / "file").write_text("something else")
    assert evidence in refused("reproduce", "label-noise", "--data", store, "--out", out)
    assert (tmp_path / "file").read_text() == "something else"


def rewrite(path, **changes):
    """Other metadata of its replication."""
    table = pq.read_table(path)
    document = json.loads(table.schema.metadata[b"commonweal"])
    document["replications"][0] |= changes
    pq.write_table(table.replace_schema_metadata({b"commonweal": json.dumps(document).encode()}), path)


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ("code_version", "an earlier version of commonweal"),
        ("scenario_digest", "a different scenario"),
        ("data_fingerprint", "different data"),
    ],
)
def test_results_of_other_versions_are_refused(field, what, refused_there, copied):
    rewrite(copied / "replications" / SMALL_MNIST / "00002.parquet", **{field: "0" * 64})
    sentence = refused_there(*ASKED)
    assert f"Replication 2 of {SMALL_MNIST} in 'out' was computed with {what}" in sentence
    assert "choose another folder" in sentence.lower()


def test_results_of_other_data_are_refused(commonweal, copied, tmp_path):
    other = make_store(tmp_path / "other", seed=1)
    done = commonweal("reproduce", *ASKED, "--data", other, "--out", "out")
    assert done.returncode == 2
    assert f"Replication 1 of {LABEL_NOISE} in 'out' was computed with different data, and" in done.stderr


def test_results_of_another_processor_are_refused_unless_accepted(refused_there, reproduce, copied, whole):
    rewrite(copied / "replications" / SMALL_MNIST / "00002.parquet", cpu_kind="Abacus family 1")
    sentence = refused_there(*ASKED)
    assert "from different kinds of processors, which round differently: Abacus family 1 and" in sentence
    assert "or accept mixed processors (mixed_cpus)" in sentence
    assert reproduce(*ASKED, "--mixed-cpus").returncode == 0
    assert rows(copied).equals(rows(whole))


def test_a_new_replication_on_another_processor_is_refused_before_it_is_computed(refused_there, copied):
    for path in copied.glob("replications/*/*"):
        rewrite(path, cpu_kind="Abacus family 1")
    one_more = ["--replications", REPLICATION_COUNT + 1]
    assert "Abacus family 1" in refused_there("label-noise", *one_more, "--mu", "0", *SHORT)


@pytest.mark.parametrize("spoilt", [b"not Parquet at all, though it is long enough to be", "half"])
def test_a_damaged_replication_is_named_with_advice(spoilt, refused_there, copied):
    path = copied / "replications" / LABEL_NOISE / "00003.parquet"
    whole_file = path.read_bytes()
    path.write_bytes(whole_file[: len(whole_file) // 2] if spoilt == "half" else spoilt)
    sentence = refused_there(*ASKED)
    assert f"Cannot read 'out/replications/{LABEL_NOISE}/00003.parquet': " in sentence
    assert "Remove that file and run `commonweal reproduce` again" in sentence


def test_two_at_once_do_not_share_a_folder(started, reproduce, tmp_path):
    started("--workers", "1")
    wait_until((tmp_path / "out").exists, "it does not start")
    done = reproduce(*ASKED)
    assert done.returncode == 2
    assert "Cannot start a reproduction in 'out': another process is using the directory" in done.stderr


def test_an_unreachable_cluster_is_refused_soon(refused_there):
    pytest.importorskip("ray")
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]  # nobody listens
        began = time.monotonic()
        sentence = refused_there("label-noise", "--backend", "ray", "--ray-address", f"127.0.0.1:{port}")
    assert f"No Ray cluster is running at '127.0.0.1:{port}' (Connection refused from" in sentence
    assert "start one with `ray start --head`, or correct the address" in sentence
    assert time.monotonic() - began < PATIENCE_SECONDS


@pytest.mark.parametrize(
    ("package", "words", "way_out"),
    first_few(
        2,
        [
            ("torch", [], "pip install 'commonweal[simulation]'"),
            ("ray", ["--backend", "ray"], "pip install 'commonweal[ray]'"),
            ("joblib", [], "pip install 'commonweal[simulation]'"),
            ("pyarrow", [], "pip install 'commonweal[simulation]'"),
        ],
    ),
)
def test_a_missing_package_is_named_with_the_way_to_install_it(package, words, way_out, store, tmp_path):
    arguments = ["commonweal", "reproduce", "label-noise", "--data", str(store), *words]
    code = f"import sys; sys.modules[{package!r}] = None; sys.argv = {arguments}"
    code += "; from commonweal.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 2, done.stderr
    assert f"needs {package}: {way_out}" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_reported_and_nothing_unfinished_remains(reproduce, tmp_path):
    """The room for a file is limited so that a replication does not fit."""

    def no_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))

    done = reproduce("small-mnist", "--replications", 1, "--mu", 0, "--workers", 1, preexec_fn=no_room)
    assert done.returncode == 2
    assert "Cannot write the results to 'out/replications/small-mnist/00001" in done.stderr
    assert "Free some space there, then run the same command again" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_really_full_disk_keeps_finished_results(reproduce, whole, tmp_path):
    disk = tmp_path / "out"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=52k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        done = reproduce(*ASKED, "--workers", 1)
        assert done.returncode == 2, done.stderr
        assert "no space left on device" in done.stderr
        assert "Traceback" not in done.stderr
        assert not list(disk.rglob("*unfinished*"))
        there = done_in(disk)
        assert 0 < len(there) < TOTAL
        assert subprocess.run(["mount", "-o", "remount,size=9m", disk]).returncode == 0
        done = reproduce(*ASKED, "--workers", 1)
        assert f"{len(there)} of {TOTAL} replications already exist" in done.stderr
        assert rows(disk).equals(rows(whole))
    finally:
        subprocess.run(["umount", disk], check=True)
