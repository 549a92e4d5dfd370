"""Replications on the workers of a running Ray cluster; each uses one core.

All machines of the cluster need the same commonweal and the same data as this one. Only this process writes results:
workers send their rows to it. Ray retries what was lost with a worker or a machine.
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
from commonweal.study.replication import Replication, ReplicationTask, replicate
from commonweal.study.runner import Workers

_PORT_SECONDS = 5.0
_CLUSTER_SECONDS = 20.0
_RETRY_COUNT = 3
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_WAY_OUT = "start one with `ray start --head`, or correct the address"
_CONNECT = """
import ray, sys
try:
    ray.init(address=sys.argv[1], log_to_driver=False)
except Exception as error:
    sys.exit(" ".join(str(error).split()))
"""


@contextmanager
def ray_cluster(address: str, *, worker_count: int | None) -> Iterator[Workers]:
    """Connect to the cluster at host:port, or with "auto" to the one on this machine, until the block ends.

    At most `worker_count` replications run at a time; None means one per core of the cluster.
    """
    if address != "auto":
        _check_port(address)
    _check_cluster(address)
    with _connected(address):
        core_count = int(ray.cluster_resources().get("CPU", 0))
        if core_count == 0:
            raise InputError(
                f"The Ray cluster at {address!r} has no cores for tasks. Start its nodes with `ray start --num-cpus`."
            )
        yield partial(_replicate_remotely, running_limit=worker_count or core_count)


def _replicate_remotely(tasks: Sequence[ReplicationTask], *, running_limit: int) -> Generator[Replication]:
    attempt = ray.remote(num_cpus=1, max_retries=_RETRY_COUNT)(_attempt)
    waiting = iter(tasks)
    running = {attempt.remote(task): task for task in islice(waiting, running_limit)}
    while running:
        (done, *_), _ = ray.wait(list(running), num_returns=1)
        task = running.pop(done)
        running |= {attempt.remote(next_one): next_one for next_one in islice(waiting, 1)}
        yield _fetched(done, task)


def _attempt(task: ReplicationTask) -> Replication | CommonwealError:
    """Runs on a worker. Returns our errors, because Ray would wrap raised ones in its own."""
    try:
        return replicate(task)
    except CommonwealError as error:
        return error


def _fetched(done: Any, task: ReplicationTask) -> Replication:
    try:
        answer: Replication | CommonwealError = ray.get(done)
    except RayTaskError as error:
        if "failed to import on the worker" in str(error):
            raise InputError(
                "A machine of the Ray cluster cannot import commonweal "
                f"({str(error).strip().splitlines()[-1]}). Install the same version on every machine: pip install "
                "'commonweal[ray]'."
            ) from None
        raise
    except RayError as error:
        raise InputError(
            f"The Ray cluster lost replication {task.replication} of {task.experiment} ({type(error).__name__}) after "
            f"{_RETRY_COUNT} retries. Check the cluster's machines, then run the same command again. Finished "
            "replications are kept."
        ) from None
    if isinstance(answer, CommonwealError):
        raise answer
    return answer


def _check_port(address: str) -> None:
    """Check that the port answers. This is fast, and our message is clearer than Ray's."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise InputError(
            f"A Ray address must be host:port or auto, got {address!r}. Run the command on a machine of the cluster, "
            "with the address that `ray start --head` printed."
        )
    host = host.strip("[]")
    if host in _LOOPBACK:
        host = ray.util.get_node_ip_address()  # as Ray does
    try:
        socket.create_connection((host, int(port)), timeout=_PORT_SECONDS).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"No Ray cluster is running at {address!r} ({reason} from {host} port {port}): {_WAY_OUT}."
        ) from None


def _check_cluster(address: str) -> None:
    """Let another process connect first, because Ray waits for minutes and ignores Ctrl-C if no cluster answers."""
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
            f"This machine has a different version of Python or Ray from the cluster ({evidence}). Install the "
            "cluster's versions here."
        )
    raise InputError(f"No Ray cluster is running at {address!r} ({evidence}): {_WAY_OUT}.")


@contextmanager
def _connected(address: str) -> Iterator[None]:
    # Ray reports lost workers on standard output, which is for results.
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about changes in future versions of Ray
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            yield
        finally:
            ray.shutdown()
