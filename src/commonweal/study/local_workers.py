"""Replications side by side in processes of this machine, with joblib; each uses one thread."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import TerminatedWorkerError

from commonweal.errors import InputError
from commonweal.study.replication import Replication, Task, replicate

_LOOK_SECONDS = 1.0  # how often a worker looks whether anybody still wants its results


def replicate_locally(tasks: Sequence[Task], *, worker_count: int) -> Generator[Replication]:
    """The results as they come, in any order."""
    if worker_count == 1 or len(tasks) < 2:
        yield from map(replicate, tasks)
        return
    with (
        _interrupts_for_this_process_alone(),
        parallel_config(
            backend="loky", inner_max_num_threads=1, initializer=_end_with, initargs=(os.getpid(),), max_nbytes=None
        ),
    ):
        results = Parallel(
            n_jobs=min(worker_count, len(tasks)), return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1
        )(delayed(replicate)(task) for task in tasks)
    try:
        for result in results:  # noqa: UP028  (the inner generator is closed below, not before)
            yield result
    except TerminatedWorkerError:
        raise InputError(
            f"each of the {worker_count} workers needs memory for a replication, got one that was killed, as systems "
            "do when memory runs out; run the same command again with fewer --workers: what is done is kept"
        ) from None
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib warns of results that nobody fetched; after an error nobody does
            results.close()
        get_reusable_executor(reuse=True).shutdown(kill_workers=True)  # they would wait for more with their data loaded


@contextmanager
def _interrupts_for_this_process_alone() -> Iterator[None]:
    """Processes started inside never see Ctrl-C, which a terminal sends to all of them: this one tells them to end."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with(asking: int) -> None:
    """End this worker when the process that asked is gone: it would otherwise go on computing for nobody."""

    def look() -> None:
        while os.getppid() == asking:
            time.sleep(_LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()
