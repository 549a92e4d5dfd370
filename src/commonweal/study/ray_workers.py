"""Replications on the workers of a Ray cluster that is up already; each uses one core.

The cluster's machines need the same commonweal and the same data as this one. Only this process writes results: workers
send their rows to it. Ray computes again what was lost with a worker or a machine.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from commonweal.errors import CommonwealError, InputError
from commonweal.study.replication import Replication, Task, replicate
from commonweal.study.runner import Workers

_PORT_SECONDS = 5.0
_CLUSTER_SECONDS = 20.0
_RETRY_COUNT = 3
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_WAY_OUT = "start one with `ray start --head`, or correct --ray-address"
_CONNECT = """
import ray, sys
try:
    ray.init(address=sys.argv[1], log_to_driver=False)
except Exception as error:
    sys.exit(" ".join(str(error).split()))
"""


@contextmanager
def ray_cluster(address: str, *, worker_count: int | None) -> Iterator[Workers]:
    """Connect to the cluster at host:port, or with "auto" to the one of this machine, until the block ends.

    At most `worker_count` replications are under way at a time, one for each core of the cluster if None.
    """
    if address != "auto":
        _check_port(address)
    _check_cluster(address)
    with _connected(address):
        core_count = int(ray.cluster_resources().get("CPU", 0))
        if core_count == 0:
            raise InputError(
                f"a Ray cluster must have cores for tasks, got none at {address!r}; start its nodes with --num-cpus"
            )
        yield partial(_replicate_remotely, under_way_limit=worker_count or core_count)


def _replicate_remotely(tasks: Sequence[Task], *, under_way_limit: int) -> Generator[Replication]:
    attempt = ray.remote(num_cpus=1, max_retries=_RETRY_COUNT)(_attempt)
    waiting = iter(tasks)
    under_way = {attempt.remote(task): task for task in islice(waiting, under_way_limit)}
    while under_way:
        (done, *_), _ = ray.wait(list(under_way), num_returns=1)
        task = under_way.pop(done)
        under_way |= {attempt.remote(next_one): next_one for next_one in islice(waiting, 1)}
        yield _fetched(done, task)


def _attempt(task: Task) -> Replication | CommonwealError:
    """On a worker. A refusal is an answer too: as an exception it would come back wrapped in Ray's own."""
    try:
        return replicate(task)
    except CommonwealError as error:
        return error


def _fetched(done: Any, task: Task) -> Replication:
    try:
        answer: Replication | CommonwealError = ray.get(done)
    except RayTaskError as error:
        if "failed to import on the worker" in str(error):
            raise InputError(
                "every machine of a Ray cluster needs the same commonweal, got "
                f"{str(error).strip().splitlines()[-1]} on one of them; install the same version everywhere: "
                "pip install 'commonweal[ray]'"
            ) from None
        raise
    except RayError as error:
        raise InputError(
            f"a replication must come back from the Ray cluster, got {type(error).__name__} for replication "
            f"{task.replication} of {task.experiment} after {_RETRY_COUNT} retries; see to the cluster's machines, "
            "then run the same command again: what is done is kept"
        ) from None
    if isinstance(answer, CommonwealError):
        raise answer
    return answer


def _check_port(address: str) -> None:
    """Whether anybody answers: fast, and clearer than what Ray says."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise InputError(
            f"a Ray address must be host:port or auto, got {address!r}; run the command on a machine of the cluster "
            "with the address that `ray start --head` printed"
        )
    host = host.strip("[]")
    if host in _LOOPBACK:
        host = ray.util.get_node_ip_address()  # as Ray does
    try:
        socket.create_connection((host, int(port)), timeout=_PORT_SECONDS).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"a Ray cluster must be up at {address!r}, got {reason} from {host} port {port}; {_WAY_OUT}"
        ) from None


def _check_cluster(address: str) -> None:
    """Let another process connect first: where no cluster answers Ray waits for minutes, deaf to Ctrl-C."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CONNECT, address], capture_output=True, text=True, timeout=_CLUSTER_SECONDS
        )
    except subprocess.TimeoutExpired:
        evidence = f"no answer within {_CLUSTER_SECONDS:.0f} seconds"
    else:
        if done.returncode == 0:
            return
        evidence = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    if "ersion mismatch" in evidence:
        raise InputError(
            f"all machines of a Ray cluster need the same versions of Python and Ray, got {evidence}; install the "
            "cluster's versions here"
        )
    raise InputError(f"a Ray cluster must be up at {address!r}, got {evidence}; {_WAY_OUT}")


@contextmanager
def _connected(address: str) -> Iterator[None]:
    # Ray prints what it does about lost workers on standard output, which is for results.
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what future versions of Ray will do
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            yield
        finally:
            ray.shutdown()
