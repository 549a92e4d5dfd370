"""Replications side by side in processes of this machine, with joblib; each uses one thread."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from joblib import Parallel, delayed, parallel_config

from commonweal.experiments.replication import Replication, Task, replicate


def replicate_locally(tasks: Sequence[Task], *, worker_count: int) -> Iterator[Replication]:
    """The results as they come, in any order."""
    if worker_count == 1 or len(tasks) < 2:
        yield from map(replicate, tasks)
        return
    with parallel_config(backend="loky", inner_max_num_threads=1):
        results = Parallel(n_jobs=min(worker_count, len(tasks)), return_as="generator_unordered", pre_dispatch="n_jobs")(
            delayed(_replicate_while_asked)(task) for task in tasks
        )
        yield from results


def _replicate_while_asked(task: Task) -> Replication:
    """Stop when the process that asked is gone: its workers would otherwise compute for nobody."""
    asking = os.getppid()

    def stop_if_alone() -> None:
        if os.getppid() != asking:
            os._exit(1)

    return replicate(task, on_round=stop_if_alone)
