"""Replications on a Ray cluster of two nodes, started by the tests: results, failures, and cleaning up."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from commonweal.errors import InputError
from tests.cli.conftest import COMMAND
from tests.cli.reproductions import (
    ASKED,
    PATIENCE_SECONDS,
    TOTAL,
    common_store,
    descendants,
    done_in,
    is_running,
    rows,
    undisturbed,
    wait_for_results,
    wait_until,
)

ROOT = Path(__file__).parents[2]
RAY = Path(sys.executable).with_name("ray")

pytestmark = pytest.mark.skipif(not RAY.exists(), reason="Ray is not installed: pip install 'commonweal[ray]'")


def free_port():
    with socket.socket() as free:
        free.bind(("", 0))
        return free.getsockname()[1]


def end(processes):
    """End only these processes, asking politely first."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        running = [process for process in processes if is_running(process)]
        for process in running:
            try:
                os.kill(process, how)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + 20
        while any(map(is_running, running)) and time.monotonic() < deadline:
            time.sleep(0.1)


class Node:
    """A node with one core; it is a child process, so that we know what to end."""

    def __init__(self, *words):
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
        environment.pop("RAY_ADDRESS", None)
        self._process = subprocess.Popen(
            [RAY, "start", "--block", "--num-cpus=1", "--object-store-memory=80000000", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        said = []
        for line in self._process.stdout:
            said.append(line)
            if "Ray runtime started" in line:
                return
        self._process.communicate()
        raise AssertionError("".join(said))

    def workers(self):
        """Its processes that are computing a replication."""
        return {one for one in descendants(self._process.pid) if command_of(one).startswith("ray::_attempt")}

    def end(self):
        if self._process.poll() is None:
            end([self._process.pid, *descendants(self._process.pid)])
            self._process.communicate()

    def pull_the_plug(self):
        for process in [self._process.pid, *descendants(self._process.pid)]:
            os.kill(process, signal.SIGKILL)
        self._process.communicate()


def command_of(process):
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


@dataclass(frozen=True)
class Cluster:
    """A cluster of two nodes."""

    address: str
    first: Node
    second: Node


@contextmanager
def two_nodes(folder):
    port = free_port()
    address = f"127.0.0.1:{port}"
    with ExitStack() as ending:
        head = ["--head", f"--port={port}", f"--temp-dir={folder}", "--include-dashboard=false"]
        if find_spec("grpc"):  # then Ray listens for clients from outside, at a fixed port unless told otherwise
            head.append(f"--ray-client-server-port={free_port()}")
        first = Node(*head, f"--dashboard-agent-listen-port={free_port()}")
        ending.callback(first.end)
        second = Node(f"--address={address}", f"--dashboard-agent-listen-port={free_port()}")
        ending.callback(second.end)
        yield Cluster(address=address, first=first, second=second)


@pytest.fixture(scope="module")
def cluster():
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # names of sockets may not be long
    try:
        with two_nodes(folder) as nodes:
            yield nodes
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return common_store(tmp_path_factory)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The results of a run without Ray."""
    return undisturbed(tmp_path_factory)


@pytest.fixture
def started(cluster, store, tmp_path):
    """Start the command on the cluster; killed at the end."""
    processes = []

    (tmp_path / "store").symlink_to(store)
    on_cluster = ["--backend", "ray", "--ray-address", cluster.address]

    def start(*words, **environment):
        process = subprocess.Popen(
            [COMMAND, "reproduce", *ASKED, "--data", "store", "--out", "out", *on_cluster, *words],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def python(code, *arguments):
    """Run a script; returns its output and errors."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_auto_without_a_cluster_is_refused():
    from commonweal.study import ray_workers

    if any("gcs_server" in command_of(process.name) for process in Path("/proc").glob("[0-9]*")):
        pytest.skip("a Ray cluster is up on this machine")
    sentence = r"No Ray cluster is running at 'auto' \(.*\): start one with `ray start --head`"
    with pytest.raises(InputError, match=sentence), ray_workers.ray_cluster("auto", worker_count=None):
        raise AssertionError("connected")


@pytest.mark.parametrize("address", ["nonsense", "ray://127.0.0.1:10001", ":", ":6379", "host:port", ""])
def test_a_malformed_address_is_refused(address):
    from commonweal.study import ray_workers

    sentence = rf"A Ray address must be host:port or auto, got '{address}'. Run the command on a machine of the cluster"
    with pytest.raises(InputError, match=sentence), ray_workers.ray_cluster(address, worker_count=None):
        raise AssertionError("connected")


@pytest.mark.parametrize("address", ["no-such-host.invalid:6379", "127.0.0.1:99999999", "127.0.0.1:1"])
def test_an_address_where_nothing_listens_is_refused(address):
    from commonweal.study import ray_workers

    sentence = rf"No Ray cluster is running at '{address}' \(.*\): start one with `ray start --head`"
    with pytest.raises(InputError, match=sentence), ray_workers.ray_cluster(address, worker_count=None):
        raise AssertionError("connected")


def test_a_port_where_no_ray_answers_is_refused(monkeypatch):
    from commonweal.study import ray_workers

    monkeypatch.setattr(ray_workers, "_CLUSTER_SECONDS", 3.0)
    with socket.socket() as silent:
        silent.bind(("", 0))
        silent.listen()
        address = f"localhost:{silent.getsockname()[1]}"
        sentence = rf"No Ray cluster is running at '{address}' \(no answer within 3 seconds\): start one with"
        with pytest.raises(InputError, match=sentence), ray_workers.ray_cluster(address, worker_count=None):
            raise AssertionError("connected")


def test_two_nodes_give_the_rows_of_one_machine(cluster, started, whole, tmp_path):
    process = started()
    on_first, on_second = set(), set()
    while process.poll() is None:
        on_first |= cluster.first.workers()
        on_second |= cluster.second.workers()
        time.sleep(0.05)
    error = process.stderr.read()
    assert process.returncode == 0, error
    assert len(error.splitlines()) == TOTAL, f"one line per replication, none of Ray's own:\n{error}"
    assert on_first, "nothing was computed on the first node"
    assert on_second, "nothing was computed on the second node"
    assert rows(tmp_path / "out").equals(rows(whole))
    wait_until(lambda: not cluster.first.workers() | cluster.second.workers(), "workers go on")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_interrupted_and_continued_it_gives_the_same_result(how, cluster, started, whole, tmp_path):
    process = started()
    told = wait_for_results(process, 1)
    process.send_signal(how)
    _, error = process.communicate(timeout=PATIENCE_SECONDS)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "replications are saved in out; run the same command to continue" in error
        assert "Traceback" not in error
    assert told <= done_in(tmp_path / "out")
    assert len(done_in(tmp_path / "out")) < TOTAL, "ended too late"
    wait_until(lambda: not cluster.first.workers() | cluster.second.workers(), "workers continue although nobody waits")
    process = started("--workers", "1")
    most = 0
    while process.poll() is None:
        most = max(most, len(cluster.first.workers() | cluster.second.workers()))
        time.sleep(0.05)
    assert process.returncode == 0, process.stderr.read()
    assert most == 1, "one at a time was asked for"
    assert rows(tmp_path / "out").equals(rows(whole))


FAILURES = """
import os, sys, types
from dataclasses import replace
from commonweal.errors import InputError
from commonweal.study import ray_workers
from commonweal.study.replication import ReplicationTask
from tests.study.small_federation import small_federation

scenario = small_federation(rounds=1)
diverging = replace(scenario, learning=replace(scenario.learning, learning_rate=1e30))
task = ReplicationTask(
    experiment="label-noise", replication=7, scenario=diverging, mus={"clip": (0.0,)}, data_directory=None
)

def crash(task):
    os._exit(1)

only_here = types.ModuleType("only_here")
exec("def elsewhere(task): ...", only_here.__dict__)
sys.modules["only_here"] = only_here

def fail(task):
    return 1 / 0

told = []
attempts = [ray_workers._attempt, crash, only_here.elsewhere, fail]
with ray_workers.ray_cluster(sys.argv[1], worker_count=None) as workers:
    for attempt in attempts:
        ray_workers._attempt = attempt
        try:
            told.append(str(list(workers([task]))))
        except Exception as error:
            told.append(f"{type(error).__name__} {error.__cause__} {str(error).splitlines()[-1]}")
print(*told, sep="\\n")
"""


def test_failures_of_a_worker_arrive_as_one_sentence(cluster):
    printed, error = python(FAILURES, cluster.address)
    refused, crashed, missing, bug = printed.splitlines()
    assert refused.startswith("FederationError None Training diverged: client")
    assert refused.endswith("Lower learning_rate (now 1e+30).")
    assert crashed.startswith("InputError None The Ray cluster lost replication 7 of label-noise (WorkerCrashedError)")
    assert "after 3 retries. Check the cluster's machines" in crashed
    assert missing.startswith("InputError None A machine of the Ray cluster cannot import commonweal (")
    assert "No module named 'only_here'). Install the same version on every machine" in missing
    assert "ZeroDivisionError" in bug, "our own mistakes are not hidden"
    assert error == ""


def test_other_versions_are_refused(started, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/sitecustomize.py").write_text("import ray\nray.__version__ = '2.1.0'\n")
    process = started(PYTHONPATH=str(tmp_path / "other"))
    _, error = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 2
    assert "This machine has a different version of Python or Ray from the cluster (Version mismatch" in error
    assert "Ray: 2.1.0" in error
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()


def test_what_is_lost_with_a_node_is_computed_again(cluster, started, whole, tmp_path):
    third = Node(f"--address={cluster.address}", f"--dashboard-agent-listen-port={free_port()}")
    try:
        process = started()
        wait_until(third.workers, "nothing is computed on the third node")
        third.pull_the_plug()
        printed, error = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        third.end()
    assert process.returncode == 0, error
    assert printed == "results: out/results.parquet\n", "nothing of Ray's own"
    assert len(error.splitlines()) == TOTAL, error
    assert rows(tmp_path / "out").equals(rows(whole))
