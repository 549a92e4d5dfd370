"""`flower-supernode` for rehearsals on one machine: packages are loaded once, and a fork handles each message.

Flower starts a new Python process for each message, which loads torch again. That takes seconds per message, which is
too slow for tests. This runs Flower's own SuperNode and its own code for ClientApps. Only two things differ: who starts
the process, and how long the SuperNode sleeps before it looks for messages again. Flower has no public setting for
either. `tests/flower/test_private_flwr.py` lists the private parts of Flower that are used.

usage: python -m commonweal.flower.rehearsal.warm_executor OPTIONS OF FLOWER-SUPERNODE
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from contextlib import suppress
from types import SimpleNamespace

_LOADED = (
    "numpy", "torch", "flwr.clientapp", "flwr.supernode.runtime.run_clientapp", "commonweal.flower.member_app",
    "torch._dynamo",  # else the first optimiser of each process loads it, in 1.5 s
)  # fmt: skip
_LONGEST_SLEEP = 0.2
_EXECUTE = "--execute"


def run_supernode(options: list[str]) -> None:
    """Run a SuperNode that leaves messages to a second process."""
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode

    start_client_internal.time = SimpleNamespace(  # type: ignore[assignment, attr-defined]
        sleep=lambda seconds: time.sleep(min(seconds, _LONGEST_SLEEP))
    )
    address = f"127.0.0.1:{options[options.index('--port') + 1]}"
    subprocess.Popen(
        [sys.executable, "-m", "commonweal.flower.rehearsal.warm_executor", _EXECUTE, address, str(os.getpid())]
    )
    sys.argv = ["flower-supernode", *options, "--isolation", "process"]
    flower_supernode()


def execute(address: str, supernode: int) -> None:
    """Handle each of the SuperNode's messages in a fork, until the SuperNode ends."""
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
    from flwr.supercore.runtime import RuntimeHttpClient

    for module in _LOADED:
        with suppress(ImportError):  # an app may not need torch
            importlib.import_module(module)
    client = RuntimeHttpClient.from_server_address(
        server_address=address,
        insecure=True,  # on the loopback interface
        root_certificates=None,
        interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec")],
        retry_invoker=None,
    )
    request = AcquireTaskRequest(supported_task_types={TaskType.CLIENT_APP}, agentapp_fab_hashes=set())
    while os.getppid() == supernode:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        with suppress(Exception):  # the SuperNode is starting or ending
            answer = client.AcquireTask(request)
            if answer.HasField("task") and answer.token:
                _fork(address, answer.token)
        time.sleep(_LONGEST_SLEEP / 2)


def _fork(address: str, token: str) -> None:
    executor = os.getpid()
    if os.fork():
        return
    from flwr.supernode.runtime.run_clientapp import run_clientapp

    try:
        run_clientapp(runtime_api_address=address, token=token, insecure=True, parent_pid=executor)
    finally:  # never return into the executor's loop
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == _EXECUTE:
        execute(sys.argv[2], int(sys.argv[3]))
    else:
        run_supernode(sys.argv[1:])
