"""Replications in parallel processes on this machine, with joblib; each uses one thread."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import TerminatedWorkerError

from commonweal.errors import InputError
from commonweal.study.replication import Replication, ReplicationTask, replicate

Item = TypeVar("Item")
Result = TypeVar("Result")

_CHECK_SECONDS = 1.0  # how often a worker checks that its parent is still running


def replicate_locally(tasks: Sequence[ReplicationTask], *, worker_count: int) -> Generator[Replication]:
    """Yield the results in the order in which they finish."""
    yield from in_processes(replicate, tasks, worker_count=worker_count)


def in_processes(work: Callable[[Item], Result], tasks: Sequence[Item], *, worker_count: int) -> Generator[Result]:
    """Yield the results of a function in the order in which they finish."""
    if worker_count == 1 or len(tasks) < 2:
        yield from map(work, tasks)
        return
    with (
        _interrupts_only_in_this_process(),
        parallel_config(
            backend="loky",
            inner_max_num_threads=1,
            initializer=_exit_with_parent,
            initargs=(os.getpid(),),
            max_nbytes=None,
        ),
    ):
        results = Parallel(
            n_jobs=min(worker_count, len(tasks)), return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1
        )(delayed(work)(task) for task in tasks)
    try:
        for result in results:  # noqa: UP028  (the inner generator is closed below, not before)
            yield result
    except TerminatedWorkerError:
        raise InputError(
            f"One of the {worker_count} workers was killed, probably because memory ran out. Run the same command "
            "again with fewer workers. Finished replications are kept."
        ) from None
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib warns about results that were not fetched, e.g. after an error
            results.close()
        get_reusable_executor(reuse=True).shutdown(kill_workers=True)  # idle workers would keep their data in memory


@contextmanager
def _interrupts_only_in_this_process() -> Iterator[None]:
    """Processes started inside ignore Ctrl-C, which a terminal sends to all of them; this process stops them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exit_with_parent(parent: int) -> None:
    """Exit this worker when its parent process has ended, because nobody would fetch its results."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_CHECK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
