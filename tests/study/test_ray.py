"""Replications on Ray clusters, started by the tests: results, failures, and cleaning up.

Ray may compute everything on one node while another is still starting. A test that needs a certain node to compute
therefore leaves Ray no choice.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
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
    """A node with at most one core; it is a child process, so that we know what to end."""

    def __init__(self, *words, core_count=1):
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
        environment.pop("RAY_ADDRESS", None)
        self._process = subprocess.Popen(
            [RAY, "start", "--block", f"--num-cpus={core_count}", "--object-store-memory=80000000", *words],
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


class Cluster:
    """A cluster whose head has a core or none; each further node has one."""

    def __init__(self, *, head_core_count):
        self._folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # names of sockets may not be long
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        head = ["--head", f"--port={port}", f"--temp-dir={self._folder}", "--include-dashboard=false"]
        if find_spec("grpc"):  # then Ray listens for clients from outside, at a fixed port unless told otherwise
            head.append(f"--ray-client-server-port={free_port()}")
        self.nodes = [Node(*head, f"--dashboard-agent-listen-port={free_port()}", core_count=head_core_count)]

    def add_node(self):
        node = Node(f"--address={self.address}", f"--dashboard-agent-listen-port={free_port()}")
        self.nodes.append(node)
        return node

    def workers(self):
        return set().union(*(node.workers() for node in self.nodes))

    def end(self):
        for node in reversed(self.nodes):
            node.end()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def ended(cluster):
    try:
        yield cluster
    finally:
        cluster.end()


@pytest.fixture(scope="module")
def cluster():
    """Two nodes with a core each."""
    with ended(Cluster(head_core_count=1)) as both:
        both.add_node()
        yield both


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return common_store(tmp_path_factory)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The results of a run without Ray."""
    return undisturbed(tmp_path_factory)


@pytest.fixture
def start(store, tmp_path):
    """Start the command on a cluster; killed at the end."""
    processes = []

    (tmp_path / "store").symlink_to(store)

    def start(cluster, *words, **environment):
        on_cluster = ["--backend", "ray", "--ray-address", cluster.address]
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


@pytest.mark.soak
def test_two_nodes_give_the_rows_of_one_machine(cluster, start, whole, tmp_path):
    """Whichever of them computes; that a node other than the head does is shown where only that one can."""
    process = start(cluster)
    wait_until(cluster.workers, "nothing is computed")
    _, error = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, error
    assert len(error.splitlines()) == TOTAL, f"one line per replication, none of Ray's own:\n{error}"
    assert rows(tmp_path / "out").equals(rows(whole))
    wait_until(lambda: not cluster.workers(), "workers go on")


@pytest.mark.soak
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_interrupted_and_continued_it_gives_the_same_result(how, cluster, start, whole, tmp_path):
    process = start(cluster)
    told = wait_for_results(process, 1)
    process.send_signal(how)
    _, error = process.communicate(timeout=PATIENCE_SECONDS)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "replications are saved in out; run the same command to continue" in error
        assert "Traceback" not in error
    assert told <= done_in(tmp_path / "out")
    assert len(done_in(tmp_path / "out")) < TOTAL, "ended too late"
    wait_until(lambda: not cluster.workers(), "workers continue although nobody waits")
    process = start(cluster, "--workers", "1")
    most, before = 0, set()
    while process.poll() is None:
        now = cluster.workers()
        most = max(most, len(now & before))  # one that ends while another starts is not in both
        before = now
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


@pytest.mark.soak
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


@pytest.mark.soak
def test_other_versions_are_refused(cluster, start, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/sitecustomize.py").write_text("import ray\nray.__version__ = '2.1.0'\n")
    process = start(cluster, PYTHONPATH=str(tmp_path / "other"))
    _, error = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 2
    assert "This machine has a different version of Python or Ray from the cluster (Version mismatch" in error
    assert "Ray: 2.1.0" in error
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()


@pytest.mark.soak
def test_what_is_lost_with_a_node_is_computed_again(start, whole, tmp_path):
    with ended(Cluster(head_core_count=0)) as cluster:
        only = cluster.add_node()
        process = start(cluster)
        wait_until(only.workers, "nothing is computed on the only node with a core")
        only.pull_the_plug()
        cluster.add_node()
        printed, error = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, error
    assert printed == "results: out/results.parquet\n", "nothing of Ray's own"
    assert len(error.splitlines()) == TOTAL, error
    assert rows(tmp_path / "out").equals(rows(whole))
